package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// batcherRun is a batcher at work. One that regroups has a loop of its own,
// which alone calls the plugin; one without passes messages on as they come.
type batcherRun struct {
	r       *run
	plan    *batcherPlan
	outputs []destination
	leaves  []*outRun     // that are written to
	wake    chan struct{} // has room for one
	due     time.Time     // when the plugin wants to be called; of the loop
	copies  tally         // what Batch.Copy has made and the run does not know yet; of the loop

	mu     sync.Mutex // guards the fields below
	inbox  slabList
	asked  int      // messages to send under pressure
	open   int      // messages in open batches
	flying int      // batches on their way, where that is limited
	kept   slabList // those that wait for it

	sends sync.Mutex // held while batches that were kept are sent on, so that they keep their order

	since atomic.Int64 // of the plugin's call under way, unix nanoseconds; 0: none
	sent  map[Trigger]*atomic.Int64
	fill  *histogram
}

func newBatcherRun(r *run, plan *batcherPlan) *batcherRun {
	b := &batcherRun{r: r, plan: plan, wake: make(chan struct{}, 1), fill: newHistogram(fillBounds), sent: map[Trigger]*atomic.Int64{}, copies: tally{r: r, past: true}}
	for _, t := range triggers {
		b.sent[t] = new(atomic.Int64)
	}
	for _, o := range plan.outputs {
		b.outputs = append(b.outputs, r.target(o))
		for _, leaf := range o.leaves() {
			b.leaves = append(b.leaves, r.outputs[leaf])
		}
	}
	return b
}

// push hands over messages, from any lane.
func (b *batcherRun) push(s *Batch) {
	s.in.From, s.in.Way.batcher = b.plan.name, b.plan
	if b.plan.batcher == nil {
		b.forward(s)
		return
	}
	b.mu.Lock()
	b.inbox.push(s)
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
			b.r.fail(err)
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
	defer recovered(&err)
	b.since.Store(time.Now().UnixNano())
	defer b.since.Store(0)
	plugin := b.plan.batcher
	defer func() { b.due = plugin.Due() }()
	for s := b.take(); s != nil; s = b.take() {
		n := len(s.in.Msgs)
		b.opened(n)
		s.in.Open, s.in.Copy = newFew, b.copyOf
		plugin.Add(s, time.Now(), b.emit)
		s.in.Open, s.in.Copy = nil, nil
		b.copied()
		b.leftover(s)
	}
	now := time.Now()
	if due := plugin.Due(); !due.IsZero() && !now.Before(due) {
		plugin.Flush(now, ByTimeout, 0, b.emit)
	}
	if why := b.r.ends(); why != "" {
		plugin.Flush(now, why, -1, b.emit)
	}
	b.mu.Lock()
	asked := b.asked
	b.asked = 0
	b.mu.Unlock()
	if asked > 0 {
		plugin.Flush(now, ByPressure, asked, b.emit)
		return nil
	}
	b.r.relieve()
	return nil
}

func (b *batcherRun) take() *Batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inbox.head == nil {
		return nil
	}
	return b.inbox.pop(b.inbox.msgs)
}

func (b *batcherRun) opened(n int) {
	b.mu.Lock()
	b.open += n
	b.mu.Unlock()
}

// copyOf makes what Batch.Copy does.
func (b *batcherRun) copyOf(m *Message) Message {
	b.copies.beyond++
	return b.copies.copy(m)
}

// copied tells the run of the copies, before any of them can end.
func (b *batcherRun) copied() {
	if n := int(b.copies.made); n > 0 {
		b.opened(n)
		if b.r.enter() {
			b.copies.apply()
			b.r.leave()
		}
	}
}

// keeps says how many messages lie in open batches, and whether more are coming in.
func (b *batcherRun) keeps() (open int, incoming bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open, b.inbox.head != nil || b.asked > 0
}

// leftover deals with what the plugin did not move: it goes on as it is, or ends
// when the plugin failed it.
func (b *batcherRun) leftover(s *Batch) {
	left := 0
	for i := range s.in.Msgs {
		if s.in.Msgs[i].in.State != moved {
			left++
		}
	}
	if left == 0 {
		recycle(s)
		return
	}
	b.opened(-left)
	if !b.r.enter() {
		return
	}
	defer b.r.leave()
	t := tally{r: b.r, past: true}
	rest := s.in.Like()
	for i := range s.in.Msgs {
		if m := &s.in.Msgs[i]; m.in.State == live {
			rest.in.Take(m)
		} else {
			if m.in.State == failed {
				m.failAt("batcher "+b.plan.name, m.in.Err)
			}
			t.conclude(m, nil)
		}
	}
	recycle(s)
	t.apply()
	if len(rest.in.Msgs) > 0 {
		b.forward(rest)
	}
}

// emit sends a batch to its output.
func (b *batcherRun) emit(s *Batch, why Trigger) {
	b.copied()
	b.opened(-len(s.in.Msgs))
	s.in.Open, s.in.Copy = nil, nil
	if len(s.in.Msgs) == 0 {
		return
	}
	s.in.Trigger, s.in.Size, s.in.From, s.in.Way.batcher = why, len(s.in.Msgs), b.plan.name, b.plan
	b.sent[why].Add(1)
	b.fill.observe(float64(len(s.in.Msgs)))
	b.r.plan.emitEvent(Event{Kind: EventBatch, Name: b.plan.name, N: len(s.in.Msgs), Reason: string(why)})
	b.launch(s)
}

// launch sends a batch on, as soon as the batcher may have one more in flight.
func (b *batcherRun) launch(s *Batch) {
	if b.plan.concurrency == 0 {
		b.sendOn(s)
		return
	}
	s.in.Way.slot = b
	b.mu.Lock()
	b.kept.push(s)
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
func (b *batcherRun) sendOn(s *Batch) {
	if b.r.enter() {
		b.forward(s)
		b.r.leave()
	}
}

func (b *batcherRun) ready() *Batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept.head == nil || b.flying+len(b.outputs) > b.plan.concurrency*len(b.outputs) {
		return nil
	}
	b.flying += len(b.outputs)
	return b.kept.pop(len(b.kept.head.in.Msgs))
}

// forward, within the run's fence, gives s to the outputs: all but the last take copies, and s itself is
// the last of its copies.
func (b *batcherRun) forward(s *Batch) {
	last := len(b.outputs) - 1
	if last > 0 {
		n := int64(len(s.in.Msgs))
		b.r.pieces.count(&[howMany]int64{}, n, n)
	}
	for _, o := range b.outputs[:last] {
		o.push(b.duplicate(s))
	}
	b.outputs[last].push(s)
}

// duplicate makes pieces of their own of all messages of s.
func (b *batcherRun) duplicate(s *Batch) *Batch {
	t := tally{r: b.r, past: true}
	c := s.in.Like()
	c.in.Way.slot = s.in.Way.slot
	for i := range s.in.Msgs {
		p := t.copy(&s.in.Msgs[i])
		c.in.Msgs = append(c.in.Msgs, p)
		t.beyond++
	}
	t.apply()
	return c
}

var triggers = []Trigger{BySize, ByBytes, ByTimeout, ByFlush, ByEnd, ByDrain, ByEvicted, ByPressure}
