package stage

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/guard"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/order"
	"github.com/flowd-io/flowd/engine/internal/retry"
)

// outRun is an output at work: a queue, writers that take from it, and a gate
// that holds them while the output does not work.
type outRun struct {
	r     *Run
	plan  *OutputPlan
	place order.Place // where messages hold their keys

	mu      sync.Mutex // guards the fields below
	cond    sync.Cond
	ready   flow.SlabList
	again   flow.SlabList      // tries that are due, as the budget allows
	chains  map[string][]*turn // by key: who is in flight, and who waits behind
	writers []*writer
	idle    int             // writers that wait
	writing int             // writers that do not
	most    int             // writes at once
	auto    *retry.Adaptive // finds most; nil: it is configured
	gate    retry.Gate
	budget  retry.Budget
	paid    time.Time // when the next try may be paid for; zero: nobody waits for that
	at      *instance // that new writes use
	closed  bool
	starved bool // readers need not read for it
	figures outFigures
}

// instance is one life of an output: a write that hangs for ever is left behind
// with its instance, and a new one is opened.
type instance struct {
	out     engine.Output
	calls   int // under way, those left behind included
	retired bool
}

func newOutRun(r *Run, plan *OutputPlan) *outRun {
	o := &outRun{r: r, plan: plan, most: plan.Concurrency, budget: retry.NewBudget(), at: &instance{out: plan.Out}, figures: outFigures{took: guard.NewHistogram(guard.LatencyBounds)}}
	o.cond.L = &o.mu
	o.place.Push = func(b *engine.Batch) {
		o.come(len(slab(b).Msgs))
		o.Push(b)
	}
	o.gate.Plan = plan.Breaker
	if plan.Concurrency > 1 {
		o.chains = map[string][]*turn{}
	}
	if plan.Auto {
		o.auto = retry.NewAdaptive(plan.Concurrency)
		o.most = o.auto.Limit()
	}
	return o
}

// spot is where messages of o hold their keys; nil, the lanes, without o.
func (o *outRun) spot() *order.Place {
	if o == nil {
		return nil
	}
	return &o.place
}

// push queues a batch, or messages that belong to none.
func (o *outRun) Push(b *engine.Batch) { o.queue(b, &o.ready) }

// pushAgain queues messages for another try.
func (o *outRun) pushAgain(b *engine.Batch) { o.queue(b, &o.again) }

func (o *outRun) queue(b *engine.Batch, in *flow.SlabList) {
	if o.chains == nil {
		o.mu.Lock()
		in.Push(b)
		o.mu.Unlock()
		o.cond.Signal()
		return
	}
	parts := []*engine.Batch{b}
	if o.r.plan.Ordered && slab(b).Trigger == "" {
		parts = flow.Spread(b, o.plan.Concurrency)
	}
	o.mu.Lock()
	for _, p := range parts {
		if p != nil && o.chain(p) {
			in.Push(p)
		}
	}
	o.mu.Unlock()
	o.cond.Broadcast()
}

// turn is a batch's place in the chains of its keys. It outlives the slab.
type turn struct {
	b        *engine.Batch // until it is taken
	keys     []string
	blockers int // keys in whose chains others are before it
}

// chain queues b behind what has one of its keys; true when there is nothing.
// o.mu is held.
func (o *outRun) chain(b *engine.Batch) bool {
	t := &turn{b: b}
	if slab(b).Trigger != "" && len(slab(b).Msgs) > 0 && msg(&slab(b).Msgs[0]).BatchKey != "" {
		o.link(t, "b"+msg(&slab(b).Msgs[0]).BatchKey)
	}
	if o.r.plan.Ordered {
		for i := range slab(b).Msgs {
			order.EachLeafKey(&slab(b).Msgs[i], func(leaf *engine.Message) { o.link(t, "o"+string(leaf.Key)) })
		}
	}
	if len(t.keys) > 0 {
		slab(b).Way.Turn = t
	}
	return t.blockers == 0
}

func (o *outRun) link(t *turn, key string) {
	chain := o.chains[key]
	if n := len(chain); n > 0 {
		if chain[n-1] == t {
			return
		}
		t.blockers++
	}
	o.chains[key] = append(chain, t)
	t.keys = append(t.keys, key)
}

// done ends a writer's turn.
func (o *outRun) done(t *turn, probe bool) {
	o.mu.Lock()
	if probe { // it may have had nothing to write
		o.gate.Probing = false
	}
	if t != nil {
		o.pass(t)
	}
	o.writing--
	o.mu.Unlock()
	o.cond.Broadcast()
}

// pass lets those go on that waited behind t; o.mu is held.
func (o *outRun) pass(t *turn) {
	for _, key := range t.keys {
		chain := o.chains[key][1:]
		if len(chain) == 0 {
			delete(o.chains, key)
			continue
		}
		o.chains[key] = chain
		if next := chain[0]; next.blockers > 1 {
			next.blockers--
		} else {
			next.blockers = 0
			o.ready.Push(next.b)
			next.b = nil
		}
	}
}

// pop waits for what one write takes: a batch, or the messages that are there.
// With probe the write is to show whether the output works again; b may be nil
// then. Both are nothing when the run is over.
func (o *outRun) pop() (b *engine.Batch, probe bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.closed {
		if b, probe = o.next(); b != nil || probe {
			o.begins()
			return b, probe
		}
		o.idle++
		o.mu.Unlock()
		o.r.relieve()
		o.mu.Lock()
		if b, probe = o.next(); b != nil || probe {
			o.idle--
			o.begins()
			return b, probe
		}
		if !o.closed {
			o.cond.Wait()
		}
		o.idle--
	}
	return nil, false
}

