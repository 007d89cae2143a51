package stage

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/ledger"
	"github.com/flowd-io/flowd/engine/internal/order"
)

// tally is what has become of messages since its goroutine last told the run. All that ends a message, or sends
// it on, goes through it: conclude decides, the files settle_*.go carry it out, and apply tells the run, once for a
// batch.
type tally struct {
	r    *Run
	past bool         // its goroutine works beyond the lanes
	in   *InputPlan   // in whose own steps the messages are; nil: elsewhere
	was  int          // bytes of the slab that they come from
	keys flow.Keyring // order and batch keys that it has given to messages

	pieces, roots  [ledger.HowMany]int64 // that have ended
	made, consumed int64
	msgs, bytes    int                 // of credit that are given back
	beyond         int                 // by how much the messages beyond the lanes change
	results        []ledger.Results    // for sources
	settled        []ledger.Settlement // for steps
	onward         []sending           // messages that go on
	waiting        []*engine.Batch     // messages that are to be tried again
	freed          []*order.Claim      // where messages held their order keys and no longer do
}

// conclude does what a message's state asks for, wherever it was set; at is the
// stage that was working on it, or nil.
func (t *tally) conclude(m *engine.Message, at *stage) {
	switch msg(m).State {
	case inside.Live:
		if at != nil {
			at.exit.forward(t, m)
		}
	case inside.Dropped:
		t.End(m, engine.Filtered)
	case inside.Discarded:
		t.forfeit(m, at)
		t.End(m, engine.Dropped)
	case inside.Failed:
		if at == nil || !at.exit.retry(t, m) {
			t.fail(m, at)
		}
	case inside.Waits:
		t.await(m, at)
	case inside.Parked:
		t.park(m, at)
	case inside.Ended:
		t.confirm(m, msg(m).Fate)
	case inside.Done:
		t.confirm(m, engine.Delivered)
	}
}

// confirm ends m with the fate that an output has given it. A dead letter that is delivered is dead-lettered.
func (t *tally) confirm(m *engine.Message, f engine.Fate) {
	if msg(m).Dead && f == engine.Delivered {
		f = engine.DeadLettered
		t.r.Failures.Add(m, f)
	}
	t.End(m, f)
}

// end ends the piece m.
func (t *tally) End(m *engine.Message, f engine.Fate) {
	t.pieces[f]++
	t.release(m)
	t.disown(m)
	t.endRoots(m, f, msg(m).Err)
}

// endRoots ends what m stands for: its root's piece, or those of a merge's parts.
func (t *tally) endRoots(m *engine.Message, f engine.Fate, err *engine.Error) {
	for i := range msg(m).Of {
		t.release(&msg(m).Of[i])
		t.endRoots(&msg(m).Of[i], f, err)
	}
	r := ledger.RootOf(m)
	if r.Led == nil || len(msg(m).Of) > 0 {
		return
	}
	if f == engine.Returned {
		if r.Led.Takes == engine.TakesNothing { // merged with what a source takes back
			f = engine.Dropped
		}
		if !t.r.Handing() {
			t.r.Recall(m)
		}
	}
	if r.End(f, err) {
		t.settle(r)
	}
}

// settle takes down the result of a root that has ended.
func (t *tally) settle(r ledger.Root) {
	l, s := r.Led, &r.Led.Roots[r.I]
	t.roots[s.Worst]++
	if s.Worst == engine.Returned && (t.r.Handing() || s.Err != nil && s.Err.Unfinished()) {
		t.r.Handed.Add(1)
	}
	switch {
	case l.Acks == nil:
	case !s.Lease.CompareAndSwap(ledger.LeaseOpen, ledger.LeaseEnded):
		l.Acks.Forget()
		t.r.Lost.Add(-1)
	default:
		res := engine.Result{Ref: s.Ref, Fate: s.Worst, Err: s.Err}
		if s.Worst == engine.Returned && s.Err != nil {
			res.Delay = s.Err.Delay
		}
		t.result(l.Acks, ledger.Ranked{Result: res, Rank: l.First + uint64(r.I)})
	}
	t.unstake(l, r.I, s.Worst)
	if l.Open.Add(-1) == 0 {
		t.r.Open.Remove(l)
		t.r.Recalls.Add(-int64(l.Recalls()))
		if l.Replay != nil {
			l.Replay.Ended()
		}
	}
}

func (t *tally) result(to *ledger.AckLoop, r ledger.Ranked) {
	for i := range t.results {
		if t.results[i].To == to {
			t.results[i].Rs = append(t.results[i].Rs, r)
			return
		}
	}
	t.results = append(t.results, ledger.Results{To: to, Rs: []ledger.Ranked{r}})
}

