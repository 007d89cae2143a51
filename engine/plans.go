package engine

import (
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine/expr"
)

type inputPlan struct {
	name    string
	typ     string
	inputs  []Input // one per instance
	steps   *program
	takes   TakesBack
	then    then // what the source can do with a failed message
	delays  time.Duration
	adopted bool // its instances are those of the plan before
	early   bool // acks at once when it reads
	follows bool // fed by outputs of this process
	limit   *Limiter
}

type batcherPlan struct {
	name    string
	match   *expr.Cond // nil: all
	goesOn  bool       // later batchers see the message too
	key     *expr.Expr
	batcher Batcher // nil: messages pass as they come
	steps   *program
	outputs []*outputPlan

	concurrency int // batches in flight at once; 0: as many as there are
}

type outputPlan struct {
	name        string
	typ         string
	out         Output
	route       *routePlan // nil: not a composite
	feeds       bool       // takes more than dead letters
	auto        bool       // concurrency is the most
	retry       *retryPlan
	breaker     Breaker
	limit       *Limiter
	rebuild     func() (Output, error)
	steps       *program
	concurrency int
	timeout     time.Duration
	failure     *policy // nil: the pipeline's
	sequential  bool
	group       *groupPlan // whose it is, in the place of a plugin
}

// groupPlan is a group of a plan. To its messages it is an output, which writes
// them into the lanes again.
type groupPlan struct {
	outputPlan
	index   int8 // among the groups of the pipeline, in the order of its steps
	skipped bool // a message can come by without entering
	size    int  // 0: no limit
	bytes   int  // 0: no limit
	wait    time.Duration
}

// routePlan is a composite with its members.
type routePlan struct {
	Route
	members []*outputPlan
}

// mostAuto is how many writes `concurrency: auto` has in flight at the most.
const mostAuto = 64

func (o *outputPlan) leadsTo(to *outputPlan, seen []*outputPlan) bool {
	if o.route == nil || slices.Contains(seen, o) {
		return false
	}
	for _, m := range o.route.members {
		if m == to || m.leadsTo(to, append(seen, o)) {
			return true
		}
	}
	return false
}

// leaves are the outputs that are written to.
func (o *outputPlan) leaves() []*outputPlan {
	if o.route == nil {
		return []*outputPlan{o}
	}
	var all []*outputPlan
	for _, m := range o.route.members {
		all = append(all, m.leaves()...)
	}
	return all
}

// retryOf is how a message that this output failed is tried again: a dead letter
// without limit, unless another output of a fallback can take it.
func (o *outputPlan) retryOf(m *Message) *retryPlan {
	if m.in.Dead && viaOf(m).next() == nil {
		return o.retry.forever()
	}
	return o.retry
}

// policy is where failed messages go.
type policy struct {
	then       then
	deadLetter *outputPlan
}