// begins counts a write, and leaves the rest of what waits to the next writer.
func (o *outRun) begins() {
	if o.writing++; o.ready.Head != nil {
		o.cond.Signal()
	}
}

// next is what a writer may do now; o.mu is held.
func (o *outRun) next() (b *engine.Batch, probe bool) {
	if o.writing >= o.most || o.closed {
		return nil, false
	}
	limit := inside.SlabSize
	if o.gate.Shut {
		if !o.gate.Due(time.Now()) {
			return o.detour(), false
		}
		if o.gate.Reopen && o.stuck() >= mostStuck {
			return nil, false // one that comes back has the writers look again
		}
		if _, can := o.at.out.(engine.Prober); can && !o.gate.Half || o.gate.Reopen {
			o.gate.Probing = true
			return nil, true
		}
		limit, probe = 1, true
	}
	switch {
	case probe && o.leastTried() > 0 && o.ready.Head != nil:
		b = o.take(&o.ready, limit)
	case o.again.Head != nil && o.pays(probe):
		b = o.take(&o.again, limit)
	case o.ready.Head != nil:
		b = o.take(&o.ready, limit)
	default:
		return nil, false
	}
	o.gate.Probing = probe
	return b, probe
}

// leastTried brings what has been tried least to the front of what is to be tried
// again, and says how often: a long outage is not to use up the attempts of those that
// happen to be the probes. o.mu is held.
func (o *outRun) leastTried() int {
	least, at, slabs := math.MaxInt, o.again.At, 0
	for b := o.again.Head; b != nil; b = slab(b).Next {
		least = min(least, retry.TrialOf(&slab(b).Msgs[at]).Tries())
		at = 0
		slabs++
	}
	for ; slabs > 0 && retry.TrialOf(&slab(o.again.Head).Msgs[o.again.At]).Tries() > least; slabs-- {
		o.again.Push(o.again.Pop(len(slab(o.again.Head).Msgs) - o.again.At))
	}
	return least
}

// pays says whether the budget lets another try pass; if not, it is asked again
// when it will. A probe is free.
func (o *outRun) pays(probe bool) bool {
	if o.plan.Group != nil { // it is no place outside that could be overrun
		return true
	}
	now := time.Now()
	if probe || now.Before(o.paid) {
		return probe
	}
	ok, at := o.budget.Take(now)
	if o.paid = at; !ok {
		o.r.timers.After(at, nil, o.wake)
	}
	return ok
}

// wake has the writers look again. An output that is to be probed and has nothing
// to write is fed: its next message is the probe.
func (o *outRun) wake() {
	o.mu.Lock()
	if o.gate.Shut && o.gate.Due(time.Now()) && o.ready.Head == nil && o.again.Head == nil {
		o.feed(true)
	}
	o.mu.Unlock()
	o.cond.Broadcast()
	o.r.relieve()
}

// take takes what one write takes from a queue; o.mu is held.
func (o *outRun) take(from *flow.SlabList, limit int) *engine.Batch {
	head := from.Head
	if flow.Whole(head) {
		return from.Pop(len(slab(head).Msgs))
	}
	want := min(limit, (from.Msgs+o.most-1)/o.most)
	if from == &o.again {
		want = limit // one write is one token
	}
	b := from.Pop(want)
	for next := from.Head; next != nil && len(slab(b).Msgs) < want && !flow.Whole(next) && flow.Likewise(next, b); next = from.Head {
		if cap(slab(b).Msgs) < want {
			b = into(b, flow.NewSlab(0))
		}
		into(from.Pop(want-len(slab(b).Msgs)), b)
	}
	return b
}

// into moves all messages of b to another batch of its batcher.
func into(b *engine.Batch, to *engine.Batch) *engine.Batch {
	flow.Follows(to, b)
	for i := range slab(b).Msgs {
		slab(to).Take(&slab(b).Msgs[i])
	}
	flow.Recycle(b)
	return to
}

// come counts messages that come to a group: they will go on to the lanes.
func (o *outRun) come(n int) {
	if o.plan.Group != nil {
		o.r.upstream.Add(int64(n))
	}
}

// hungry says whether a writer has nothing to do.
func (o *outRun) hungry() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.idle > 0 && o.ready.Head == nil && o.again.Head == nil && (!o.gate.Shut || o.gate.Due(time.Now()))
}

func (o *outRun) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.cond.Broadcast()
}

// begin takes the instance that a call is to use, which end gives back.
func (o *outRun) begin() *instance {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.at.calls++
	return o.at
}

func (o *outRun) End(at *instance) {
	o.mu.Lock()
	at.calls--
	last := at.retired && at.calls == 0
	o.mu.Unlock()
	if last {
		o.r.plan.Plugins.Dispose("output "+o.plan.Name, at.out, o.r.plan.DrainTime)
	}
}

// stuck says how many calls have been left behind and not come back; o.mu is held.
func (o *outRun) stuck() (n int) {
	for _, w := range o.writers {
		if w.abandoned() {
			n++
		}
	}
	return n
}

// reopen makes a new instance in the place of one whose write hangs.
func (o *outRun) reopen(ctx context.Context) error {
	out, err := o.plan.Rebuild()
	if err != nil {
		return err
	}
	if opener, ok := out.(engine.Opener); ok {
		if err := guard.Guard(ctx, opener.Open); err != nil {
			return err
		}
	}
	o.mu.Lock()
	old := o.at
	o.at, o.gate.Reopen = &instance{out: out}, false
	old.retired = true
	o.r.plan.Plugins.Swap(o.plan.Out, out)
	o.plan.Out = out
	last := old.calls == 0
	o.mu.Unlock()
	if last {
		o.r.plan.Plugins.Dispose("output "+o.plan.Name, old.out, o.r.plan.DrainTime)
	}
	return nil
}
