package engine

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
)

// Plan is a pipeline that is built and checked, and has done no I/O. It runs once;
// [Plan.Replace] lets another take its place.
type Plan struct {
	Name string

	log         *slog.Logger
	secrets     *schema.Secrets // that nothing shows
	inputs      []*inputPlan
	steps       *program
	groups      []*groupPlan   // among the steps
	batchers    []*batcherPlan // in the order in which they are tried
	outputs     []*outputPlan
	plugins     []part // all that may want to be opened or closed, outputs first
	opened      int    // how many of them were opened
	workers     int
	orderBy     *expr.Expr
	ordered     bool
	serial      bool // messages of a key go through the pipeline's own steps one by one
	maxMessages int
	maxBytes    int
	drain       time.Duration
	failure     policy
	maxReplay   int
	restart     Restart
	timeout     time.Duration // of calls that have none of their own
	limit       *Limiter      // over all inputs, or nil
	middleware  []Middleware
	limits      []*Limiter // all of them
	hooks       []Hook
	pauses      *pauses
	drained     chan struct{} // closed by Drain
	drainOnce   sync.Once

	next        *Plan         // that takes this one's place; set before replaced is closed
	replaced    chan struct{} // closed by Replace
	replaceOnce sync.Once
	before      *Plan      // whose place this one takes
	adopted     []any      // plugins of the plan before, which are open already
	inherited   *Handover  // from the plan before
	swaps       sync.Mutex // guards the plugin in parts and output plans, which may be replaced, and the fields below
	shut        []any      // inputs that failed and were closed
	over        bool       // it ended without a plan that takes its place: everything is closed

	current atomic.Pointer[run]
}

// part is a plugin with what errors call it: "output lake".
type part struct {
	name   string
	plugin any
}

// Stats are the counts so far, at any time.
func (p *Plan) Stats() Stats {
	r := p.current.Load()
	if r == nil {
		return Stats{}
	}
	return Stats{r.roots.read(), r.pieces.read()}
}

func (p *Plan) batcherNames() string {
	names := make([]string, len(p.batchers))
	for i, b := range p.batchers {
		names[i] = b.name
	}
	return strings.Join(names, ", ")
}

// open opens outputs, steps and inputs, in this order.
func (p *Plan) open(ctx context.Context) error {
	for _, x := range p.plugins {
		if o, ok := x.plugin.(Opener); ok && !slices.Contains(p.adopted, x.plugin) {
			if err := guard(ctx, o.Open); err != nil {
				return fmt.Errorf("%s: %w", x.name, err)
			}
		}
		p.opened++
	}
	return nil
}

// close closes what was opened, inputs first.
func (p *Plan) close(ctx context.Context) (first error) {
	for ; p.opened > 0; p.opened-- {
		x := p.plugins[p.opened-1]
		c, ok := x.plugin.(Closer)
		if !ok || p.Replaced() && slices.Contains(p.next.adopted, x.plugin) || !p.opens(x.plugin, false) {
			continue
		}
		if p.retires(x.plugin) {
			p.log.Warn("a write has not come back and is left behind", "place", x.name)
			continue
		}
		if err := guard(ctx, c.Close); err != nil && first == nil {
			first = fmt.Errorf("%s: close: %w", x.name, err)
		}
	}
	return first
}

// retires says whether a write still uses an output, which is closed when that comes
// back.
func (p *Plan) retires(plugin any) bool {
	r := p.current.Load()
	if r == nil {
		return false
	}
	for _, o := range r.outputs {
		if o.retire(plugin) {
			return true
		}
	}
	return false
}

// watchEvery is how often calls that are past their deadlines are looked for.
func (p *Plan) watchEvery() time.Duration {
	least := 20 * time.Second
	for _, o := range p.outputs {
		least = min(least, o.timeout)
	}
	return max(least/4, time.Millisecond)
}

// swap takes note that an output has a new instance; close will close it.
func (p *Plan) swap(o *outputPlan, out Output) {
	p.swaps.Lock()
	defer p.swaps.Unlock()
	for i := range p.plugins {
		if p.plugins[i].plugin == any(o.out) {
			p.plugins[i].plugin = out
		}
	}
	o.out = out
}

// opens notes that an input is opened or closed, and says whether it was not yet.
func (p *Plan) opens(in any, open bool) bool {
	p.swaps.Lock()
	defer p.swaps.Unlock()
	i := slices.Index(p.shut, in)
	switch {
	case open && i >= 0:
		p.shut = slices.Delete(p.shut, i, i+1)
	case !open && i < 0:
		p.shut = append(p.shut, in)
	default:
		return false
	}
	return true
}

// isShut says that an input has failed and is closed.
func (p *Plan) isShut(in any) bool {
	p.swaps.Lock()
	defer p.swaps.Unlock()
	return slices.Contains(p.shut, in)
}

// dispose closes an instance that was replaced, in the background: it may hang.
func (p *Plan) dispose(name string, plugin any) {
	c, ok := plugin.(Closer)
	if !ok {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), p.drain)
		defer cancel()
		if err := guard(ctx, c.Close); err != nil {
			p.log.Warn("close of a replaced instance", "of", name, "err", err)
		}
	}()
}
