package stage

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/guard"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/ledger"
	"github.com/flowd-io/flowd/engine/internal/limit"
	"github.com/flowd-io/flowd/engine/internal/order"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// writer is one of an output's concurrent writes.
type writer struct {
	out   *outRun
	t     tally
	x     steps.Executor
	arena doc.Arena

	// Of the call under way, read by who abandons it: see outRun.abandon.
	state atomic.Int32
	since atomic.Int64 // unix nanoseconds; 0: none
	batch *engine.Batch
	in    []int32 // the messages that the call is about
	turn  *turn
	slot  *batcherRun

	troubled map[string]bool // see foresee
	line     limit.WaitLine  // at the output's limit
	let      []int32         // messages that are to be written as the limit lets them

	serial  uint32 // that the last message got
	serials uint32 // how many more may get one
}

// The states of a writer.
const (
	between   int32 = iota // of calls
	calling                // the plugin has its messages
	leftAlone              // the call did not come back: its messages went on without it
)

func newWriter(o *outRun) *writer {
	w := &writer{out: o, t: tally{r: o.r, past: true}, line: limit.NewLine(o.plan.Limit)}
	w.x.Own, w.x.Wrap, w.x.Room = w, o.r.plan.Middleware, newRoom(o.r)
	w.arena.Owner = w.x.Room
	return w
}

func (w *writer) abandoned() bool { return w.state.Load() == leftAlone }

// loop runs until the queue is closed; false: its call was abandoned, and another
// writer has taken its place.
func (w *writer) loop(ctx context.Context) bool {
	o := w.out
	for {
		b, probe := o.pop()
		o.r.ease()
		switch {
		case b == nil && !probe:
			return true
		case b == nil:
			o.probe(ctx)
			continue
		}
		w.turn, _ = slab(b).Way.Turn.(*turn)
		n := len(slab(b).Msgs)
		w.slot = slotOf(b)
		w.t.was = slab(b).Bytes
		if slab(b).Way.Detour {
			w.passOn(ctx, flow.Adopt(b, &w.arena))
		} else {
			b = w.steps(ctx, flow.Adopt(b, &w.arena))
			if !w.writeAll(ctx, b, probe) {
				o.returned(w)
				return false
			}
			w.finish(b)
		}
		w.arena.Reset()
		o.done(w.turn, probe)
		if o.plan.Group != nil {
			o.r.carried(n)
		}
		if w.slot != nil {
			w.slot.landed()
		}
	}
}

// steps runs the batcher's and the output's own steps over b, from where its
// messages take up again.
func (w *writer) steps(ctx context.Context, b *engine.Batch) *engine.Batch {
	w.out.r.TakeAway(b)
	at := slab(b).Stage
	b = w.batchSteps(ctx, b)
	if at <= inside.InOutput {
		if len(w.out.plan.Steps.Ops) > 0 {
			remember(b, at)
		}
		b = w.run(ctx, b, w.out.plan.Steps, inside.InOutput, at == inside.InOutput)
	}
	for i := range slab(b).Msgs {
		if m := &slab(b).Msgs[i]; msg(m).State == inside.Live {
			w.t.recharge(m)
			if w.out.r.plan.Ordered {
				msg(m).Stage = inside.AtWrite
			}
		}
	}
	return b
}

// batchSteps runs the batcher's own steps.
func (w *writer) batchSteps(ctx context.Context, b *engine.Batch) *engine.Batch {
	w.catch(b)
	if slab(b).Way.Batcher == nil && w.out.plan.Group == nil {
		return b
	}
	if slab(b).Trigger == "" {
		slab(b).Size = len(slab(b).Msgs)
	}
	for i := range slab(b).Msgs {
		msg(&slab(b).Msgs[i]).Batch = b
	}
	if at, of := slab(b).Stage, batcherOf(b); of != nil && !dead(b) && at <= inside.InBatch {
		b = w.run(ctx, b, of.Steps, inside.InBatch, at == inside.InBatch)
	}
	return b
}

