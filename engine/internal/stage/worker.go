package stage

import (
	"context"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/ledger"
	"github.com/flowd-io/flowd/engine/internal/order"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// worker is one goroutine of a stage. It takes batches, runs their steps, and hands them to the exit.
type worker struct {
	stage  *stage
	out    outcome
	x      steps.Executor
	arena  doc.Arena
	writer *writer // its part of the sink; nil: the stage is that of a group

	// Of the batch at hand, read by who abandons its write: see sink.abandon.
	entry   *entry
	limiter *batcher // that counts the batch as in flight; nil: none does

	troubled map[string]bool // see order.Foresee
}

func newWorker(s *stage) *worker {
	w := &worker{stage: s, out: outcome{settlement: s.settlement, beyondLanes: true}}
	w.x.Own, w.x.Wrap, w.x.Room = w, s.layout.Middleware, s.room()
	w.x.Sight = s.layout.Sight()
	w.arena.Owner = w.x.Room
	return w
}

// run is the worker's goroutine. If it was abandoned, another worker has taken its place.
func (w *worker) run() {
	if s := w.stage; w.loop(s.works) {
		s.loops.Done()
	}
}

// loop runs until the queue is closed; false: the worker was abandoned.
func (w *worker) loop(ctx context.Context) bool {
	s := w.stage
	for {
		b, probe := s.pop()
		s.balance.ease()
		if b == nil && !probe {
			return true
		}
		if !s.exit.serve(ctx, w, b, probe) {
			return false
		}
	}
}

// beginBatch makes b the batch at hand.
func (w *worker) beginBatch(b *engine.Batch) *engine.Batch {
	w.entry, _ = slab(b).Way.Turn.(*entry)
	w.limiter = limiterOf(b)
	w.out.read = slab(b).Bytes
	return flow.Adopt(b, &w.arena)
}

// endBatch gives the worker's place back, when the batch at hand is done.
func (w *worker) endBatch() {
	w.arena.Reset()
	w.stage.done(w.entry)
	if w.limiter != nil {
		w.limiter.written()
	}
}

// steps runs the batcher's and the stage's own steps over b, from where its messages resume.
func (w *worker) steps(ctx context.Context, b *engine.Batch) *engine.Batch {
	w.stage.TakeAway(b)
	at := slab(b).Stage
	untouched := at == inside.Fresh && len(w.stage.steps.Ops) == 0 && batcherOf(b).plain()
	b = w.batchSteps(ctx, b)
	if at <= inside.InOutput && len(w.stage.steps.Ops) > 0 {
		keepOriginal(b, at)
		b = w.execute(ctx, b, w.stage.steps, inside.InOutput, at == inside.InOutput)
	}
	if untouched && !w.stage.layout.Ordered { // its credits are right
		return b
	}
	for i := range slab(b).Msgs {
		if m := &slab(b).Msgs[i]; msg(m).State == inside.Live {
			w.out.recharge(m)
			if w.stage.layout.Ordered {
				msg(m).Stage = inside.AtWrite
			}
		}
	}
	return b
}

// batchSteps runs the batcher's own steps.
func (w *worker) batchSteps(ctx context.Context, b *engine.Batch) *engine.Batch {
	if w.stage.holds.Any.Load() > 0 {
		w.catch(b)
	}
	if slab(b).Way.Batcher == nil && !w.stage.batched {
		return b
	}
	if slab(b).Trigger == "" {
		slab(b).Size = len(slab(b).Msgs)
	}
	for i := range slab(b).Msgs {
		m := msg(&slab(b).Msgs[i])
		m.Batch = b
		if slab(b).Stage == inside.Fresh {
			m.Index = int32(i)
		}
	}
	if at, of := slab(b).Stage, batcherOf(b); of != nil && len(of.Steps.Ops) > 0 && !dead(b) && at <= inside.InBatch {
		b = w.execute(ctx, b, of.Steps, inside.InBatch, at == inside.InBatch)
	}
	return b
}

// catch holds back messages whose order key is held.
func (w *worker) catch(b *engine.Batch) {
	w.stage.holds.Admit(b, w.stage.keyPlace(), func(_ int, m *engine.Message) order.Role {
		msg(m).Stage = slab(b).Stage
		if slab(b).Way.Batcher != nil || w.stage.batched {
			msg(m).Batch = b
		}
		return order.Asks
	})
}

// execute runs p over b, from the beginning, or from where the messages resume if resumed is set.
func (w *worker) execute(
	ctx context.Context, b *engine.Batch, p *steps.Program, at inside.Stage, resumed bool,
) *engine.Batch {
	if !resumed {
		for i := range slab(b).Msgs { // messages that wait keep their place in earlier steps
			if m := &slab(b).Msgs[i]; msg(m).State == inside.Live {
				msg(m).PC = 0
			}
		}
	}
	w.x.Prog, w.x.Stage = p, at
	return w.x.Run(ctx, b)
}

// dead says whether b holds dead letters. These are never in one batch with other messages.
func dead(b *engine.Batch) bool { return len(slab(b).Msgs) > 0 && msg(&slab(b).Msgs[0]).Dead }

// Merge counts a merge that a step has made.
func (w *worker) Merge(m *engine.Message) {
	dropOriginal(m)
	w.out.countMerge(m)
}

// Hold makes messages that failed or wait in a step hold their keys.
func (w *worker) Hold(b *engine.Batch, at inside.Stage) {
	w.stage.holds.Behind(b, at, w.stage.keyPlace())
}

// Gather is not for workers, which Build checks.
func (w *worker) Gather(*engine.Batch, []int32, *steps.Op) {}

// Split makes parts of what a step has split.
func (w *worker) Split(_ context.Context, x *steps.Executor, b *engine.Batch, pc int32) *engine.Batch {
	r := w.stage.settlement
	same := func(cur *engine.Batch, _ bool) *engine.Batch { return cur }
	out := slab(b).Like()
	steps.Pull(b, out, &x.Prog.Ops[pc], same, func(_, p *engine.Message) {
		dropOriginal(p)
		msg(p).Credits, msg(p).Charge = 1, len(msg(p).Orig)
		r.credits.Charge(1, msg(p).Charge)
		w.out.beyond++
		ledger.EachRoot(p, func(r ledger.Root) { r.Add(1) })
		r.holds.Share(p)
		w.out.made++
	}, func(m *engine.Message, _ int) { w.out.consume(m) })
	for i := range slab(out).Msgs {
		msg(&slab(out).Msgs[i]).Batch = out
	}
	flow.Recycle(b)
	return out
}

// conclude settles messages that have ended or wait, in order: each holds its key before later messages of the key go on.
func (w *worker) conclude(b *engine.Batch) {
	w.troubled = order.Foresee(b)
	for i := range slab(b).Msgs {
		w.passes(b, i)
	}
}

// passes decides whether a message may leave the lane now. A message that failed or waits holds its key from now on. A
// message whose key is held by an earlier one waits.
func (w *worker) passes(b *engine.Batch, i int) bool {
	r, m := w.stage.settlement, &slab(b).Msgs[i]
	switch msg(m).State {
	case inside.Live:
		if !r.holds.Passes(slab(b).Msgs[:i], m, w.stage.keyPlace()) {
			return false
		}
		if order.HasOne(m, w.troubled) {
			r.holds.Own(m, w.stage.keyPlace())
		}
		return true
	case inside.Failed, inside.Waits, inside.Parked:
		if r.Enter() {
			w.out.conclude(m, w.stage)
			msg(m).State = inside.Moved
			w.out.apply() // ended messages must be reported before the run hands back all others
			r.Leave()
		}
	}
	return false
}

// finish settles the messages of b after the steps and the exit. claims returns claims to free at the same time; nil: none.
func (w *worker) finish(b *engine.Batch, claims func() []*order.Claim) {
	r := w.stage.settlement
	if !r.Enter() {
		return
	}
	defer r.Leave()
	if claims != nil {
		w.out.freed = append(w.out.freed, claims()...)
	}
	over := slab(b).Way.Batcher != nil
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		over = over && msg(m).State == inside.Done
		w.out.conclude(m, w.stage)
	}
	if over {
		flow.RecycleBatch(b)
	} else {
		flow.Recycle(b)
	}
	w.out.apply()
}
