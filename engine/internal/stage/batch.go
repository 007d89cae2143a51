package stage

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/guard"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/ledger"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// batcherRun is a batcher at work. One that regroups has a loop of its own,
// which alone calls the plugin; one without passes messages on as they come.
type batcherRun struct {
	r       *Run
	Plan    *BatcherPlan
	outputs []destination
	leaves  []*sink       // that are written to
	wake    chan struct{} // has room for one
	due     time.Time     // when the plugin wants to be called; of the loop
	copies  tally         // what Batch.Copy has made and the run does not know yet; of the loop

	mu     sync.Mutex // guards the fields below
	inbox  flow.SlabList
	asked  int           // messages to send under pressure
	open   int           // messages in open batches
	flying int           // batches on their way, where that is limited
	kept   flow.SlabList // those that wait for it

	sends sync.Mutex // held while batches that were kept are sent on, so that they keep their order

	since atomic.Int64 // of the plugin's call under way, unix nanoseconds; 0: none
	sent  map[engine.Trigger]*atomic.Int64
	fill  *guard.Histogram
}

func newBatcherRun(r *Run, plan *BatcherPlan) *batcherRun {
	b := &batcherRun{r: r, Plan: plan, wake: make(chan struct{}, 1), fill: guard.NewHistogram(guard.FillBounds), sent: map[engine.Trigger]*atomic.Int64{}, copies: tally{r: r, past: true}}
	for _, t := range triggers {
		b.sent[t] = new(atomic.Int64)
	}
	for _, o := range plan.Outputs {
		b.outputs = append(b.outputs, r.target(o))
		for _, leaf := range o.Leaves() {
			b.leaves = append(b.leaves, r.sinks[leaf])
		}
	}
	return b
}

// push hands over messages, from any lane.
func (b *batcherRun) Push(s *engine.Batch) {
	slab(s).From, slab(s).Way.Batcher = b.Plan.Name, b.Plan
	if b.Plan.Batcher == nil {
		b.forward(s)
		return
	}
	b.mu.Lock()
	b.inbox.Push(s)
	b.mu.Unlock()
	b.poke()
}

func (b *batcherRun) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// relieve asks for the oldest open batches, n messages of them.
func (b *batcherRun) relieve(n int) {
	b.mu.Lock()
	b.asked = n
	b.mu.Unlock()
	b.poke()
}

// loop runs until ctx ends, which is when nothing is in flight any more.
func (b *batcherRun) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if err := b.turn(); err != nil {
			b.r.Fail(err)
			return
		}
		if b.due.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(b.due))
		}
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
		case <-timer.C:
		}
	}
}

// turn takes in what has come and sends what is due.
func (b *batcherRun) turn() (err error) {
	defer engine.Recovered(&err)
	b.since.Store(time.Now().UnixNano())
	defer b.since.Store(0)
	plugin := b.Plan.Batcher
	defer func() { b.due = plugin.Due() }()
	for s := b.take(); s != nil; s = b.take() {
		n := len(slab(s).Msgs)
		b.opened(n)
		slab(s).Open, slab(s).Copy = flow.NewFew, b.copyOf
		plugin.Add(s, time.Now(), b.emit)
		slab(s).Open, slab(s).Copy = nil, nil
		b.copied()
		b.leftover(s)
	}
	now := time.Now()
	if due := plugin.Due(); !due.IsZero() && !now.Before(due) {
		plugin.Flush(now, engine.ByTimeout, 0, b.emit)
	}
	if why := b.r.ends(); why != "" {
		plugin.Flush(now, why, -1, b.emit)
	}
	b.mu.Lock()
	asked := b.asked
	b.asked = 0
	b.mu.Unlock()
	if asked > 0 {
		plugin.Flush(now, engine.ByPressure, asked, b.emit)
		return nil
	}
	b.r.relieve()
	return nil
}

func (b *batcherRun) take() *engine.Batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inbox.Head == nil {
		return nil
	}
	return b.inbox.Pop(b.inbox.Msgs)
}

func (b *batcherRun) opened(n int) {
	b.mu.Lock()
	b.open += n
	b.mu.Unlock()
}

// copyOf makes what Batch.Copy does.
func (b *batcherRun) copyOf(m *engine.Message) engine.Message {
	b.copies.beyond++
	return b.copies.copy(m)
}

// copied tells the run of the copies, before any of them can end.
func (b *batcherRun) copied() {
	if n := int(b.copies.made); n > 0 {
		b.opened(n)
		if b.r.Enter() {
			b.copies.apply()
			b.r.Leave()
		}
	}
}