// catch keeps back messages whose order key is held.
func (w *writer) catch(b *engine.Batch) {
	h := w.out.r.holds
	if h.Any.Load() == 0 {
		return
	}
	h.Admit(b, w.out.spot(), func(_ int, m *engine.Message) order.Role {
		msg(m).Stage = slab(b).Stage
		if slab(b).Way.Batcher != nil || w.out.plan.Group != nil {
			msg(m).Batch = b
		}
		return order.Asks
	})
}

func (w *writer) run(ctx context.Context, b *engine.Batch, p *steps.Program, at inside.Stage, resumed bool) *engine.Batch {
	if len(p.Ops) == 0 {
		return b
	}
	if !resumed {
		for i := range slab(b).Msgs { // what waits keeps its place in the steps before
			if m := &slab(b).Msgs[i]; msg(m).State == inside.Live {
				msg(m).PC = 0
			}
		}
	}
	w.x.Prog, w.x.Stage = p, at
	return w.x.Run(ctx, b)
}

// dead says that b holds dead letters, which are never in a batch with others.
func dead(b *engine.Batch) bool { return len(slab(b).Msgs) > 0 && msg(&slab(b).Msgs[0]).Dead }

func (w *writer) Merge(m *engine.Message) {
	forgetFound(m)
	accountMerge(&w.t, m)
}

func (w *writer) Hold(b *engine.Batch, at inside.Stage) { w.out.r.holds.Behind(b, at, w.out.spot()) }

// Gather is not for writers, which Build checks.
func (w *writer) Gather(*engine.Batch, []int32, *steps.Op) {}

func (w *writer) Split(_ context.Context, x *steps.Executor, b *engine.Batch, pc int32) *engine.Batch {
	same := func(cur *engine.Batch, _ bool) *engine.Batch { return cur }
	out := slab(b).Like()
	steps.Pull(b, out, &x.Prog.Ops[pc], same, func(_, p *engine.Message) {
		forgetFound(p)
		msg(p).Credits, msg(p).Charge = 1, len(msg(p).Orig)
		w.out.r.Credits.Charge(1, msg(p).Charge)
		w.t.beyond++
		ledger.EachRoot(p, func(r ledger.Root) { r.Add(1) })
		w.out.r.holds.Share(p)
		w.t.made++
	}, func(m *engine.Message, _ int) { w.t.consume(m) })
	for i := range slab(out).Msgs {
		msg(&slab(out).Msgs[i]).Batch = out
	}
	flow.Recycle(b)
	return out
}

// writeAll writes the live messages of b: at once, or, where the output does not
// keep order within a write, so that no write has an order key twice. It is false
// when a write was abandoned.
//
// With probe the first message is written alone, and the others only when that has
// shown that the output works.
func (w *writer) writeAll(ctx context.Context, b *engine.Batch, probe bool) bool {
	if !w.out.r.plan.Ordered || w.out.plan.Sequential {
		if w.out.r.plan.Ordered {
			w.conclude(b)
		}
		if probe {
			if !w.admit(ctx, b, first(b), true) {
				return false
			}
			if w.spared(b) {
				return true
			}
			if w.out.r.plan.Ordered {
				w.conclude(b)
			}
		}
		return w.out.plan.Group != nil || w.admit(ctx, b, nil, false)
	}
	w.troubled = order.Foresee(b)
	seen := map[string]bool{}
	var sel []int32
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		if msg(m).State == inside.Live && (order.HasOne(m, seen) || probe && len(sel) > 0) {
			if !w.admit(ctx, b, sel, probe) {
				return false
			}
			clear(seen)
			for _, i := range sel {
				w.passes(b, int(i))
			}
			sel = sel[:0]
			if probe && w.spared(b) {
				return true
			}
			probe = false
		}
		if w.passes(b, i) {
			order.EachLeafKey(m, func(p *engine.Message) { seen[string(p.Key)] = true })
			sel = append(sel, int32(i))
		}
	}
	return len(sel) == 0 || w.admit(ctx, b, sel, probe)
}

