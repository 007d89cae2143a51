package stage

import (
	"log/slog"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/internal/life"
	"github.com/flowd-io/flowd/engine/internal/limit"
	"github.com/flowd-io/flowd/engine/internal/steps"
	"github.com/flowd-io/flowd/schema"
)

// layout is what a pipeline consists of, built and checked.
type Layout struct {
	Name string

	Log         *slog.Logger
	Secrets     *schema.Secrets // that nothing shows
	Inputs      []*InputPlan
	Steps       *steps.Program
	Groups      []*GroupPlan   // among the steps
	Batchers    []*BatcherPlan // in the order in which they are tried
	Outputs     []*OutputPlan
	Plugins     life.Plugins
	Pauses      *life.Pauses
	Workers     int
	OrderBy     *expr.Expr
	Ordered     bool
	Serial      bool // messages of a key go through the pipeline's own steps one by one
	MaxMessages int
	MaxBytes    int
	DrainTime   time.Duration
	Failure     Policy
	MaxReplay   int
	Restart     engine.Restart
	Timeout     time.Duration  // of calls that have none of their own
	Limit       *limit.Limiter // over all inputs, or nil
	Middleware  []engine.Middleware
	Limits      []*limit.Limiter // all of them
	Hooks       []engine.Hook
}

func (p *Layout) batcherNames() string {
	names := make([]string, len(p.Batchers))
	for i, b := range p.Batchers {
		names[i] = b.Name
	}
	return strings.Join(names, ", ")
}

// output is the output of a name, or nil.
func (p *Layout) Output(name string) *OutputPlan {
	for _, o := range p.Outputs {
		if o.Name == name {
			return o
		}
	}
	return nil
}

// watchEvery is how often calls that are past their deadlines are looked for.
func (p *Layout) watchEvery() time.Duration {
	least := 20 * time.Second
	for _, o := range p.Outputs {
		least = min(least, o.Timeout)
	}
	return max(least/4, time.Millisecond)
}
