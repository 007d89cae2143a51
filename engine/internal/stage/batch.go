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

// batcher collects messages into batches for its outputs. A batcher with a plugin has a loop; only the loop calls the
// plugin. A batcher without one forwards messages as they come.
type batcher struct {
	*settlement
	plan    *BatcherPlan
	outputs []destination
	leaves  []*sink       // that are written to
	wake    chan struct{} // has room for one
	due     time.Time     // when the plugin wants to be called; only the loop uses it
	copies  outcome       // copies made by Batch.Copy that are not counted yet; only the loop uses it

	mu       sync.Mutex // guards the fields below
	inbox    flow.SlabList
	asked    int // messages that relieve has asked for
	open     int // messages in open batches
	inFlight int // batches, where their number is limited
	sent     sent
	waiting  flow.SlabList // batches that wait for a place in flight

	sends sync.Mutex // held while waiting batches are sent on, so that they keep their order

	since atomic.Int64 // of the plugin's call under way, unix nanoseconds; 0: none
	fill  *guard.Histogram
}

func newBatcher(s *settlement, plan *BatcherPlan) *batcher {
	b := &batcher{settlement: s, plan: plan, wake: make(chan struct{}, 1), copies: outcome{settlement: s, beyondLanes: true}}
	b.fill, b.sent = guard.NewHistogram(guard.FillBounds), sent{}
	for _, o := range plan.Outputs {
		b.outputs = append(b.outputs, s.outputs[o])
		for _, leaf := range o.Leaves() {
			b.leaves = append(b.leaves, s.outputs[leaf].(*sink))
		}
	}
	return b
}

// Push adds messages. Any lane may call it.
func (b *batcher) Push(s *engine.Batch) {
	slab(s).From, slab(s).Way.Batcher = b.plan.Name, b
	b.observe(s, engine.PassedOn)
	if b.plan.Batcher == nil {
		b.forward(s)
		return
	}
	b.mu.Lock()
	b.inbox.Push(s)
	b.mu.Unlock()
	b.poke()
}

func (b *batcher) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// relieve asks the loop to send the oldest open batches, n messages of them.
func (b *batcher) relieve(n int) {
	b.mu.Lock()
	b.asked = n
	b.mu.Unlock()
	b.poke()
}