// admit writes what is live of b, or of sel, in as many writes as the output's rate limit
// makes of it. What has been written ends before the rest waits. It is false when a write
// was abandoned.
func (w *writer) admit(ctx context.Context, b *engine.Batch, sel []int32, probe bool) bool {
	if len(w.line.Limits) == 0 {
		return w.write(ctx, b, sel, probe)
	}
	slab(b).Sel, w.let = sel, w.let[:0]
	for _, i := range indexed(b) {
		w.let = append(w.let, i)
	}
	slab(b).Sel = nil
	for rest := w.let; len(rest) > 0; {
		n, wait, changed := w.line.Ask(time.Now(), len(rest))
		switch {
		case ctx.Err() != nil:
			w.line.Quit()
			return w.write(ctx, b, rest, probe) // which fails them
		case n == 0:
			w.line.Stands(wait, changed, ctx.Done())
			continue
		}
		if !w.write(ctx, b, rest[:n], probe) {
			return false
		}
		if rest = rest[n:]; len(rest) > 0 {
			rest = w.goOn(b, rest)
		}
	}
	return true
}

// goOn ends what a write was about, and keeps of the rest what is behind messages that
// failed.
func (w *writer) goOn(b *engine.Batch, rest []int32) []int32 {
	if !w.out.r.Enter() {
		return rest
	}
	for _, i := range w.in {
		m := &slab(b).Msgs[i]
		w.t.conclude(m, w.out)
		msg(m).State = inside.Moved
	}
	w.t.apply()
	w.out.r.Leave()
	if !w.out.r.plan.Ordered {
		return rest
	}
	return slices.DeleteFunc(rest, func(i int32) bool { return !w.passes(b, int(i)) })
}

// first selects the first message that is to be written.
func first(b *engine.Batch) []int32 {
	for _, i := range indexed(b) {
		return []int32{i}
	}
	return nil
}

// spared says that nothing is to be written now, since a probe has failed, or another
// write. What was about to be written waits, which is no attempt.
func (w *writer) spared(b *engine.Batch) bool {
	o := w.out
	o.mu.Lock()
	shut, cause := o.gate.Shut, o.gate.Err
	o.mu.Unlock()
	if !shut || cause == nil {
		return false
	}
	for m := range b.All() {
		m.Fail(&engine.Error{Class: cause.Class, Holds: true, Err: cause})
	}
	return true
}

// conclude deals with what has ended or waits, in order, so that what waits holds
// its key before later messages of that key are written.
func (w *writer) conclude(b *engine.Batch) {
	w.troubled = order.Foresee(b)
	for i := range slab(b).Msgs {
		w.passes(b, i)
	}
}

// passes says whether a message is to be written now. What failed or waits holds its
// key from now on; what is behind such a message is kept.
func (w *writer) passes(b *engine.Batch, i int) bool {
	m := &slab(b).Msgs[i]
	switch msg(m).State {
	case inside.Live:
		if !w.out.r.holds.Passes(slab(b).Msgs[:i], m, w.out.spot()) {
			return false
		}
		if order.HasOne(m, w.troubled) {
			w.out.r.holds.Own(m, w.out.spot())
		}
		return true
	case inside.Failed, inside.Waits, inside.Parked:
		if w.out.r.Enter() {
			w.t.conclude(m, w.out)
			msg(m).State = inside.Moved
			w.t.apply() // what has ended must be told before all is handed back
			w.out.r.Leave()
		}
	}
	return false
}

