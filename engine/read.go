package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"sync/atomic"
	"time"
)

// reader is one instance of an input: it takes credits, reads, and hands what it
// has read to the lanes.
type reader struct {
	r       *run
	plan    *inputPlan
	in      Input
	index   int           // among the instances of its input
	own     *lane         // runs the input's own steps, in reading order
	read    atomic.Uint64 // messages, with those of the plans before
	acks    *ackLoop      // of the connection that was read last
	replay  replay        // of a source that keeps a position
	line    waitLine      // at the limits that hold for it
	mean    int           // bytes of a message in the last Read; 0: there was none
	began   bool          // there was a Read
	figures readFigures
	causes  causes // that the log has named since it worked
	plain   bool   // what it reads goes to the lanes as it is: there are neither steps nor keys before
}

func newReader(r *run, plan *inputPlan, in Input) *reader {
	rd := &reader{r: r, plan: plan, in: in, own: newLane(r, 0), line: newLine(plan.limit, r.plan.limit)}
	rd.own.reads = true
	rd.plain = len(plan.steps.ops) == 0 && !r.plan.ordered && len(r.plan.middleware) == 0
	rd.replay.moved = make(chan struct{}, 1)
	rd.figures.is("reading")
	return rd
}

// standing is how long a connection must stand before its input counts as recovered.
const standing = time.Second

// loop reads until the input or ctx ends. An input that fails is started again,
// after a back-off. It begins anew when a connection has stood, whether or not a message
// came: a queue may be quiet, and one message proves little.
func (rd *reader) loop(ctx, work context.Context) error {
	failed := 0 // times in a row
	for {
		rd.figures.connects()
		err := rd.session(ctx, work)
		if rd.figures.stands(FailedSince(err)) {
			failed = 0
		}
		for err != nil && ctx.Err() == nil {
			failed++
			if rd.gone(err, failed) {
				return fmt.Errorf("input %s: %w", rd.plan.name, err)
			}
			err = rd.restart(ctx, err, failed)
		}
		if ctx.Err() != nil || err == nil && !rd.figures.restarting() {
			return nil
		}
		rd.figures.is("reading")
	}
}

// gone says whether an error can't be cured by starting the input again.
func (rd *reader) gone(err error, failed int) bool {
	most := rd.r.plan.restart.MaxAttempts
	return errors.Is(err, ErrGone) || ErrorOf(err, Transient).Class == Permanent || most > 0 && failed >= most
}

// restart closes the input and opens it again after a back-off.
func (rd *reader) restart(ctx context.Context, cause error, failed int) error {
	p := rd.r.plan
	cause = Masked(p.secrets, cause)
	wait := jittered(p.restart.Backoff, p.restart.MaxBackoff, failed)
	rd.figures.restarts.Add(1)
	rd.figures.lost(cause)
	if failed == 1 {
		rd.causes = causes{}
	}
	if news := rd.causes.news(cause); news || powerOfTen(int64(failed)) {
		rd.r.log.Error("input failed and is started again", "input", rd.plan.name, "err", firstLine(cause), "in", wait.Round(time.Millisecond), "attempt", failed)
	}
	p.emitEvent(Event{Kind: EventLost, Name: rd.plan.name, Err: cause})
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.timeout)
	defer cancel()
	if c, ok := rd.in.(Closer); ok && p.plugins.opens(rd.in, false) {
		if err := guard(call, c.Close); err != nil {
			rd.r.log.Debug("close of a failed input", "input", rd.plan.name, "err", err)
		}
	}
	if !pause(ctx, wait) {
		return nil
	}
	open, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	if o, ok := rd.in.(Opener); ok {
		if err := guard(open, o.Open); err != nil {
			return err
		}
	}
	p.plugins.opens(rd.in, true)
	p.emitEvent(Event{Kind: EventConnected, Name: rd.plan.name})
	return nil
}

// session reads until the input fails or ends, or ctx ends.
func (rd *reader) session(ctx, work context.Context) error {
	if rd.r.plan.plugins.isShut(rd.in) {
		return errors.New("it had failed before the reload")
	}
	for ctx.Err() == nil {
		active, done := rd.r.plan.pauses.wait(ctx, rd.figures.is)
		err := rd.step(active, ctx, work)
		paused := active.Err() != nil
		done()
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			rd.figures.is("ended")
			return nil
		case paused:
		default:
			return err
		}
	}
	return nil
}

// step is one Read, with credits and within the limits. active is ctx until the next pause.
func (rd *reader) step(active, ctx, work context.Context) error {
	rd.keepPace(active)
	room := rd.room(active)
	if room == 0 {
		return nil
	}
	b := newSlab(room)
	acker, err := rd.call(active, b)
	b.in.Room = 0
	n := len(b.in.Msgs)
	if n < room {
		rd.r.credits.put(room-n, 0, 0)
	}
	if n > 0 {
		rd.receive(ctx, work, b, acker)
	} else {
		recycle(b)
		runtime.Gosched()
	}
	return err
}

