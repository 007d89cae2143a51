package engine

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine/doc"
)

// writer is one of an output's concurrent writes.
type writer struct {
	out   *outRun
	t     tally
	x     executor
	arena doc.Arena

	// Of the call under way, read by who abandons it: see outRun.abandon.
	state atomic.Int32
	since atomic.Int64 // unix nanoseconds; 0: none
	batch *Batch
	in    []int32 // the messages that the call is about
	turn  *turn
	slot  *batcherRun

	troubled map[string]bool // see foresee
	line     waitLine        // at the output's limit
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
	w := &writer{out: o, t: tally{r: o.r, past: true}, line: newLine(o.plan.limit)}
	w.x.own, w.x.wrap, w.x.room = w, o.r.plan.middleware, newRoom(o.r)
	w.arena.Owner = w.x.room
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
		w.turn, _ = b.in.Way.turn.(*turn)
		n := len(b.in.Msgs)
		w.slot = slotOf(b)
		w.t.was = b.in.Bytes
		if b.in.Way.detour {
			w.passOn(ctx, b.adopt(&w.arena))
		} else {
			b = w.steps(ctx, b.adopt(&w.arena))
			if !w.writeAll(ctx, b, probe) {
				o.returned(w)
				return false
			}
			w.finish(b)
		}
		w.arena.Reset()
		o.done(w.turn, probe)
		if o.plan.group != nil {
			o.r.carried(n)
		}
		if w.slot != nil {
			w.slot.landed()
		}
	}
}

// steps runs the batcher's and the output's own steps over b, from where its
// messages take up again.
func (w *writer) steps(ctx context.Context, b *Batch) *Batch {
	w.out.r.takeAway(b)
	at := b.in.Stage
	b = w.batchSteps(ctx, b)
	if at <= inOutput {
		if len(w.out.plan.steps.ops) > 0 {
			b.remember(at)
		}
		b = w.run(ctx, b, w.out.plan.steps, inOutput, at == inOutput)
	}
	for i := range b.in.Msgs {
		if m := &b.in.Msgs[i]; m.in.State == live {
			w.t.recharge(m)
			if w.out.r.plan.ordered {
				m.in.Stage = atWrite
			}
		}
	}
	return b
}

// batchSteps runs the batcher's own steps.
func (w *writer) batchSteps(ctx context.Context, b *Batch) *Batch {
	w.catch(b)
	if b.in.Way.batcher == nil && w.out.plan.group == nil {
		return b
	}
	if b.in.Trigger == "" {
		b.in.Size = len(b.in.Msgs)
	}
	for i := range b.in.Msgs {
		b.in.Msgs[i].in.Batch = b
	}
	if at, of := b.in.Stage, batcherOf(b); of != nil && !b.dead() && at <= inBatch {
		b = w.run(ctx, b, of.steps, inBatch, at == inBatch)
	}
	return b
}

// catch keeps back messages whose order key is held.
func (w *writer) catch(b *Batch) {
	h := w.out.r.holds
	if h.any.Load() == 0 {
		return
	}
	h.admit(b, w.out.spot(), func(_ int, m *Message) role {
		m.in.Stage = b.in.Stage
		if b.in.Way.batcher != nil || w.out.plan.group != nil {
			m.in.Batch = b
		}
		return asks
	})
}

func (w *writer) run(ctx context.Context, b *Batch, p *program, at stage, resumed bool) *Batch {
	if len(p.ops) == 0 {
		return b
	}
	if !resumed {
		for i := range b.in.Msgs { // what waits keeps its place in the steps before
			if m := &b.in.Msgs[i]; m.in.State == live {
				m.in.PC = 0
			}
		}
	}
	w.x.prog, w.x.stage = p, at
	return w.x.run(ctx, b)
}

// dead says that b holds dead letters, which are never in a batch with others.
func (b *Batch) dead() bool { return len(b.in.Msgs) > 0 && b.in.Msgs[0].in.Dead }

func (w *writer) merge(m *Message) {
	forgetFound(m)
	accountMerge(&w.t, m)
}

func (w *writer) hold(b *Batch, at stage) { w.out.r.holds.behind(b, at, w.out.spot()) }

// gather is not for writers, which Build checks.
func (w *writer) gather(*Batch, []int32, *op) {}