// write makes one write and notes in each message what came of it. It is false
// when the write was abandoned.
func (w *writer) write(ctx context.Context, b *engine.Batch, sel []int32, probe bool) bool {
	w.in = w.in[:0]
	w.out.r.TakeAway(b)
	slab(b).Sel = sel
	defer func() { slab(b).Sel = nil }()
	of := batcherOf(b)
	edited := len(w.out.plan.Steps.Ops) > 0 || of != nil && len(of.Steps.Ops) > 0
	for m, i := range indexed(b) {
		w.in = append(w.in, i)
		if msg(m).Serial == 0 {
			msg(m).Serial = w.nextSerial()
		}
		if edited {
			msg(m).Doc.Splice()
		}
	}
	if len(w.in) == 0 {
		return true
	}
	if ctx.Err() != nil {
		for m := range b.All() {
			m.Fail(engine.Errorf(engine.Transient, "the run ended before this message was written"))
		}
		return true
	}
	if !probe && w.spared(b) { // steps and limits take time, in which it was shut
		return true
	}
	began := time.Now()
	within := &guard.Deadline{Parent: ctx, At: began.Add(w.out.plan.Timeout)}
	defer within.End()
	w.arena.Call = within
	err, back := w.call(within, b, began)
	if !back {
		return false
	}
	w.arena.Call = nil
	w.undo(b)
	res := written{took: time.Since(began), probe: probe}
	for _, i := range w.in {
		m := &slab(b).Msgs[i]
		if msg(m).State == inside.Live {
			if err == nil {
				msg(m).State = inside.Done
			} else {
				m.Fail(err)
			}
		}
		if msg(m).State == inside.Failed {
			msg(m).Err.Mask(w.out.r.plan.Secrets)
		}
		res.count(m)
	}
	w.out.wrote(res)
	return true
}

// indexed yields what All yields, with its index.
func indexed(b *engine.Batch) func(yield func(*engine.Message, int32) bool) {
	return func(yield func(*engine.Message, int32) bool) {
		if slab(b).Sel == nil {
			for i := range slab(b).Msgs {
				if m := &slab(b).Msgs[i]; msg(m).State == inside.Live && !yield(m, int32(i)) {
					return
				}
			}
			return
		}
		for _, i := range slab(b).Sel {
			if m := &slab(b).Msgs[i]; msg(m).State == inside.Live && !yield(m, i) {
				return
			}
		}
	}
}

// call calls the plugin; back is false when it came back so late that its
// messages went on without it.
func (w *writer) call(ctx context.Context, b *engine.Batch, now time.Time) (err error, back bool) {
	at := w.out.begin()
	w.batch = b
	w.since.Store(now.UnixNano())
	w.state.Store(calling)
	err = writeTo(ctx, at.out, b)
	if back = w.state.CompareAndSwap(calling, between); back {
		w.batch = nil // a large one must not stay until the next
	}
	w.since.Store(0)
	w.out.End(at)
	return err, back
}

func writeTo(ctx context.Context, out engine.Output, b *engine.Batch) (err error) {
	defer engine.Recovered(&err)
	return out.Write(ctx, b)
}

// undo fails what a write has split or merged: that is for steps.
func (w *writer) undo(b *engine.Batch) {
	if len(slab(b).Splits)+len(slab(b).Merges) == 0 {
		return
	}
	wrong := engine.Errorf(engine.Permanent, "an output can't split or merge messages")
	for _, s := range slab(b).Splits {
		slab(b).Msgs[s.I].Fail(wrong)
	}
	for _, m := range slab(b).Merges {
		w.Merge(m)
		m.Fail(wrong)
		w.in = append(w.in, int32(len(slab(b).Msgs)))
		slab(b).Msgs = append(slab(b).Msgs, *m)
	}
	slab(b).Splits, slab(b).Merges = nil, nil
}

// finish ends the messages of b as the steps and the write have left them.
func (w *writer) finish(b *engine.Batch) {
	r := w.out.r
	if !r.Enter() {
		return
	}
	defer r.Leave()
	if g := w.out.plan.Group; g != nil && r.plan.Ordered {
		w.t.freed = append(w.t.freed, r.holds.Rejoin(b, g.Index+1)...)
	}
	over := slab(b).Way.Batcher != nil
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		over = over && msg(m).State == inside.Done
		w.t.conclude(m, w.out)
	}
	if over {
		flow.RecycleBatch(b)
	} else {
		flow.Recycle(b)
	}
	w.t.apply()
}
