package stage

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/life"
	"github.com/flowd-io/flowd/engine/internal/limit"
	"github.com/flowd-io/flowd/engine/internal/retry"
	"github.com/flowd-io/flowd/engine/internal/steps"
	"github.com/flowd-io/flowd/schema"
)

// Layout is what a pipeline consists of, built and checked.
type Layout struct {
	Name     string
	Counters *engine.Counters

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
	Turns       bool // any lane takes the next messages: they leave the lanes in their order
	MaxMessages int
	MaxBytes    int
	DrainTime   time.Duration
	Failure     Policy
	MaxReplay   int
	ExactlyOnce bool
	Untraced    bool // messages lose the context of a trace when they are read
	Restart     engine.Restart
	Timeout     time.Duration  // of calls that have none
	Limit       *limit.Limiter // over all inputs, or nil
	Middleware  []engine.Middleware
	Limits      []*limit.Limiter // all of them
	Hooks       []engine.Hook
	Observers   []engine.Observer
	End         *engine.Spot
	Tracer      engine.Tracer // nil: none
}

func (p *Layout) batcherNames() string {
	names := make([]string, len(p.Batchers))
	for i, b := range p.Batchers {
		names[i] = b.Name
	}
	return strings.Join(names, ", ")
}

// Output finds an output by its name, or is nil.
func (p *Layout) Output(name string) *OutputPlan {
	for _, o := range p.Outputs {
		if o.Name == name {
			return o
		}
	}
	return nil
}

// watchEvery is how often the run looks for calls that are past their deadlines.
func (p *Layout) watchEvery() time.Duration {
	least := 20 * time.Second
	for _, o := range p.Outputs {
		least = min(least, o.Timeout)
	}
	return max(least/4, time.Millisecond)
}

// Sight returns what sees the messages of the pipeline.
func (p *Layout) Sight() steps.Sight {
	s := steps.Sight{Observers: p.Observers, Tracer: p.Tracer}
	if len(p.Hooks) > 0 {
		s.Emit = p.EmitEvent
	}
	return s
}

// EmitEvent calls the hooks of the pipeline.
func (p *Layout) EmitEvent(e engine.Event) {
	if len(p.Hooks) == 0 {
		return
	}
	e.Pipeline, e.At = p.Name, time.Now()
	for _, h := range p.Hooks {
		callHook(h, e)
	}
}

func callHook(h engine.Hook, e engine.Event) {
	var err error
	defer engine.Recovered(&err) // a hook's panic is its own affair
	h(e)
}

// InputPlan is an input with its instances.
type InputPlan struct {
	Name    string
	Spot    *engine.Spot
	Type    string
	Inputs  []engine.Input // one per instance
	Steps   *steps.Program
	Takes   engine.TakesBack
	Delays  time.Duration
	Bounded bool // it keeps a position, and waits at MaxReplay
	Adopted bool // its instances are those of the plan before
	Early   bool // acks at once when it reads
	Follows bool // fed by outputs of this process
	Limit   *limit.Limiter
}

// BatcherPlan is a batcher with the outputs to which it leads.
type BatcherPlan struct {
	Name    string
	Spot    *engine.Spot
	Match   *expr.Cond // nil: all
	GoesOn  bool       // later batchers see the message too
	Key     *expr.Expr
	Batcher engine.Batcher // nil: messages pass as they arrive
	Steps   *steps.Program
	Outputs []*OutputPlan

	Concurrency int // batches in flight at once; 0: as many as there are
}

// plain says that messages leave the batcher as they came.
func (p *BatcherPlan) plain() bool { return p == nil || p.Batcher == nil && len(p.Steps.Ops) == 0 }

// GroupPlan is a group among the pipeline's steps. Its messages leave the lanes, go through its steps in whole batches,
// and come back to the lanes.
type GroupPlan struct {
	Name    string
	Steps   *steps.Program
	Index   int8 // among the groups of the pipeline, in the order of its steps
	Skipped bool // a message can come by without entering
	Size    int  // 0: no limit
	Bytes   int  // 0: no limit
	Wait    time.Duration
	AtOnce  bool // a free worker takes the messages that have arrived, instead of Wait
}

// OutputPlan is an output, or a composite of outputs.
type OutputPlan struct {
	Name        string
	Spot        *engine.Spot
	Type        string
	Out         engine.Output
	Route       *RoutePlan // nil: not a composite
	Feeds       bool       // takes more than dead letters
	Auto        bool       // concurrency is the most
	Retry       *retry.Plan
	Breaker     engine.Breaker
	Limit       *limit.Limiter
	Rebuild     func() (engine.Output, error)
	Steps       *steps.Program
	Concurrency int
	Timeout     time.Duration
	Failure     *Policy // nil: the pipeline's
	Sequential  bool
	Bulk        bool
}

// writes is how many messages one write takes at most.
func (o *OutputPlan) writes() int {
	if o.Bulk {
		return inside.BulkSize
	}
	return inside.SlabSize
}

// LeadsTo says whether to is among the members of o, or of one of them.
func (o *OutputPlan) LeadsTo(to *OutputPlan, seen []*OutputPlan) bool {
	if o.Route == nil || slices.Contains(seen, o) {
		return false
	}
	for _, m := range o.Route.Members {
		if m == to || m.LeadsTo(to, append(seen, o)) {
			return true
		}
	}
	return false
}

// edges returns the ways that messages can go.
func (p *Layout) edges() (all []engine.Edge) {
	for _, b := range p.Batchers {
		var from []string // without batchers, inputs
		for _, in := range p.Inputs {
			if b.Name == "" {
				from = append(from, "input "+in.Name)
				continue
			}
			all = append(all, engine.Edge{From: "input " + in.Name, To: "batcher " + b.Name})
		}
		if b.Name != "" {
			from = []string{"batcher " + b.Name}
		}
		for _, at := range from {
			for _, o := range b.Outputs {
				all = append(all, engine.Edge{From: at, To: "output " + o.Name})
			}
		}
	}
	for _, o := range p.Outputs {
		if o.Route != nil {
			for _, m := range o.Route.Members {
				all = append(all, engine.Edge{From: "output " + o.Name, To: "output " + m.Name})
			}
			continue
		}
		policy := &p.Failure
		if o.Failure != nil {
			policy = o.Failure
		}
		if policy.DeadLetter != nil && o.Feeds {
			all = append(all, engine.Edge{From: "output " + o.Name, To: "output " + policy.DeadLetter.Name, Failed: true})
		}
	}
	return all
}

// Leaves are the outputs that are written to.
func (o *OutputPlan) Leaves() []*OutputPlan {
	if o.Route == nil {
		return []*OutputPlan{o}
	}
	var all []*OutputPlan
	for _, m := range o.Route.Members {
		all = append(all, m.Leaves()...)
	}
	return all
}

// retryOf is how a message that this output failed is tried again: a dead letter without limit, unless another output
// of a fallback can take it.
func (o *OutputPlan) retryOf(m *engine.Message) *retry.Plan {
	if msg(m).Dead && branchOf(m).next() == nil {
		return o.Retry.Forever()
	}
	return o.Retry
}

// RoutePlan is a composite with its members.
type RoutePlan struct {
	engine.Route
	Members []*OutputPlan
}

// MostAuto is the most writes that `concurrency: auto` has in flight.
const MostAuto = 64