// unstake tells those that had a stake in a root how it ended.
func (t *tally) unstake(l *ledger.Ledger, i uint32, f engine.Fate) {
	l.LetGo(i)
	s := &l.Roots[i]
	if s.Stakes == 0 { // only who holds a piece can change that
		return
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	for at := s.Stakes; at > 0; at = l.Stakes[at-1].Next {
		t.stake(&l.Stakes[at-1], f)
	}
}

// forfeit tells steps that what a failed message has written does not count, before its
// dead letter is written. Where later ones of its key are to see that, they wait for it.
func (t *tally) forfeit(m *engine.Message, at *stage) {
	if msg(m).Dead {
		return
	}
	ledger.EachRoot(m, func(r ledger.Root) {
		l := r.Led
		if s := &l.Roots[r.I]; s.Pieces.Load() > 1 || s.Stakes == 0 { // who holds the last piece is alone with it
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
			t.stake(k, engine.Returned)
			*last = k.Next
		}
	})
	if t.r.plan.Serial && at == nil && t.in == nil && len(t.settled) > 0 {
		t.r.holds.Own(m, nil)
	}
}

func (t *tally) stake(k *ledger.Stake, f engine.Fate) {
	i := 0
	for i < len(t.settled) && t.settled[i].By != k.By {
		i++
	}
	if i == len(t.settled) {
		t.settled = append(t.settled, ledger.Settlement{By: k.By})
	}
	if s := &t.settled[i]; f <= k.Worst {
		s.Committed = append(s.Committed, k.Ref)
	} else {
		s.RolledBack = append(s.RolledBack, k.Ref)
	}
}

// release gives back the credits that m holds.
func (t *tally) release(m *engine.Message) {
	t.msgs += int(msg(m).Credits)
	t.bytes += msg(m).Charge
	if t.past {
		t.beyond -= int(msg(m).Credits)
	}
	msg(m).Credits, msg(m).Charge = 0, 0
}

// disown notes that m no longer holds its order keys.
func (t *tally) disown(m *engine.Message) {
	if !t.r.plan.Ordered {
		return
	}
	order.EachLeafKey(m, func(leaf *engine.Message) {
		if c := order.ClaimOf(leaf); c != nil {
			t.freed = append(t.freed, c)
			order.SetClaim(leaf, nil)
		}
	})
}

// recharge makes m hold credits for what it keeps, neither more nor less.
func (t *tally) recharge(m *engine.Message) {
	now := flow.Bytes(m)
	t.bytes += msg(m).Charge - now
	msg(m).Charge = now
}

// apply tells the run and makes t empty. The run's fence is held for reading
// by whoever ends messages, see run.enter.
func (t *tally) apply() {
	r := t.r
	r.Pieces.Count(&t.pieces, t.made, t.consumed)
	r.Roots.Count(&t.roots, 0, 0)
	for i := range t.results {
		t.results[i].To.Put(t.results[i].Rs)
	}
	t.results = ledger.Reuse(t.results)
	if len(t.settled) > 0 {
		if len(t.freed) > 0 && r.plan.Serial { // who is let go sees what is settled
			freed := t.freed
			t.settled, t.freed = append(t.settled, ledger.Settlement{Then: func() { r.letGo(freed) }}), nil
		}
		r.Settling.Put(t.settled)
		t.settled = nil
	}
	if t.msgs != 0 || t.bytes != 0 || t.beyond != 0 {
		r.Credits.Put(t.msgs, t.bytes, t.beyond)
	}
	t.pieces, t.roots, t.made, t.consumed = [ledger.HowMany]int64{}, [ledger.HowMany]int64{}, 0, 0
	t.msgs, t.bytes, t.beyond = 0, 0, 0
	t.handOver()
	t.postpone()
	if len(t.freed) > 0 {
		r.holds.Free(t.freed)
		t.freed = t.freed[:0]
	}
	r.Quiesce()
}

// letGo frees claims from outside of the loops.
func (r *Run) letGo(claims []*order.Claim) {
	if r.Enter() {
		r.holds.Free(claims)
		r.Leave()
	}
}

// returnAll ends every open root as returned, or as lost, and says how many pieces
// are lost.
func (t *tally) returnAll(why *engine.Error) (lost int64) {
	for _, l := range t.r.Open.List() {
		for i := range l.Roots {
			if n := l.Roots[i].Pieces.Load(); n > 0 && t.giveUp(ledger.Root{Led: l, I: uint32(i)}, why) {
				lost += int64(n)
			}
		}
	}
	return lost
}

// giveUp ends a root whatever its pieces are doing: nothing is at work any more, for
// the fence is closed. It is lost where its source takes nothing back.
func (t *tally) giveUp(r ledger.Root, why *engine.Error) (lost bool) {
	l, s := r.Led, &r.Led.Roots[r.I]
	f := engine.Returned
	if l.Takes == engine.TakesNothing {
		f, why = engine.Dropped, lostWith(nil)
		t.r.Failures.Add(l.AsRead(r.I, why), f)
	}
	s.Pieces.Store(ledger.GivenUp)
	s.Worsen(f, why)
	t.settle(r)
	return f == engine.Dropped
}

// forget ends a root without an end: its steps' stakes are rolled back, and its
// source is told by the next plan.
func (t *tally) forget(l *ledger.Ledger, i uint32) {
	l.Roots[i].Pieces.Store(ledger.GivenUp)
	if l.Acks != nil {
		l.Acks.Forget()
	}
	t.unstake(l, i, engine.Returned)
}