func (w *writer) split(_ context.Context, x *executor, b *Batch, pc int32) *Batch {
	same := func(cur *Batch, _ bool) *Batch { return cur }
	out := b.in.Like()
	b.pull(out, &x.prog.ops[pc], same, func(_, p *Message) {
		forgetFound(p)
		p.in.Credits, p.in.Charge = 1, len(p.in.Orig)
		w.out.r.credits.charge(1, p.in.Charge)
		w.t.beyond++
		p.eachRoot(func(r root) { r.add(1) })
		w.out.r.holds.share(p)
		w.t.made++
	}, func(m *Message, _ int) { w.t.consume(m) })
	for i := range out.in.Msgs {
		out.in.Msgs[i].in.Batch = out
	}
	recycle(b)
	return out
}

// writeAll writes the live messages of b: at once, or, where the output does not
// keep order within a write, so that no write has an order key twice. It is false
// when a write was abandoned.
//
// With probe the first message is written alone, and the others only when that has
// shown that the output works.
func (w *writer) writeAll(ctx context.Context, b *Batch, probe bool) bool {
	if !w.out.r.plan.ordered || w.out.plan.sequential {
		if w.out.r.plan.ordered {
			w.conclude(b)
		}
		if probe {
			if !w.admit(ctx, b, b.first(), true) {
				return false
			}
			if w.spared(b) {
				return true
			}
			if w.out.r.plan.ordered {
				w.conclude(b)
			}
		}
		return w.out.plan.group != nil || w.admit(ctx, b, nil, false)
	}
	w.troubled = b.foresee()
	seen := map[string]bool{}
	var sel []int32
	for i := range b.in.Msgs {
		m := &b.in.Msgs[i]
		if m.in.State == live && (m.hasOne(seen) || probe && len(sel) > 0) {
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
			m.eachLeafKey(func(p *Message) { seen[string(p.Key)] = true })
			sel = append(sel, int32(i))
		}
	}
	return len(sel) == 0 || w.admit(ctx, b, sel, probe)
}

