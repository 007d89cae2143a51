package life

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/guard"
	"github.com/flowd-io/flowd/schema"
)

// Plugins are all parts of a pipeline that may want to be opened or closed, outputs first.
type Plugins struct {
	Log     *slog.Logger
	Secrets *schema.Secrets
	Adopted []any // of the plan before, which are open already

	opened int // how many of them were opened; of who opens and closes

	mu   sync.Mutex // guards the fields below
	list []part
	shut []any // inputs that failed and were closed
}

// part is a plugin with what errors call it: "output lake".
type part struct {
	name   string
	plugin any
}

// Add adds a plugin.
func (p *Plugins) Add(name string, plugin any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, part{name, plugin})
}

// AddOnce is Add for a pointer that may be there already.
func (p *Plugins) AddOnce(name string, plugin any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := part{name, plugin}
	if !slices.ContainsFunc(p.list, func(y part) bool { return y.name == name && y == x }) {
		p.list = append(p.list, x)
	}
}

// Find is the index-th of those with a name that are a T.
func Find[T any](p *Plugins, name string, index int) (plugin T, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.list {
		if x.name != name {
			continue
		}
		if t, is := x.plugin.(T); is && index == 0 {
			return t, true
		}
		index--
	}
	return plugin, false
}

// Open opens outputs, steps and inputs, in this order. Those of the plan before are reopened.
func (p *Plugins) Open(ctx context.Context) error {
	for _, x := range p.list {
		if r, ok := x.plugin.(engine.Reopener); ok && p.Has(x.plugin) && !p.IsShut(x.plugin) {
			err := guard.Guard(ctx, func(ctx context.Context) error { r.Reopen(ctx); return nil })
			if err != nil {
				p.Log.Warn("it could not be reopened for the reload", "place", x.name, "err", err)
			}
		}
		if o, ok := x.plugin.(engine.Opener); ok && !p.Has(x.plugin) {
			if err := guard.Guard(ctx, o.Open); err != nil {
				return fmt.Errorf("%s: %w", x.name, err)
			}
		}
		p.opened++
	}
	return nil
}

// Close closes what was opened, inputs first, but for what stays, or is busy: then it is left behind.
func (p *Plugins) Close(ctx context.Context, stays, busy func(plugin any) bool) (first error) {
	for ; p.opened > 0; p.opened-- {
		x := p.list[p.opened-1]
		c, ok := x.plugin.(engine.Closer)
		if !ok || stays(x.plugin) || !p.Opens(x.plugin, false) {
			continue
		}
		if busy(x.plugin) {
			p.Log.Warn("a write has not returned and is abandoned", "place", x.name)
			continue
		}
		if err := guard.Guard(ctx, c.Close); err != nil && first == nil {
			first = fmt.Errorf("%s: close: %w", x.name, err)
		}
	}
	return first
}

// Has says that a plugin is of the plan before.
func (p *Plugins) Has(plugin any) bool { return slices.Contains(p.Adopted, plugin) }

// Swap takes note that a plugin has a new instance; close will close it.
func (p *Plugins) Swap(old, now any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.list {
		if p.list[i].plugin == old {
			p.list[i].plugin = now
		}
	}
}

// Opens notes that an input is opened or closed, and says whether it was not yet.
func (p *Plugins) Opens(in any, open bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
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

// IsShut says that an input has failed and is closed.
func (p *Plugins) IsShut(in any) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.shut, in)
}

// Bequeath leaves to others which of their inputs have failed and are closed.
func (p *Plugins) Bequeath(to *Plugins) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, in := range p.shut {
		if to.Has(in) {
			to.shut = append(to.shut, in)
		}
	}
}

// Dispose closes an instance that was replaced, in the background: it may hang.
func (p *Plugins) Dispose(name string, plugin any, within time.Duration) {
	c, ok := plugin.(engine.Closer)
	if !ok {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		if err := guard.Guard(ctx, c.Close); err != nil {
			p.Log.Warn("close of a replaced instance", "of", name, "err", err)
		}
	}()
}

// Tables are the tables of the process.
func (p *Plugins) Tables() (all []engine.TableState) {
	p.mu.Lock()
	parts := slices.Clone(p.list)
	p.mu.Unlock()
	for _, x := range parts {
		if of, ok := x.plugin.(engine.Tabled); ok {
			t := of.Table()
			t.Name, t.Err = strings.TrimPrefix(x.name, "table "), p.Secrets.Mask(t.Err)
			all = append(all, t)
		}
	}
	return all
}

// Troubles are what plugins say of themselves.
func (p *Plugins) Troubles() (all []engine.Trouble) {
	p.mu.Lock()
	parts := slices.Clone(p.list)
	p.mu.Unlock()
	for _, x := range parts {
		if of, ok := x.plugin.(engine.Troubled); ok {
			if t := of.Trouble(); t != nil {
				t.Place, t.Cause = x.name, p.Secrets.Mask(t.Cause)
				all = append(all, *t)
			}
		}
	}
	return all
}
