package stage

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/ledger"
	"github.com/flowd-io/flowd/engine/internal/life"
	"github.com/flowd-io/flowd/engine/internal/order"
)

// settlement is what every part of a run needs to end messages, and to send them on: what is owed for them, what they
// hold, and where they go.
type settlement struct {
	*ledger.Account // who is to be told
	*life.Life      // whether anything may end still
	layout          *Layout
	credits         flow.Credits
	holds           *order.Holds // of order keys
	timers          *flow.Timers
	retrying        atomic.Int64                // messages that wait for another attempt
	lanes           *laneFeed                   // where messages come back to
	outputs         map[*OutputPlan]destination // where they go on to
	balance         overseer
	verdict         *verdict        // for an error that ends the run
	expired         context.Context // ends when all that is unfinished goes back
	slow            time.Duration   // after which the tracer wants any message; 0: never
}

// overseer looks at all parts of a run when one of them has something to say. Its only type is balance.
type overseer interface {
	// quiesce is called when messages have ended: nothing may be left, or nothing more may come to the batchers.
	quiesce()
	// relieve is called when somebody begins to wait: only open batches may have the credits that are needed.
	relieve()
	// ease is called when lanes or outputs have less before them: readers may go on.
	ease()
	// hurry is why batchers must send what they hold at once, or "".
	hurry() engine.Trigger
}

// outcome collects what a goroutine does with messages: those that have ended, and those that go on. conclude decides for
// each message, the files settle_*.go carry that out, and apply reports all of it to the settlement, once for a batch.
type outcome struct {
	*settlement
	beyondLanes bool         // the messages are in a batcher, group or output, not in a lane
	in          *InputPlan   // the input whose own steps the messages are in; nil: none
	read        int          // bytes of the slab that the messages come from
	keys        flow.Keyring // memory for order keys and batch keys

	pieces, roots  [ledger.HowMany]int64 // that have ended
	made, consumed int64
	msgs, bytes    int                 // of credit that are given back
	beyond         int                 // change in the number of messages beyond the lanes
	reports        ledger.Reports      // results for sources
	led            *ledger.Ledger      // of the root that ended last
	left           int32               // roots of led that have ended and are not counted yet
	now            time.Time           // when these roots ended, or the write that they were in; zero: not known yet
	settled        []ledger.Settlement // for steps that have a stake
	onward         []sending           // messages that go on
	waiting        []*engine.Batch     // messages that wait for another attempt
	freed          []*order.Claim      // claims of messages that no longer hold their order keys
}

// conclude settles m or sends it on, depending on its state. at is the stage that was working on m; nil: a lane or batcher.
func (out *outcome) conclude(m *engine.Message, at *stage) {
	switch msg(m).State {
	case inside.Live:
		if at != nil {
			at.exit.forward(out, m)
		}
	case inside.Dropped:
		out.endPiece(m, engine.Filtered)
	case inside.Discarded:
		out.rollBack(m, at)
		out.endPiece(m, engine.Dropped)
	case inside.Failed:
		if at == nil || !at.exit.retry(out, m) {
			out.fail(m, at)
		}
	case inside.Waits:
		out.retryLater(m, at)
	case inside.Parked:
		out.park(m, at)
	case inside.Ended:
		out.confirm(m, msg(m).Fate)
	case inside.Done:
		out.confirm(m, engine.Delivered)
	}
}

// confirm ends m with a fate from an output. A delivered dead letter is dead-lettered.
func (out *outcome) confirm(m *engine.Message, f engine.Fate) {
	if msg(m).Dead && f == engine.Delivered {
		f = engine.DeadLettered
		out.Failures.Add(m, f)
	}
	out.endPiece(m, f)
}

// endPiece ends the piece m.
func (out *outcome) endPiece(m *engine.Message, f engine.Fate) {
	out.pieces[f]++
	out.releaseCredits(m)
	out.releaseKeys(m)
	out.endRoots(m, f, msg(m).Err)
}

