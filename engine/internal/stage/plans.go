package stage

import (
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/internal/ledger"
	"github.com/flowd-io/flowd/engine/internal/limit"
	"github.com/flowd-io/flowd/engine/internal/retry"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

type InputPlan struct {
	Name    string
	Typ     string
	Inputs  []engine.Input // one per instance
	Steps   *steps.Program
	Takes   engine.TakesBack
	Then    ledger.Then // what the source can do with a failed message
	Delays  time.Duration
	Adopted bool // its instances are those of the plan before
	Early   bool // acks at once when it reads
	Follows bool // fed by outputs of this process
	Limit   *limit.Limiter
}

type BatcherPlan struct {
	Name    string
	Match   *expr.Cond // nil: all
	GoesOn  bool       // later batchers see the message too
	Key     *expr.Expr
	Batcher engine.Batcher // nil: messages pass as they come
	Steps   *steps.Program
	Outputs []*OutputPlan

	Concurrency int // batches in flight at once; 0: as many as there are
}

type OutputPlan struct {
	Name        string
	Typ         string
	Out         engine.Output
	Route       *RoutePlan // nil: not a composite
	Feeds       bool       // takes more than dead letters
	Auto        bool       // concurrency is the most
	Retry       *retry.RetryPlan
	Breaker     engine.Breaker
	Limit       *limit.Limiter
	Rebuild     func() (engine.Output, error)
	Steps       *steps.Program
	Concurrency int
	Timeout     time.Duration
	Failure     *Policy // nil: the pipeline's
	Sequential  bool
}

// GroupPlan is a group among the pipeline's steps. Its messages leave the lanes, go through its steps in whole
// batches, and come back to the lanes.
type GroupPlan struct {
	Name    string
	Steps   *steps.Program
	Index   int8 // among the groups of the pipeline, in the order of its steps
	Skipped bool // a message can come by without entering
	Size    int  // 0: no limit
	Bytes   int  // 0: no limit
	Wait    time.Duration
}

// routePlan is a composite with its members.
type RoutePlan struct {
	engine.Route
	Members []*OutputPlan
}

// mostAuto is how many writes `concurrency: auto` has in flight at the most.
const MostAuto = 64

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

// leaves are the outputs that are written to.
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

// retryOf is how a message that this output failed is tried again: a dead letter
// without limit, unless another output of a fallback can take it.
func (o *OutputPlan) retryOf(m *engine.Message) *retry.RetryPlan {
	if msg(m).Dead && viaOf(m).next() == nil {
		return o.Retry.Forever()
	}
	return o.Retry
}

// policy is where failed messages go.
type Policy struct {
	Then       ledger.Then
	DeadLetter *OutputPlan
}