// admit writes what is live of b, or of sel, in as many writes as the output's rate limit
// makes of it. What has been written ends before the rest waits. It is false when a write
// was abandoned.
func (w *writer) admit(ctx context.Context, b *Batch, sel []int32, probe bool) bool {
	if len(w.line.limits) == 0 {
		return w.write(ctx, b, sel, probe)
	}
	b.in.Sel, w.let = sel, w.let[:0]
	for _, i := range b.indexed() {
		w.let = append(w.let, i)
	}
	b.in.Sel = nil
	for rest := w.let; len(rest) > 0; {
		n, wait, changed := w.line.ask(time.Now(), len(rest))
		switch {
		case ctx.Err() != nil:
			w.line.quit()
			return w.write(ctx, b, rest, probe) // which fails them
		case n == 0:
			w.line.stands(wait, changed, ctx.Done())
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
func (w *writer) goOn(b *Batch, rest []int32) []int32 {
	if !w.out.r.enter() {
		return rest
	}
	for _, i := range w.in {
		m := &b.in.Msgs[i]
		w.t.conclude(m, w.out)
		m.in.State = moved
	}
	w.t.apply()
	w.out.r.leave()
	if !w.out.r.plan.ordered {
		return rest
	}
	return slices.DeleteFunc(rest, func(i int32) bool { return !w.passes(b, int(i)) })
}

// first selects the first message that is to be written.
func (b *Batch) first() []int32 {
	for _, i := range b.indexed() {
		return []int32{i}
	}
	return nil
}

// spared says that nothing is to be written now, since a probe has failed, or another
// write. What was about to be written waits, which is no attempt.
func (w *writer) spared(b *Batch) bool {
	o := w.out
	o.mu.Lock()
	shut, cause := o.gate.shut, o.gate.err
	o.mu.Unlock()
	if !shut || cause == nil {
		return false
	}
	for m := range b.All() {
		m.Fail(&Error{Class: cause.Class, Holds: true, Err: cause})
	}
	return true
}

// conclude deals with what has ended or waits, in order, so that what waits holds
// its key before later messages of that key are written.
func (w *writer) conclude(b *Batch) {
	w.troubled = b.foresee()
	for i := range b.in.Msgs {
		w.passes(b, i)
	}
}

// passes says whether a message is to be written now. What failed or waits holds its
// key from now on; what is behind such a message is kept.
func (w *writer) passes(b *Batch, i int) bool {
	m := &b.in.Msgs[i]
	switch m.in.State {
	case live:
		if !w.out.r.holds.passes(b.in.Msgs[:i], m, w.out.spot()) {
			return false
		}
		if m.hasOne(w.troubled) {
			w.out.r.holds.own(m, w.out.spot())
		}
		return true
	case failed, waits, parked:
		if w.out.r.enter() {
			w.t.conclude(m, w.out)
			m.in.State = moved
			w.t.apply() // what has ended must be told before all is handed back
			w.out.r.leave()
		}
	}
	return false
}

// write makes one write and notes in each message what came of it. It is false
// when the write was abandoned.
func (w *writer) write(ctx context.Context, b *Batch, sel []int32, probe bool) bool {
	w.in = w.in[:0]
	w.out.r.takeAway(b)
	b.in.Sel = sel
	defer func() { b.in.Sel = nil }()
	of := batcherOf(b)
	edited := len(w.out.plan.steps.ops) > 0 || of != nil && len(of.steps.ops) > 0
	for m, i := range b.indexed() {
		w.in = append(w.in, i)
		if m.in.Serial == 0 {
			m.in.Serial = w.nextSerial()
		}
		if edited {
			m.in.Doc.Splice()
		}
	}
	if len(w.in) == 0 {
		return true
	}
	if ctx.Err() != nil {
		for m := range b.All() {
			m.Fail(Errorf(Transient, "the run ended before this message was written"))
		}
		return true
	}
	if !probe && w.spared(b) { // steps and limits take time, in which it was shut
		return true
	}
	began := time.Now()
	within := &deadline{parent: ctx, at: began.Add(w.out.plan.timeout)}
	defer within.end()
	w.arena.Call = within
	err, back := w.call(within, b, began)
	if !back {
		return false
	}
	w.arena.Call = nil
	w.undo(b)
	res := written{took: time.Since(began), probe: probe}
	for _, i := range w.in {
		m := &b.in.Msgs[i]
		if m.in.State == live {
			if err == nil {
				m.in.State = done
			} else {
				m.Fail(err)
			}
		}
		if m.in.State == failed {
			m.in.Err.Mask(w.out.r.plan.secrets)
		}
		res.count(m)
	}
	w.out.wrote(res)
	return true
}

// indexed yields what All yields, with its index.
func (b *Batch) indexed() func(yield func(*Message, int32) bool) {
	return func(yield func(*Message, int32) bool) {
		if b.in.Sel == nil {
			for i := range b.in.Msgs {
				if m := &b.in.Msgs[i]; m.in.State == live && !yield(m, int32(i)) {
					return
				}
			}
			return
		}
		for _, i := range b.in.Sel {
			if m := &b.in.Msgs[i]; m.in.State == live && !yield(m, i) {
				return
			}
		}
	}
}

// call calls the plugin; back is false when it came back so late that its
// messages went on without it.
func (w *writer) call(ctx context.Context, b *Batch, now time.Time) (err error, back bool) {
	at := w.out.begin()
	w.batch = b
	w.since.Store(now.UnixNano())
	w.state.Store(calling)
	err = writeTo(ctx, at.out, b)
	if back = w.state.CompareAndSwap(calling, between); back {
		w.batch = nil // a large one must not stay until the next
	}
	w.since.Store(0)
	w.out.end(at)
	return err, back
}

func writeTo(ctx context.Context, out Output, b *Batch) (err error) {
	defer recovered(&err)
	return out.Write(ctx, b)
}

// undo fails what a write has split or merged: that is for steps.
func (w *writer) undo(b *Batch) {
	if len(b.in.Splits)+len(b.in.Merges) == 0 {
		return
	}
	wrong := Errorf(Permanent, "an output can't split or merge messages")
	for _, s := range b.in.Splits {
		b.in.Msgs[s.i].Fail(wrong)
	}
	for _, m := range b.in.Merges {
		w.merge(m)
		m.Fail(wrong)
		w.in = append(w.in, int32(len(b.in.Msgs)))
		b.in.Msgs = append(b.in.Msgs, *m)
	}
	b.in.Splits, b.in.Merges = nil, nil
}

// finish ends the messages of b as the steps and the write have left them.
func (w *writer) finish(b *Batch) {
	r := w.out.r
	if !r.enter() {
		return
	}
	defer r.leave()
	if g := w.out.plan.group; g != nil && r.plan.ordered {
		w.t.freed = append(w.t.freed, r.holds.rejoin(b, g.index+1)...)
	}
	over := b.in.Way.batcher != nil
	for i := range b.in.Msgs {
		m := &b.in.Msgs[i]
		over = over && m.in.State == done
		w.t.conclude(m, w.out)
	}
	if over {
		recycleBatch(b)
	} else {
		recycle(b)
	}
	w.t.apply()
}