// endRoots ends the piece of m's root, or of each root of a merge.
func (out *outcome) endRoots(m *engine.Message, f engine.Fate, err *engine.Error) {
	for i := range msg(m).Of {
		out.releaseCredits(&msg(m).Of[i])
		out.endRoots(&msg(m).Of[i], f, err)
	}
	r := ledger.RootOf(m)
	if r.Led == nil || len(msg(m).Of) > 0 {
		return
	}
	if f == engine.Returned {
		if r.Led.Takes == engine.TakesNothing { // it was merged with a message of a source that takes messages back
			f = engine.Dropped
		}
		if !out.Handing() {
			out.Recall(m)
		}
	}
	if r.End(f, err) {
		out.endRoot(r)
	}
}

// endRoot records the result of a root whose last piece has ended.
func (out *outcome) endRoot(r ledger.Root) {
	l, s := r.Led, &r.Led.Roots[r.I]
	out.roots[s.Worst]++
	for _, o := range out.layout.Observers {
		if o.Wants(out.layout.End, 1) > 0 {
			o.Ended(engine.OriginOf(inside.Key{}, l, r.I), s.Worst, s.Err)
		}
	}
	if out.layout.Tracer != nil {
		out.endTrace(r)
	}
	unfinished := s.Err != nil && s.Err.Unfinished()
	if s.Worst == engine.Returned && (out.Handing() || unfinished) || s.Worst == engine.DeadLettered && unfinished {
		out.Handed.Add(1)
	}
	switch {
	case l.Acks == nil:
	case l.Acks.MayTake() && !s.Lease.CompareAndSwap(ledger.LeaseOpen, ledger.LeaseEnded):
		l.Acks.Forget()
		out.Lost.Add(-1)
	default:
		out.reports.Add(r)
	}
	out.settleStakes(l, r.I, s.Worst)
	if out.led != l {
		out.countEnds()
		out.led = l
	}
	out.left++
}

// endTrace tells the tracer that a root has ended, if it follows it, or if the root has taken long.
func (out *outcome) endTrace(r ledger.Root) {
	l, s, to := r.Led, &r.Led.Roots[r.I], out.layout.Tracer
	if t := l.Trace(r.I); t != nil {
		to.Ended(t, s.Worst, s.Err)
		return
	}
	slow := out.slow
	if slow == 0 {
		return
	}
	if out.now.IsZero() {
		out.now = time.Now()
	}
	if out.now.Sub(l.ReadAt) >= slow {
		to.Late(out.layout.Name, l.AsRead(r.I, s.Err), s.Worst, s.Err)
	}
}

// countEnds tells a ledger how many of its roots have ended, and counts how long they took.
func (out *outcome) countEnds() {
	l, n := out.led, out.left
	out.led, out.left = nil, 0
	if n == 0 {
		return
	}
	if out.now.IsZero() {
		out.now = time.Now()
	}
	out.Latency.Add(out.now.Sub(l.ReadAt), int(n))
	if l.Open.Add(-n) == 0 {
		out.Open.Remove(l)
		out.Recalls.Add(-int64(l.Recalls()))
		if l.Replay != nil {
			l.Replay.Ended()
		}
		if l.Acks == nil { // else when its source has been told
			l.Recycle()
		}
	}
}

// settleStakes records for each step that has a stake in a root how the root ended.
func (out *outcome) settleStakes(l *ledger.Ledger, i uint32, f engine.Fate) {
	l.LetGo(i)
	s := &l.Roots[i]
	if !out.Handing() && s.Stakes == 0 { // only who holds a piece can add a stake
		return
	}
	l.Mu.Lock() // while messages are handed back, a step that has not returned may still put a stake in one
	defer l.Mu.Unlock()
	for at := s.Stakes; at > 0; at = l.Stakes[at-1].Next {
		out.settleStake(&l.Stakes[at-1], f)
	}
}

// rollBack tells steps to undo what a failed message has written, before its dead letter is written. Where steps must see
// earlier writes, later messages of its key wait for that.
func (out *outcome) rollBack(m *engine.Message, at *stage) {
	if msg(m).Dead {
		return
	}
	ledger.EachRoot(m, func(r ledger.Root) {
		l := r.Led
		if s := &l.Roots[r.I]; s.Pieces() > 1 || s.Stakes == 0 { // the holder of the last piece is alone with it
			return
		}
		l.Mu.Lock()
		defer l.Mu.Unlock()
		last := &l.Roots[r.I].Stakes
		for at := *last; at > 0; at = l.Stakes[at-1].Next {
			k := &l.Stakes[at-1]
			if k.Worst == engine.DeadLettered {
				last = &k.Next
				continue
			}
			out.settleStake(k, engine.Returned)
			*last = k.Next
		}
	})
	if out.layout.Serial && at == nil && out.in == nil && len(out.settled) > 0 {
		out.holds.Own(m, nil)
	}
}

