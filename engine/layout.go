package engine

import (
	"log/slog"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
)

// layout is what a pipeline consists of, built and checked.
type layout struct {
	Name string

	log         *slog.Logger
	secrets     *schema.Secrets // that nothing shows
	inputs      []*inputPlan
	steps       *program
	groups      []*groupPlan   // among the steps
	batchers    []*batcherPlan // in the order in which they are tried
	outputs     []*outputPlan
	plugins     plugins
	pauses      *pauses
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
}

func (p *layout) batcherNames() string {
	names := make([]string, len(p.batchers))
	for i, b := range p.batchers {
		names[i] = b.name
	}
	return strings.Join(names, ", ")
}

// output is the output of a name, or nil.
func (p *layout) output(name string) *outputPlan {
	for _, o := range p.outputs {
		if o.name == name {
			return o
		}
	}
	return nil
}

// watchEvery is how often calls that are past their deadlines are looked for.
func (p *layout) watchEvery() time.Duration {
	least := 20 * time.Second
	for _, o := range p.outputs {
		least = min(least, o.timeout)
	}
	return max(least/4, time.Millisecond)
}
