package stage

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/guard"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/ledger"
	"github.com/flowd-io/flowd/engine/internal/limit"
	"github.com/flowd-io/flowd/engine/internal/order"
	"github.com/flowd-io/flowd/engine/internal/retry"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// reader is one instance of an input: it takes credits, reads, and hands what it
// has read to the lanes.
type reader struct {
	*settlement
	balance *balance
	plan    *InputPlan
	in      engine.Input
	index   int             // among the instances of its input
	own     *lane           // runs the input's own steps, in reading order
	read    atomic.Uint64   // messages, with those of the plans before
	acks    *ledger.AckLoop // of the connection that was read last
	replay  ledger.Replay   // of a source that keeps a position
	line    limit.WaitLine  // at its rate limits
	mean    int             // mean bytes of a message in the last Read; 0: there was none
	began   bool            // there was a Read
	figures readFigures
	outage  retry.Outage // since the input worked last
	plain   bool         // messages go to the lanes as they are read: without steps or order keys
	keyed   bool         // messages need only an order key before they go to the lanes
}

func newReader(x *balance, plan *InputPlan, in engine.Input) *reader {
	s := x.settlement
	rd := &reader{settlement: s, balance: x, plan: plan, in: in, own: newLane(s, x.batching, 0),
		line: limit.NewLine(plan.Limit, s.layout.Limit)}
	rd.own.reads = true
	bare := len(plan.Steps.Ops) == 0 && len(s.layout.Middleware) == 0
	rd.plain, rd.keyed = bare && !s.layout.Ordered, bare && s.layout.Ordered
	rd.replay.Moved = make(chan struct{}, 1)
	rd.figures.setState("reading")
	return rd
}

// standing is how long a connection must last before its input counts as recovered.
const standing = time.Second

// loop reads until the input or ctx ends. An input that fails, at its first opening or later, is restarted after a
// back-off. The back-off starts over when a connection has lasted, whether or not a message arrived: a queue may be
// quiet, and one message proves little.
func (rd *reader) loop(ctx, work context.Context) error {
	failed := 0 // times in a row
	for {
		rd.figures.connects()
		err := rd.session(ctx, work)
		if rd.figures.stands(engine.FailedSince(err)) {
			failed = 0
		}
		for err != nil && ctx.Err() == nil {
			failed++
			if rd.gone(err, failed) {
				return fmt.Errorf("input %s: %w", rd.plan.Name, err)
			}
			err = rd.restart(ctx, err, failed)
		}
		if ctx.Err() != nil || err == nil && !rd.figures.restarting() {
			return nil
		}
		rd.figures.setState("reading")
	}
}

// gone says whether restarting the input is useless, or was tried often enough.
func (rd *reader) gone(err error, failed int) bool {
	most := rd.layout.Restart.MaxAttempts
	return errors.Is(err, engine.ErrGone) || engine.ErrorOf(err, engine.Transient).Class == engine.Permanent ||
		most > 0 && failed >= most
}

// restart closes the input and opens it again after a back-off.
func (rd *reader) restart(ctx context.Context, cause error, failed int) error {
	p := rd.layout
	cause = guard.Masked(p.Secrets, cause)
	wait := retry.Jittered(p.Restart.Backoff, p.Restart.MaxBackoff, failed)
	rd.figures.restarts.Add(1)
	rd.figures.lost(cause)
	if failed == 1 {
		rd.outage = retry.Outage{}
	}
	if rd.outage.Fails(time.Now(), cause) != retry.Silent {
		rd.Log.Error("input failed and is restarted", "input", rd.plan.Name, "err", guard.FirstLine(cause), "in",
			wait.Round(time.Millisecond), "attempt", failed)
	}
	p.EmitEvent(engine.Event{Kind: engine.EventLost, Name: rd.plan.Name, Err: cause})
	rd.close(cause)
	if !guard.Pause(ctx, wait) {
		return nil
	}
	open, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	if o, ok := rd.in.(engine.Opener); ok {
		if err := guard.Guard(open, o.Open); err != nil {
			return err
		}
	}
	p.Plugins.Opened(rd.in)
	p.EmitEvent(engine.Event{Kind: engine.EventConnected, Name: rd.plan.Name})
	return nil
}