func (rd *reader) call(ctx context.Context, b *Batch) (a Acker, err error) {
	if rd.acks != nil {
		a = rd.acks.to // of what was added before a panic
	}
	defer recovered(&err)
	a, err = rd.in.Read(ctx, b)
	if a != nil && !reflect.TypeOf(a).Comparable() {
		return nil, Errorf(Permanent, "Read returned a %T: an Acker is told from others by ==, so it must be a pointer", a)
	}
	return a, err
}

// receive counts what was read and starts it on its way, as fast as limits let it.
func (rd *reader) receive(ctx, work context.Context, b *Batch, acker Acker) {
	if !rd.r.enter() {
		return // the run is over, and its source will find out
	}
	n := len(b.in.Msgs)
	rd.r.roots.receive(n)
	rd.r.pieces.receive(n)
	rd.r.leave()
	rd.r.plan.emitEvent(Event{Kind: EventDispatch, Name: rd.plan.name, N: n})
	rd.figures.received.Add(int64(n))
	rd.take(b, acker, time.Now())
	rd.admit(ctx, work, b)
}

// take opens a ledger for messages that are counted.
func (rd *reader) take(b *Batch, acker Acker, at time.Time) {
	if !rd.r.enter() {
		return
	}
	defer rd.r.leave()
	n := len(b.in.Msgs)
	led := &ledger{input: rd.plan.name, instance: rd.index, takes: rd.plan.takes, at: at, acks: rd.acksOf(acker, n), then: rd.plan.then, delays: rd.plan.delays, first: rd.read.Load(), roots: make([]rootState, n)}
	led.open.Store(int32(n))
	rd.read.Add(uint64(n))
	for i := range b.in.Msgs {
		m, s := &b.in.Msgs[i], &led.roots[i]
		m.in.Origin = OriginOf(key{}, led, uint32(i))
		m.in.Orig = m.Bytes()
		m.in.Credits, m.in.Charge = 1, len(m.in.Orig)
		b.in.Bytes += m.in.Charge
		led.keep(i, m)
		s.pieces.Store(1)
		if m.in.State == failed { // a record that the framing refuses
			complete(m.in.Err, Decode)
		}
	}
	rd.figures.bytes.Add(int64(b.in.Bytes))
	rd.mean = max(b.in.Bytes/n, 1)
	if rd.plan.early && led.acks != nil {
		rd.early(led)
	}
	rd.replay.add(led)
	rd.r.open.add(led)
	rd.r.credits.charge(0, b.in.Bytes)
}

// send starts messages on their way.
func (rd *reader) send(ctx context.Context, b *Batch) {
	if !rd.r.enter() {
		return
	}
	if rd.plain && b.allLive() {
		rd.r.upstream.Add(int64(len(b.in.Msgs)))
		rd.r.lanes.push(b)
		rd.r.leave()
		return
	}
	rd.r.leave()
	setInput(b, rd.plan)
	rd.own.process(ctx, b)
}

// early tells the source at once that all of led is delivered.
func (rd *reader) early(led *ledger) {
	rs := make([]ranked, len(led.roots))
	for i := range led.roots {
		rs[i] = ranked{Result: Result{Ref: led.roots[i].ref, Fate: Delivered}, rank: led.first + uint64(i)}
	}
	led.acks.put(rs)
	led.acks = nil
}

// acksOf is the loop for an acker that is going to get n results. A new
// connection has a new one; that of the old ends when its last message has.
func (rd *reader) acksOf(acker Acker, n int) *ackLoop {
	if acker == nil {
		return nil
	}
	if rd.acks != nil && rd.acks.to != acker {
		rd.acks.close()
	}
	if rd.acks == nil || rd.acks.to != acker || !rd.acks.owe(n) {
		rd.acks = rd.r.acksOf(acker, rd.plan.name, n)
	}
	return rd.acks
}

// dispatch gives messages that come from their input's own steps their order key
// and hands them to the lanes.
func (l *lane) dispatch(b *Batch) {
	t, key := &l.t, l.r.plan.orderBy
	alive := 0
	for i := range b.in.Msgs {
		m := &b.in.Msgs[i]
		if m.in.State == live && key != nil {
			k, ok, err := key.AppendKey(t.keys.room(), m)
			switch {
			case err != nil:
				m.failAt("order_by", err)
			case ok:
				m.Key = t.keys.keep(k)
			}
		}
		if m.in.State != live {
			t.conclude(m, nil)
			continue
		}
		t.recharge(m)
		m.in.PC, m.in.Stage = 0, fresh
		place := claimOf(m)
		kept := l.r.plan.ordered && l.r.holds.before(b.in.Msgs[:i], m)
		if place != nil { // that of a message that has waited in these steps
			t.freed = append(t.freed, place)
			setClaim(m, nil)
		}
		if !kept {
			alive++
		}
	}
	l.r.upstream.Add(int64(alive))
	b.sweep(alive)
	b.release()
	b.in.Way.in = nil
	if alive == 0 {
		recycle(b)
	} else {
		t.onward = append(t.onward, sending{to: l.r.lanes, b: b}) // not beyond the lanes
	}
	t.apply()
}
