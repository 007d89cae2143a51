package stage

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/guard"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/ledger"
	"github.com/flowd-io/flowd/engine/internal/limit"
	"github.com/flowd-io/flowd/engine/internal/order"
	"github.com/flowd-io/flowd/engine/internal/retry"
)

// writer is the part of a worker that writes to the sink.
type writer struct {
	*worker
	sink *sink

	// Of the call under way, read by who abandons it: see sink.abandon.
	state atomic.Int32
	since atomic.Int64 // unix nanoseconds; 0: none
	batch *engine.Batch
	in    []int32 // the messages that the call is about
	read  []readAt

	line limit.WaitLine // at the output's limit
	let  []int32        // messages that are to be written as the limit lets them

	serial  uint32 // that the last message got
	serials uint32 // how many more may get one
}

// The states of a writer.
const (
	between   int32 = iota // of calls
	calling                // the plugin has its messages
	leftAlone              // the call did not return: its messages continued without it
)

func (w *writer) abandoned() bool { return w.state.Load() == leftAlone }

// writeAll writes the live messages of b: in one write, or, if the output does not keep order within a write, in several
// writes, each with one message per order key. It is false if a write was abandoned.
//
// With probe it writes the first message alone, and the others only if that write succeeds.
func (w *writer) writeAll(ctx context.Context, b *engine.Batch, probe bool) bool {
	if !w.stage.layout.Ordered || w.sink.plan.Sequential {
		if w.stage.layout.Ordered {
			w.conclude(b)
		}
		if probe {
			if !w.admit(ctx, b, first(b), true) {
				return false
			}
			if w.spared(b) {
				return true
			}
			if w.stage.layout.Ordered {
				w.conclude(b)
			}
		}
		return w.admit(ctx, b, nil, false)
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

// admit writes the live messages of b, or of sel, in as many writes as the rate limit of the output requires. The messages
// of a write are settled before the others wait for the limit. It is false if a write was abandoned.
func (w *writer) admit(ctx context.Context, b *engine.Batch, sel []int32, probe bool) bool {
	if len(w.line.Limits) == 0 {
		return w.write(ctx, b, sel, probe)
	}
	slab(b).Sel, w.let = sel, w.let[:0]
	w.let = live(b, w.let)
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

// goOn settles the messages of a write. It removes messages from rest that wait behind failed ones.
func (w *writer) goOn(b *engine.Batch, rest []int32) []int32 {
	if !w.stage.Enter() {
		return rest
	}
	for _, i := range w.in {
		m := &slab(b).Msgs[i]
		w.out.conclude(m, w.stage)
		msg(m).State = inside.Moved
	}
	w.out.apply()
	w.stage.Leave()
	if !w.stage.layout.Ordered {
		return rest
	}
	return slices.DeleteFunc(rest, func(i int32) bool { return !w.passes(b, int(i)) })
}

// first selects the first message that is to be written.
func first(b *engine.Batch) []int32 {
	for i := range slab(b).Msgs {
		if msg(&slab(b).Msgs[i]).State == inside.Live {
			return []int32{int32(i)}
		}
	}
	return nil
}

// spared says whether nothing may be written now, since a probe or another write has failed. The messages then wait, and
// no attempt is counted.
func (w *writer) spared(b *engine.Batch) bool {
	w.sink.mu.Lock()
	cause := w.sink.shut()
	w.sink.mu.Unlock()
	if cause != nil {
		spare(b, cause)
	}
	return cause != nil
}

// spare makes the messages of b wait until the gate opens, which is shut for this cause.
func spare(b *engine.Batch, cause *engine.Error) {
	for m := range b.All() {
		m.Fail(&engine.Error{Class: cause.Class, Holds: true, Err: cause})
	}
}

// write makes one write and records the result in each message. It is false if the write was abandoned.
func (w *writer) write(ctx context.Context, b *engine.Batch, sel []int32, probe bool) bool {
	w.stage.TakeAway(b)
	slab(b).Sel = sel
	defer func() { slab(b).Sel = nil }()
	of := batcherOf(b)
	edited := len(w.sink.plan.Steps.Ops) > 0 || of != nil && len(of.Steps.Ops) > 0
	w.in = live(b, w.in[:0])
	for _, i := range w.in {
		m := &slab(b).Msgs[i]
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
	at, cause := w.sink.acquire(probe)
	if cause != nil { // the gate may have been shut during the steps, or while waiting for the limit
		spare(b, cause)
		return true
	}
	began := time.Now()
	within := &guard.Deadline{Parent: ctx, At: began.Add(w.sink.plan.Timeout)}
	defer within.End()
	w.arena.Call = within
	traced, observed := w.x.Sight.Begin(within, w.sink.plan.Spot, b, w.in)
	err, back := w.call(traced, at.out, b, began)
	if !back {
		w.sink.mu.Lock()
		w.sink.released(at)
		return false
	}
	w.arena.Call = nil
	w.undo(b)
	res := written{took: time.Since(began), probe: probe, read: w.read[:0]}
	res.at = began.Add(res.took)
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
			msg(m).Err.Mask(w.stage.layout.Secrets)
		}
		res.count(m)
	}
	if observed {
		w.x.Sight.Passed(w.sink.plan.Spot, b, w.in, engine.WrittenThere)
	}
	if res.failed > 0 {
		w.tellFailed(b, began)
	}
	w.out.now, w.read = res.at, res.read
	w.sink.wrote(at, res)
	return true
}

// tellFailed tells the tracer of the messages of a write that have failed.
func (w *writer) tellFailed(b *engine.Batch, began time.Time) {
	for _, i := range w.in {
		if m := &slab(b).Msgs[i]; msg(m).State == inside.Failed {
			w.x.Sight.Failed(w.sink.plan.Spot, m, began)
		}
	}
}

// live appends to sel which messages All yields, by index.
func live(b *engine.Batch, sel []int32) []int32 {
	if slab(b).Sel == nil {
		for i := range slab(b).Msgs {
			if msg(&slab(b).Msgs[i]).State == inside.Live {
				sel = append(sel, int32(i))
			}
		}
		return sel
	}
	for _, i := range slab(b).Sel {
		if msg(&slab(b).Msgs[i]).State == inside.Live {
			sel = append(sel, i)
		}
	}
	return sel
}

// call calls the plugin. back is false if the call was abandoned, and its messages have continued without it.
func (w *writer) call(ctx context.Context, to engine.Output, b *engine.Batch, now time.Time) (err error, back bool) {
	w.batch = b
	w.since.Store(now.UnixNano())
	w.state.Store(calling)
	err = writeTo(ctx, to, b)
	if back = w.state.CompareAndSwap(calling, between); back {
		w.batch = nil // a large one must not stay until the next
	}
	w.since.Store(0)
	return err, back
}

func writeTo(ctx context.Context, out engine.Output, b *engine.Batch) (err error) {
	defer engine.Recovered(&err)
	return out.Write(ctx, b)
}

// undo fails messages that a write has split or merged, which only steps may do.
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

// salvage copies messages out of an abandoned write. The plugin may still use the originals, so the slab is never reused.
func (w *writer) salvage(err *engine.Error) (failing, rest *engine.Batch) {
	b := w.batch
	failing, rest = likeOf(b), likeOf(b)
	slab(rest).Stage = inside.AtWrite
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		if _, written := slices.BinarySearch(w.in, int32(i)); written {
			ledger.EachRoot(m, func(r ledger.Root) { r.Led.Pin() }) // the plugin may still ask for their origin
			c := engine.Message{Key: m.Key, Ref: m.Ref, Meta: m.Meta, Attempt: m.Attempt}
			from, to := msg(m), msg(&c)
			to.Origin, to.Rare, to.Orig, to.BatchKey = from.Origin, from.Rare, from.Orig, from.BatchKey
			to.Of, to.Part = from.Of, from.Part
			to.Serial, to.Dead, to.Credits, to.Charge = from.Serial, from.Dead, from.Credits, from.Charge
			to.Batch, to.Stage = failing, inside.AtWrite
			to.Doc.Reset(msg(m).Doc.Payload(), nil)
			e := *err
			c.Fail(&e)
			w.x.Sight.One(w.sink.plan.Spot, b, &c, engine.FailedThere, time.Unix(0, w.since.Load()))
			w.stage.holds.Own(&c, w.stage.keyPlace())
			slab(failing).Msgs = append(slab(failing).Msgs, c)
			continue
		}
		msg(m).Doc.Detach()
		if msg(m).State != inside.Moved && msg(m).State != inside.Consumed { // in order with those that fail
			w.stage.holds.Own(m, w.stage.keyPlace())
		}
		switch msg(m).State {
		case inside.Moved, inside.Consumed:
		case inside.Live:
			msg(m).Stage = inside.AtWrite
			slab(rest).Msgs = append(slab(rest).Msgs, *m)
		default:
			slab(failing).Msgs = append(slab(failing).Msgs, *m)
		}
	}
	return failing, rest
}

// serialBlock is how many serials a writer takes at once.
const serialBlock = 1 << 10

var serialBlocks atomic.Uint32

// nextSerial is a serial that no other writer gives.
func (w *writer) nextSerial() uint32 {
	if w.serials == 0 {
		// The first of a block is spared: it may be 0.
		w.serial, w.serials = (serialBlocks.Add(1)-1)*serialBlock, serialBlock-1
	}
	w.serial++
	w.serials--
	return w.serial
}

// readAt is how many messages were read at a time.
type readAt struct {
	at time.Time
	n  int
}

// written is the outcome of one write.
type written struct {
	done, failed int
	at           time.Time // when it ended
	took         time.Duration
	probe        bool
	read         []readAt       // the messages that were written
	of           *ledger.Ledger // of the last of them
	err          *engine.Error  // of the first message that failed
	said         error          // err as it is shown
	stays        *engine.Error  // of a refused dead letter whose source would redeliver it at once
	refused      int            // messages that are not to be tried again
}

func (s *written) count(m *engine.Message) {
	switch msg(m).State {
	case inside.Failed:
		s.failed++
		if s.err == nil {
			s.err, s.said = msg(m).Err, msg(m).Err
			if msg(m).Dead {
				s.said = bothReasons(m)
			}
		}
		err := msg(m).Err
		if err.Class == "" || retry.Retryable(err.Class) || err.HoldsOutput() || errors.Is(err, engine.ErrBehind) {
			return
		}
		s.refused++
		if msg(m).Dead && branchOf(m).next() == nil && thenByDefault[ledger.FirstRoot(m).Led.Takes] == thenReturn {
			s.stays, s.said = msg(m).Err, bothReasons(m)
		}
	default:
		s.done++
		if of := ledger.FirstRoot(m).Led; of != s.of {
			s.of, s.read = of, append(s.read, readAt{at: of.ReadAt})
		}
		s.read[len(s.read)-1].n++
	}
}

// faulty says whether the output failed rather than its messages.
func (s *written) faulty() bool {
	return s.done == 0 && s.err != nil && slices.Contains(outputFaults, s.err.Class)
}

var outputFaults = []engine.Class{
	engine.Transient, engine.Timeout, engine.Auth, engine.Panicked, engine.Permanent, "",
}