// loop runs until ctx ends, which is when nothing is in flight any more.
func (b *batcher) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if err := b.work(); err != nil {
			b.verdict.Fail(err)
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

// work adds the messages that have arrived to batches, and sends the batches that are due.
func (b *batcher) work() (err error) {
	defer engine.Recovered(&err)
	b.since.Store(time.Now().UnixNano())
	defer b.since.Store(0)
	plugin := b.plan.Batcher
	defer func() { b.due = plugin.Due() }()
	for s := b.takeInbox(); s != nil; s = b.takeInbox() {
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
	if why := b.balance.hurry(); why != "" {
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
	b.balance.relieve()
	return nil
}

func (b *batcher) takeInbox() *engine.Batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inbox.Head == nil {
		return nil
	}
	return b.inbox.Pop(b.inbox.Msgs)
}

func (b *batcher) opened(n int) {
	b.mu.Lock()
	b.open += n
	b.mu.Unlock()
}

// copyOf is Batch.Copy.
func (b *batcher) copyOf(m *engine.Message) engine.Message {
	b.copies.beyond++
	return b.copies.copy(m)
}

// copied counts new copies, before any of them can end.
func (b *batcher) copied() {
	if n := int(b.copies.made); n > 0 {
		b.opened(n)
		if b.Enter() {
			b.copies.apply()
			b.Leave()
		}
	}
}

// keeps returns how many messages are in open batches, and whether more are about to be added.
func (b *batcher) keeps() (open int, incoming bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open, b.inbox.Head != nil || b.asked > 0
}

// leftover handles the messages that the plugin did not move into a batch: live ones continue without a batch, and failed
// or dropped ones end.
func (b *batcher) leftover(s *engine.Batch) {
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
	if !b.Enter() {
		return
	}
	defer b.Leave()
	out := outcome{settlement: b.settlement, beyondLanes: true}
	rest := slab(s).Like()
	for i := range slab(s).Msgs {
		if m := &slab(s).Msgs[i]; msg(m).State == inside.Live {
			slab(rest).Take(m)
		} else {
			if msg(m).State == inside.Failed {
				steps.FailAt(m, "batcher "+b.plan.Name, msg(m).Err)
			}
			out.conclude(m, nil)
		}
	}
	flow.Recycle(s)
	out.apply()
	if len(slab(rest).Msgs) > 0 {
		b.forward(rest)
	}
}

// emit sends a batch that the plugin has closed to its outputs.
func (b *batcher) emit(s *engine.Batch, why engine.Trigger) {
	b.copied()
	n := len(slab(s).Msgs)
	slab(s).Open, slab(s).Copy = nil, nil
	if n == 0 {
		return
	}
	b.mu.Lock()
	b.open -= n
	cut := b.sent.add(why)
	b.mu.Unlock()
	slab(s).Trigger, slab(s).Size, slab(s).From, slab(s).Way.Batcher = why, n, b.plan.Name, b
	if cut {
		b.warnEarly(b.place())
	}
	b.fill.Observe(float64(n))
	b.observe(s, engine.BatchedThere)
	b.layout.EmitEvent(engine.Event{Kind: engine.EventBatch, Name: b.plan.Name, N: n, Reason: string(why)})
	b.sendWhenFree(s)
}

// observe tells observers of messages that enter the batcher, or leave it in a batch.
func (b *batcher) observe(s *engine.Batch, how engine.Passage) {
	sight := b.layout.Sight()
	sight.All(b.plan.Spot, s, how)
}

// sendWhenFree sends a batch on as soon as the batcher may have one more in flight.
func (b *batcher) sendWhenFree(s *engine.Batch) {
	if b.plan.Concurrency == 0 {
		b.sendOn(s)
		return
	}
	slab(s).Way.Counted = true
	b.mu.Lock()
	b.waiting.Push(s)
	b.mu.Unlock()
	b.sendWaiting()
}

// written says that an output has written one of this batcher's batches.
func (b *batcher) written() {
	b.mu.Lock()
	b.inFlight--
	b.mu.Unlock()
	b.sendWaiting()
}

// sendWaiting sends on as many batches as may be in flight, in order.
func (b *batcher) sendWaiting() {
	b.sends.Lock()
	defer b.sends.Unlock()
	for s := b.nextWaiting(); s != nil; s = b.nextWaiting() {
		b.sendOn(s)
	}
}

// sendOn forwards a batch, unless the run has handed back all messages.
func (b *batcher) sendOn(s *engine.Batch) {
	if b.Enter() {
		b.forward(s)
		b.Leave()
	}
}

func (b *batcher) nextWaiting() *engine.Batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting.Head == nil || b.inFlight+len(b.outputs) > b.plan.Concurrency*len(b.outputs) {
		return nil
	}
	b.inFlight += len(b.outputs)
	return b.waiting.Pop(len(slab(b.waiting.Head).Msgs))
}

// forward gives s to the outputs: the last takes s itself, the others take copies. Its caller has entered the run.
func (b *batcher) forward(s *engine.Batch) {
	last := len(b.outputs) - 1
	if last > 0 {
		n := int64(len(slab(s).Msgs))
		b.Pieces.Count(&[ledger.HowMany]int64{}, n, n)
	}
	for _, o := range b.outputs[:last] {
		o.Push(b.duplicate(s))
	}
	b.outputs[last].Push(s)
}

// duplicate copies s: each copy of a message is a piece of its own.
func (b *batcher) duplicate(s *engine.Batch) *engine.Batch {
	out := outcome{settlement: b.settlement, beyondLanes: true}
	c := slab(s).Like()
	slab(c).Way.Counted = slab(s).Way.Counted
	for i := range slab(s).Msgs {
		p := out.copy(&slab(s).Msgs[i])
		slab(c).Msgs = append(slab(c).Msgs, p)
		out.beyond++
	}
	out.apply()
	return c
}