// close closes the input because of an error. The input is opened again later.
func (rd *reader) close(why error) {
	call, cancel := context.WithTimeout(context.Background(), rd.layout.Timeout)
	defer cancel()
	if c, ok := rd.in.(engine.Closer); ok && rd.layout.Plugins.Shut(rd.in, why) {
		if err := guard.Guard(call, c.Close); err != nil {
			rd.Log.Debug("closing an input before its restart failed", "input", rd.plan.Name, "err", err)
		}
	}
}

// session reads until the input fails or ends, or ctx ends.
func (rd *reader) session(ctx, work context.Context) error {
	if err := rd.layout.Plugins.WhyShut(rd.in); err != nil {
		return err
	}
	for ctx.Err() == nil {
		err := rd.readOnce(ctx, work)
		if err == engine.ErrEnd {
			rd.figures.setState("ended")
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readOnce makes one Read, with credits and within the limits, and sends on what it brings. It returns no error for a Read
// that a pause has interrupted.
func (rd *reader) readOnce(ctx, work context.Context) error {
	active, over := rd.layout.Pauses.Wait(ctx, rd.figures.setState)
	rd.keepPace(active)
	room := rd.room(active)
	if room == 0 {
		over()
		return nil
	}
	b := flow.NewSlab(room)
	acker, err := rd.call(active, b)
	if active.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil
	}
	over()
	slab(b).Room = 0
	n := len(slab(b).Msgs)
	if n < room {
		rd.credits.Put(room-n, 0, 0)
	}
	if n > 0 {
		rd.receive(ctx, work, b, acker)
	} else {
		flow.Recycle(b)
		runtime.Gosched()
	}
	return err
}

func (rd *reader) call(ctx context.Context, b *engine.Batch) (a engine.Acker, err error) {
	if rd.acks != nil {
		a = rd.acks.To // for messages that were added before a panic
	}
	defer engine.Recovered(&err)
	if rd.acks != nil && rd.acks.MayTake() {
		rd.Reads(rd.acks)
	}
	a, err = rd.in.Read(ctx, b)
	if a != nil && !reflect.TypeOf(a).Comparable() {
		return nil, engine.Errorf(engine.Permanent,
			"Read returned a %T: Ackers are compared with ==, so it must be a pointer", a)
	}
	return a, err
}

// receive counts messages that were read and sends them on, as fast as the rate limits allow. It returns false if the run is
// over; the source redelivers the messages then.
func (rd *reader) receive(ctx, work context.Context, b *engine.Batch, acker engine.Acker) bool {
	if !rd.Enter() {
		return false
	}
	n := len(slab(b).Msgs)
	rd.Roots.Receive(n)
	rd.Pieces.Receive(n)
	rd.Leave()
	rd.layout.EmitEvent(engine.Event{Kind: engine.EventDispatch, Name: rd.plan.Name, N: n})
	rd.figures.received.Add(int64(n))
	if rd.layout.Untraced {
		untrace(b)
	}
	now := time.Now()
	rd.figures.sees(&slab(b).Msgs[n-1], now)
	rd.openLedger(b, acker, now)
	rd.figures.bytes.Add(int64(slab(b).Bytes))
	rd.admit(ctx, work, b)
	return true
}

// untrace removes the context of a trace from messages.
func untrace(b *engine.Batch) {
	for i := range slab(b).Msgs { // All would leave out records that the framing has refused
		m := &slab(b).Msgs[i]
		for _, name := range engine.TraceContext {
			m.Meta = m.Meta.Without(name)
		}
	}
}

// openLedger opens a ledger for messages that have been counted, and charges their bytes. kept are the traces that they have already.
func (rd *reader) openLedger(b *engine.Batch, acker engine.Acker, at time.Time, kept ...*engine.Trace) {
	if !rd.Enter() {
		return
	}
	defer rd.Leave()
	n := len(slab(b).Msgs)
	led := &ledger.Ledger{InputName: rd.plan.Name, Instance: rd.index, Takes: rd.plan.Takes, ReadAt: at,
		Counters: rd.layout.Counters, Acks: rd.acksOf(acker, n), Delays: rd.plan.Delays, First: rd.read.Load()}
	if rd.layout.Ordered {
		led.Keys = rd.holds
	}
	led.Begin(n)
	rd.read.Add(uint64(n))
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		msg(m).SetRoot(led, uint32(i))
		msg(m).Orig = m.Bytes()
		msg(m).Credits, msg(m).Charge = 1, len(msg(m).Orig)
		slab(b).Bytes += msg(m).Charge
		led.Keep(i, m)
		if msg(m).State == inside.Failed { // the framing has refused the record
			steps.Complete(msg(m).Err, engine.Decode)
		}
	}
	for i, t := range kept {
		led.SetTrace(uint32(i), t)
	}
	rd.own.x.Sight.Read(rd.plan.Spot, b, len(kept) > 0)
	rd.mean = max(slab(b).Bytes/n, 1)
	if rd.plan.Early && led.Acks != nil {
		led.Early()
	}
	if rd.plan.Bounded {
		rd.replay.Add(led)
	}
	rd.Lost.Add(int64(rd.Open.Add(led)))
	rd.credits.Charge(0, slab(b).Bytes)
}

// send starts messages on their way.
func (rd *reader) send(ctx context.Context, b *engine.Batch) {
	if !rd.Enter() {
		return
	}
	if rd.plain && allLive(b) || rd.keyed && rd.peek(b) {
		rd.lanes.Push(b)
		rd.Leave()
		return
	}
	rd.Leave()
	setInput(b, rd.plan)
	rd.own.process(ctx, b)
}

// peek sets the order keys of b, if a quick look at each payload finds them and no key is held. It does not validate the
// payloads: lanes do. Where lanes take turns, they also find the keys.
func (rd *reader) peek(b *engine.Batch) bool {
	if rd.holds.Any.Load() > 0 || !allLive(b) {
		return false
	}
	by, keys := rd.layout.OrderBy, &rd.own.out.keys
	if by == nil {
		return true
	}
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		if rd.layout.Turns {
			msg(m).Early = true
			continue
		}
		key, ok := by.PeekKey(keys.Room(), m)
		if !ok {
			return false
		}
		m.Key, msg(m).Early = keys.Keep(key), true
	}
	return true
}