// keeps says how many messages lie in open batches, and whether more are coming in.
func (b *batcherRun) keeps() (open int, incoming bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open, b.inbox.Head != nil || b.asked > 0
}

// leftover deals with what the plugin did not move: it goes on as it is, or ends
// when the plugin failed it.
func (b *batcherRun) leftover(s *engine.Batch) {
	left := 0
	for i := range slab(s).Msgs {
		if msg(&slab(s).Msgs[i]).State != inside.Moved {
			left++
		}
	}
	if left == 0 {
		flow.Recycle(s)
		return
	}
	b.opened(-left)
	if !b.r.Enter() {
		return
	}
	defer b.r.Leave()
	t := tally{r: b.r, past: true}
	rest := slab(s).Like()
	for i := range slab(s).Msgs {
		if m := &slab(s).Msgs[i]; msg(m).State == inside.Live {
			slab(rest).Take(m)
		} else {
			if msg(m).State == inside.Failed {
				steps.FailAt(m, "batcher "+b.Plan.Name, msg(m).Err)
			}
			t.conclude(m, nil)
		}
	}
	flow.Recycle(s)
	t.apply()
	if len(slab(rest).Msgs) > 0 {
		b.forward(rest)
	}
}

// emit sends a batch to its output.
func (b *batcherRun) emit(s *engine.Batch, why engine.Trigger) {
	b.copied()
	b.opened(-len(slab(s).Msgs))
	slab(s).Open, slab(s).Copy = nil, nil
	if len(slab(s).Msgs) == 0 {
		return
	}
	slab(s).Trigger, slab(s).Size, slab(s).From, slab(s).Way.Batcher = why, len(slab(s).Msgs), b.Plan.Name, b.Plan
	b.sent[why].Add(1)
	b.fill.Observe(float64(len(slab(s).Msgs)))
	b.r.plan.EmitEvent(engine.Event{Kind: engine.EventBatch, Name: b.Plan.Name, N: len(slab(s).Msgs), Reason: string(why)})
	b.launch(s)
}

// launch sends a batch on, as soon as the batcher may have one more in flight.
func (b *batcherRun) launch(s *engine.Batch) {
	if b.Plan.Concurrency == 0 {
		b.sendOn(s)
		return
	}
	slab(s).Way.Slot = b
	b.mu.Lock()
	b.kept.Push(s)
	b.mu.Unlock()
	b.fly()
}

// landed says that an output has written one of this batcher's batches.
func (b *batcherRun) landed() {
	b.mu.Lock()
	b.flying--
	b.mu.Unlock()
	b.fly()
}

// fly sends on as many batches as may be in flight, in order.
func (b *batcherRun) fly() {
	b.sends.Lock()
	defer b.sends.Unlock()
	for s := b.ready(); s != nil; s = b.ready() {
		b.sendOn(s)
	}
}

// sendOn forwards a batch, unless all has been handed back.
func (b *batcherRun) sendOn(s *engine.Batch) {
	if b.r.Enter() {
		b.forward(s)
		b.r.Leave()
	}
}

func (b *batcherRun) ready() *engine.Batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept.Head == nil || b.flying+len(b.outputs) > b.Plan.Concurrency*len(b.outputs) {
		return nil
	}
	b.flying += len(b.outputs)
	return b.kept.Pop(len(slab(b.kept.Head).Msgs))
}

// forward, within the run's fence, gives s to the outputs: all but the last take copies, and s itself is
// the last of its copies.
func (b *batcherRun) forward(s *engine.Batch) {
	last := len(b.outputs) - 1
	if last > 0 {
		n := int64(len(slab(s).Msgs))
		b.r.Pieces.Count(&[ledger.HowMany]int64{}, n, n)
	}
	for _, o := range b.outputs[:last] {
		o.Push(b.duplicate(s))
	}
	b.outputs[last].Push(s)
}

// duplicate makes pieces of their own of all messages of s.
func (b *batcherRun) duplicate(s *engine.Batch) *engine.Batch {
	t := tally{r: b.r, past: true}
	c := slab(s).Like()
	slab(c).Way.Slot = slab(s).Way.Slot
	for i := range slab(s).Msgs {
		p := t.copy(&slab(s).Msgs[i])
		slab(c).Msgs = append(slab(c).Msgs, p)
		t.beyond++
	}
	t.apply()
	return c
}

var triggers = []engine.Trigger{engine.BySize, engine.ByBytes, engine.ByTimeout, engine.ByFlush, engine.ByEnd, engine.ByDrain, engine.ByEvicted, engine.ByPressure}
