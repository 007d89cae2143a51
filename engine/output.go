package engine

import (
	"context"
	"math"
	"sync"
	"time"
)

// outRun is an output at work: a queue, writers that take from it, and a gate
// that holds them while the output does not work.
type outRun struct {
	r     *run
	plan  *outputPlan
	place place // where messages hold their keys

	mu      sync.Mutex // guards the fields below
	cond    sync.Cond
	ready   slabList
	again   slabList           // tries that are due, as the budget allows
	chains  map[string][]*turn // by key: who is in flight, and who waits behind
	writers []*writer
	idle    int       // writers that wait
	writing int       // writers that do not
	most    int       // writes at once
	auto    *adaptive // finds most; nil: it is configured
	gate    gate
	budget  budget
	paid    time.Time // when the next try may be paid for; zero: nobody waits for that
	at      *instance // that new writes use
	closed  bool
	starved bool // readers need not read for it
	figures outFigures
}

// instance is one life of an output: a write that hangs for ever is left behind
// with its instance, and a new one is opened.
type instance struct {
	out     Output
	calls   int // under way, those left behind included
	retired bool
}

func newOutRun(r *run, plan *outputPlan) *outRun {
	o := &outRun{r: r, plan: plan, most: plan.concurrency, budget: newBudget(), at: &instance{out: plan.out}, figures: outFigures{took: newHistogram(latencyBounds)}}
	o.cond.L = &o.mu
	o.place.push = func(b *Batch) {
		o.come(len(b.in.Msgs))
		o.push(b)
	}
	o.gate.plan = plan.breaker
	if plan.concurrency > 1 {
		o.chains = map[string][]*turn{}
	}
	if plan.auto {
		o.auto = newAdaptive(plan.concurrency)
		o.most = o.auto.limit()
	}
	return o
}

// spot is where messages of o hold their keys; nil, the lanes, without o.
func (o *outRun) spot() *place {
	if o == nil {
		return nil
	}
	return &o.place
}

// push queues a batch, or messages that belong to none.
func (o *outRun) push(b *Batch) { o.queue(b, &o.ready) }

// pushAgain queues messages for another try.
func (o *outRun) pushAgain(b *Batch) { o.queue(b, &o.again) }

func (o *outRun) queue(b *Batch, in *slabList) {
	if o.chains == nil {
		o.mu.Lock()
		in.push(b)
		o.mu.Unlock()
		o.cond.Signal()
		return
	}
	parts := []*Batch{b}
	if o.r.plan.ordered && b.in.Trigger == "" {
		parts = spread(b, o.plan.concurrency)
	}
	o.mu.Lock()
	for _, p := range parts {
		if p != nil && o.chain(p) {
			in.push(p)
		}
	}
	o.mu.Unlock()
	o.cond.Broadcast()
}

// turn is a batch's place in the chains of its keys. It outlives the slab.
type turn struct {
	b        *Batch // until it is taken
	keys     []string
	blockers int // keys in whose chains others are before it
}

// chain queues b behind what has one of its keys; true when there is nothing.
// o.mu is held.
func (o *outRun) chain(b *Batch) bool {
	t := &turn{b: b}
	if b.in.Trigger != "" && len(b.in.Msgs) > 0 && b.in.Msgs[0].in.BatchKey != "" {
		o.link(t, "b"+b.in.Msgs[0].in.BatchKey)
	}
	if o.r.plan.ordered {
		for i := range b.in.Msgs {
			b.in.Msgs[i].eachLeafKey(func(leaf *Message) { o.link(t, "o"+string(leaf.Key)) })
		}
	}
	if len(t.keys) > 0 {
		b.in.Way.turn = t
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
		o.gate.probing = false
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
			o.ready.push(next.b)
			next.b = nil
		}
	}
}

// pop waits for what one write takes: a batch, or the messages that are there.
// With probe the write is to show whether the output works again; b may be nil
// then. Both are nothing when the run is over.
func (o *outRun) pop() (b *Batch, probe bool) {
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
	if o.writing++; o.ready.head != nil {
		o.cond.Signal()
	}
}