// acksOf is the loop for an acker that is going to get n results. Each connection has its own. The loop of an old
// connection ends with the result of its last message.
func (rd *reader) acksOf(acker engine.Acker, n int) *ledger.AckLoop {
	if acker == nil {
		return nil
	}
	if rd.acks != nil && rd.acks.To != acker {
		rd.acks.Close()
	}
	if rd.acks == nil || rd.acks.To != acker || !rd.acks.Owe(n) {
		rd.acks = rd.AcksOf(acker, rd.plan.Name, n)
	}
	return rd.acks
}

// dispatch takes messages from their input's own steps, sets their order keys and hands them to the lanes.
func (l *lane) dispatch(b *engine.Batch) {
	out, key := &l.out, l.layout.OrderBy
	alive := 0
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		if msg(m).State == inside.Live && key != nil {
			forgetEarly(m)
			k, ok, err := key.AppendKey(out.keys.Room(), m)
			switch {
			case err != nil:
				steps.FailAt(m, "order_by", err)
			case ok:
				m.Key = out.keys.Keep(k)
			}
		}
		if msg(m).State != inside.Live {
			out.conclude(m, nil)
			continue
		}
		out.recharge(m)
		msg(m).PC, msg(m).Stage = 0, inside.Fresh
		place := order.ClaimOf(m)
		kept := l.layout.Ordered && l.holds.Before(slab(b).Msgs[:i], m)
		if place != nil { // the message has waited in these steps
			out.freed = append(out.freed, place)
			order.SetClaim(m, nil)
		}
		if !kept {
			alive++
		}
	}
	l.lanes.upstream.Add(int64(alive))
	sweep(b, alive)
	flow.Release(b)
	slab(b).Way.In = nil
	if alive == 0 {
		flow.Recycle(b)
	} else {
		out.onward = append(out.onward, sending{to: l.lanes.queue, b: b}) // not beyond the lanes
	}
	out.apply()
}