// settleStake records for a step whether its stake is committed or rolled back.
func (out *outcome) settleStake(k *ledger.Stake, f engine.Fate) {
	i := 0
	for i < len(out.settled) && out.settled[i].By != k.By {
		i++
	}
	if i == len(out.settled) {
		out.settled = append(out.settled, ledger.Settlement{By: k.By})
	}
	if s := &out.settled[i]; f <= k.Worst {
		s.Committed = append(s.Committed, k.Ref)
	} else {
		s.RolledBack = append(s.RolledBack, k.Ref)
	}
}

// releaseCredits gives back the credits that m holds.
func (out *outcome) releaseCredits(m *engine.Message) {
	out.msgs += int(msg(m).Credits)
	out.bytes += msg(m).Charge
	if out.beyondLanes {
		out.beyond -= int(msg(m).Credits)
	}
	msg(m).Credits, msg(m).Charge = 0, 0
}

// releaseKeys notes that m no longer holds its order keys.
func (out *outcome) releaseKeys(m *engine.Message) {
	if !out.layout.Ordered {
		return
	}
	order.EachLeafKey(m, func(leaf *engine.Message) {
		if c := order.ClaimOf(leaf); c != nil {
			out.freed = append(out.freed, c)
			order.SetClaim(leaf, nil)
		}
	})
}

// recharge adjusts the credits of m to the memory that it keeps.
func (out *outcome) recharge(m *engine.Message) {
	now := flow.Bytes(m)
	out.bytes += msg(m).Charge - now
	msg(m).Charge = now
}

// settle calls f to settle messages that are beyond the lanes, unless the run has handed back all messages.
func (s *settlement) settle(f func(out *outcome)) {
	if !s.Enter() {
		return
	}
	defer s.Leave()
	out := outcome{settlement: s, beyondLanes: true}
	f(&out)
	out.apply()
}

// apply reports everything in out and empties it. The caller is inside the fence, see life.Life.Enter.
func (out *outcome) apply() {
	r := out.settlement
	out.countEnds()
	if len(out.settled) > 0 {
		out.reportSaved() // before the counts say that nothing is in flight
	}
	r.Pieces.Count(&out.pieces, out.made, out.consumed)
	r.Roots.Count(&out.roots, 0, 0)
	out.reports.Send()
	if len(out.settled) > 0 {
		if len(out.freed) > 0 && r.layout.Serial { // messages that are let go must see what is settled
			freed := out.freed
			out.settled, out.freed = append(out.settled, ledger.Settlement{Then: func() { r.freeClaims(freed) }}), nil
		}
		r.Settling.Put(out.settled)
		out.settled = nil
	}
	if out.msgs != 0 || out.bytes != 0 || out.beyond != 0 {
		r.credits.Put(out.msgs, out.bytes, out.beyond)
	}
	out.pieces, out.roots, out.made, out.consumed = [ledger.HowMany]int64{}, [ledger.HowMany]int64{}, 0, 0
	out.msgs, out.bytes, out.beyond, out.now = 0, 0, 0, time.Time{}
	out.push()
	if len(out.waiting) > 0 {
		out.arm()
	}
	if len(out.freed) > 0 {
		r.holds.Free(out.freed)
		out.freed = out.freed[:0]
	}
	r.balance.quiesce()
}

// freeClaims frees claims after steps have been told.
func (s *settlement) freeClaims(claims []*order.Claim) {
	if s.Enter() {
		s.holds.Free(claims)
		s.Leave()
	}
}

// reportSaved withholds the results from sources until steps have saved their state.
func (out *outcome) reportSaved() {
	var by []engine.Saver
	for _, s := range out.settled {
		if s, ok := s.By.(engine.Saver); ok {
			by = append(by, s)
		}
	}
	if len(by) == 0 || len(out.reports) == 0 {
		return
	}
	r, reports := out.settlement, out.reports
	out.reports = nil
	told := r.Withhold(&reports)
	out.settled = append(out.settled, ledger.Settlement{Then: func() {
		ledger.SaveAll(by, func() {
			told()
			r.balance.quiesce()
		})
	}})
}