// next is what a writer may do now; o.mu is held.
func (o *outRun) next() (b *Batch, probe bool) {
	if o.writing >= o.most || o.closed {
		return nil, false
	}
	limit := slabSize
	if o.gate.shut {
		if !o.gate.due(time.Now()) {
			return o.detour(), false
		}
		if o.gate.reopen && o.stuck() >= mostStuck {
			return nil, false // one that comes back has the writers look again
		}
		if _, can := o.at.out.(Prober); can && !o.gate.half || o.gate.reopen {
			o.gate.probing = true
			return nil, true
		}
		limit, probe = 1, true
	}
	switch {
	case probe && o.leastTried() > 0 && o.ready.head != nil:
		b = o.take(&o.ready, limit)
	case o.again.head != nil && o.pays(probe):
		b = o.take(&o.again, limit)
	case o.ready.head != nil:
		b = o.take(&o.ready, limit)
	default:
		return nil, false
	}
	o.gate.probing = probe
	return b, probe
}

// leastTried brings what has been tried least to the front of what is to be tried
// again, and says how often: a long outage is not to use up the attempts of those that
// happen to be the probes. o.mu is held.
func (o *outRun) leastTried() int {
	least, at, slabs := math.MaxInt, o.again.at, 0
	for b := o.again.head; b != nil; b = b.in.Next {
		least = min(least, trialOf(&b.in.Msgs[at]).tries())
		at = 0
		slabs++
	}
	for ; slabs > 0 && trialOf(&o.again.head.in.Msgs[o.again.at]).tries() > least; slabs-- {
		o.again.push(o.again.pop(len(o.again.head.in.Msgs) - o.again.at))
	}
	return least
}

// pays says whether the budget lets another try pass; if not, it is asked again
// when it will. A probe is free.
func (o *outRun) pays(probe bool) bool {
	if o.plan.group != nil { // it is no place outside that could be overrun
		return true
	}
	now := time.Now()
	if probe || now.Before(o.paid) {
		return probe
	}
	ok, at := o.budget.take(now)
	if o.paid = at; !ok {
		o.r.timers.after(at, nil, o.wake)
	}
	return ok
}

// wake has the writers look again. An output that is to be probed and has nothing
// to write is fed: its next message is the probe.
func (o *outRun) wake() {
	o.mu.Lock()
	if o.gate.shut && o.gate.due(time.Now()) && o.ready.head == nil && o.again.head == nil {
		o.feed(true)
	}
	o.mu.Unlock()
	o.cond.Broadcast()
	o.r.relieve()
}

// take takes what one write takes from a queue; o.mu is held.
func (o *outRun) take(from *slabList, limit int) *Batch {
	head := from.head
	if head.whole() {
		return from.pop(len(head.in.Msgs))
	}
	want := min(limit, (from.msgs+o.most-1)/o.most)
	if from == &o.again {
		want = limit // one write is one token
	}
	b := from.pop(want)
	for next := from.head; next != nil && len(b.in.Msgs) < want && !next.whole() && next.likewise(b); next = from.head {
		if cap(b.in.Msgs) < want {
			b = b.into(newSlab(0))
		}
		from.pop(want - len(b.in.Msgs)).into(b)
	}
	return b
}

// into moves all messages of b to another batch of its batcher.
func (b *Batch) into(to *Batch) *Batch {
	to.follows(b)
	for i := range b.in.Msgs {
		to.in.Take(&b.in.Msgs[i])
	}
	recycle(b)
	return to
}

// come counts messages that come to a group: they will go on to the lanes.
func (o *outRun) come(n int) {
	if o.plan.group != nil {
		o.r.upstream.Add(int64(n))
	}
}

// hungry says whether a writer has nothing to do.
func (o *outRun) hungry() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.idle > 0 && o.ready.head == nil && o.again.head == nil && (!o.gate.shut || o.gate.due(time.Now()))
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

func (o *outRun) end(at *instance) {
	o.mu.Lock()
	at.calls--
	last := at.retired && at.calls == 0
	o.mu.Unlock()
	if last {
		o.r.plan.plugins.dispose("output "+o.plan.name, at.out, o.r.plan.drain)
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
	out, err := o.plan.rebuild()
	if err != nil {
		return err
	}
	if opener, ok := out.(Opener); ok {
		if err := guard(ctx, opener.Open); err != nil {
			return err
		}
	}
	o.mu.Lock()
	old := o.at
	o.at, o.gate.reopen = &instance{out: out}, false
	old.retired = true
	o.r.plan.plugins.swap(o.plan.out, out)
	o.plan.out = out
	last := old.calls == 0
	o.mu.Unlock()
	if last {
		o.r.plan.plugins.dispose("output "+o.plan.name, old.out, o.r.plan.drain)
	}
	return nil
}
