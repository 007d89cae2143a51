package engine

import (
	"errors"
	"slices"
	"time"
)

// tally is what one goroutine has found out about messages since it last told
// the run: fates, pieces made, credits to give back, results for sources. It is
// applied once per batch.
type tally struct {
	r *run

	pieces, roots  [howMany]int64
	made, consumed int64
	msgs, bytes    int        // credits
	beyond         int        // by how much the messages beyond the lanes change
	past           bool       // this goroutine works beyond the lanes
	in             *inputPlan // in whose own steps the messages are; nil: elsewhere
	results        []results
	settled        []settlement
	onward         []sending
	waiting        []*Batch // slabs of messages that are to be tried again
	freed          []*claim // where messages held their order keys and no longer do
	was            int      // bytes of the slab that onward comes from
	keys           keyring  // order and batch keys that it has given to messages
}

// end ends the piece m.
func (t *tally) end(m *Message, f Fate) {
	t.pieces[f]++
	t.release(m)
	t.disown(m)
	t.endRoots(m, f, m.in.Err)
}

// endRoots ends what m stands for: its root's piece, or those of a merge's parts.
func (t *tally) endRoots(m *Message, f Fate, err *Error) {
	for i := range m.in.Of {
		t.release(&m.in.Of[i])
		t.endRoots(&m.in.Of[i], f, err)
	}
	r := rootOf(m)
	if r.led == nil || len(m.in.Of) > 0 {
		return
	}
	if f == Returned {
		if r.led.takes == TakesNothing { // merged with what a source takes back
			f = Dropped
		}
		if !t.r.handing() {
			t.r.recall(m)
		}
	}
	if r.end(f, err) {
		t.settle(r)
	}
}

// settle takes down the result of a root that has ended.
func (t *tally) settle(r root) {
	l, s := r.led, &r.led.roots[r.i]
	t.roots[s.worst]++
	if s.worst == Returned && (t.r.handing() || s.err != nil && s.err.Unfinished()) {
		t.r.handed.Add(1)
	}
	switch {
	case l.acks == nil:
	case !s.lease.CompareAndSwap(leaseOpen, leaseEnded):
		l.acks.forget()
		t.r.lost.Add(-1)
	default:
		res := Result{Ref: s.ref, Fate: s.worst, Err: s.err}
		if s.worst == Returned && s.err != nil {
			res.Delay = s.err.Delay
		}
		t.result(l.acks, ranked{Result: res, rank: l.first + uint64(r.i)})
	}
	t.unstake(l, r.i, s.worst)
	if l.open.Add(-1) == 0 {
		t.r.open.remove(l)
		t.r.recalls.Add(-int64(l.recalls()))
		if l.replay != nil {
			l.replay.ended()
		}
	}
}

// forfeit tells steps that what a failed message has written does not count, before its
// dead letter is written. Where later ones of its key are to see that, they wait for it.
func (t *tally) forfeit(m *Message, out *outRun) {
	if m.in.Dead {
		return
	}
	m.eachRoot(func(r root) {
		l := r.led
		if s := &l.roots[r.i]; s.pieces.Load() > 1 || s.stakes == 0 { // who holds the last piece is alone with it
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		last := &l.roots[r.i].stakes
		for at := *last; at > 0; at = l.stakes[at-1].next {
			k := &l.stakes[at-1]
			if k.worst == DeadLettered {
				last = &k.next
				continue
			}
			t.stake(k, Returned)
			*last = k.next
		}
	})
	if t.r.plan.serial && out == nil && t.in == nil && len(t.settled) > 0 {
		t.r.holds.own(m, nil)
	}
}

// unstake tells those that had a stake in a root how it ended.
func (t *tally) unstake(l *ledger, i uint32, f Fate) {
	l.letGo(i)
	s := &l.roots[i]
	if s.stakes == 0 { // only who holds a piece can change that
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for at := s.stakes; at > 0; at = l.stakes[at-1].next {
		t.stake(&l.stakes[at-1], f)
	}
}

func (t *tally) result(to *ackLoop, r ranked) {
	for i := range t.results {
		if t.results[i].to == to {
			t.results[i].rs = append(t.results[i].rs, r)
			return
		}
	}
	t.results = append(t.results, results{to, []ranked{r}})
}

func (t *tally) stake(k *stake, f Fate) {
	i := 0
	for i < len(t.settled) && t.settled[i].by != k.by {
		i++
	}
	if i == len(t.settled) {
		t.settled = append(t.settled, settlement{by: k.by})
	}
	if s := &t.settled[i]; f <= k.worst {
		s.committed = append(s.committed, k.ref)
	} else {
		s.rolledBack = append(s.rolledBack, k.ref)
	}
}

// release gives back the credits that m holds.
func (t *tally) release(m *Message) {
	t.msgs += int(m.in.Credits)
	t.bytes += m.in.Charge
	if t.past {
		t.beyond -= int(m.in.Credits)
	}
	m.in.Credits, m.in.Charge = 0, 0
}

// apply tells the run and makes t empty. The run's fence is held for reading
// by whoever ends messages, see run.enter.
func (t *tally) apply() {
	r := t.r
	r.pieces.count(&t.pieces, t.made, t.consumed)
	r.roots.count(&t.roots, 0, 0)
	for i := range t.results {
		t.results[i].to.put(t.results[i].rs)
	}
	t.results = reuse(t.results)
	if len(t.settled) > 0 {
		if len(t.freed) > 0 && r.plan.serial { // who is let go sees what is settled
			freed := t.freed
			t.settled, t.freed = append(t.settled, settlement{then: func() { r.letGo(freed) }}), nil
		}
		r.settling.put(t.settled)
		t.settled = nil
	}
	if t.msgs != 0 || t.bytes != 0 || t.beyond != 0 {
		r.credits.put(t.msgs, t.bytes, t.beyond)
	}
	t.pieces, t.roots, t.made, t.consumed = [howMany]int64{}, [howMany]int64{}, 0, 0
	t.msgs, t.bytes, t.beyond = 0, 0, 0
	t.handOver()
	t.postpone()
	if len(t.freed) > 0 {
		r.holds.free(t.freed)
		t.freed = t.freed[:0]
	}
	r.quiesce()
}

// disown notes that m no longer holds its order keys.
func (t *tally) disown(m *Message) {
	if !t.r.plan.ordered {
		return
	}
	m.eachLeafKey(func(leaf *Message) {
		if c := claimOf(leaf); c != nil {
			t.freed = append(t.freed, c)
			setClaim(leaf, nil)
		}
	})
}

// conclude does what a message's state asks for, wherever it was set; out is the
// output that was writing it, or nil.
func (t *tally) conclude(m *Message, out *outRun) {
	switch m.in.State {
	case live: // it has been written: in a group, into the lanes
		if out != nil && out.plan.group != nil {
			t.rejoin(m, out.plan.group)
		}
	case dropped:
		t.end(m, Filtered)
	case discarded:
		t.forfeit(m, out)
		t.end(m, Dropped)
	case failed:
		if out != nil && m.in.Err.Step == "" {
			m.in.Err.Output = out.plan.name
			complete(m.in.Err, Transient)
			if errors.Is(m.in.Err, ErrBehind) && t.behind(m, out) {
				return
			}
			if !errors.Is(m.in.Err, errDown) && out.plan.retryOf(m).again(m, time.Now(), m.in.Err.HoldsOutput(), m.in.Err.HoldsOutput()) {
				t.await(m, out)
				return
			}
		}
		t.fail(m, out)
	case waits:
		t.await(m, out)
	case ended:
		if m.in.Dead && m.in.Fate == Delivered {
			t.r.failures.add(m, DeadLettered)
			m.in.Fate = DeadLettered
		}
		t.end(m, m.in.Fate)
	case done:
		if m.in.Dead {
			t.r.failures.add(m, DeadLettered)
			t.end(m, DeadLettered)
		} else {
			t.end(m, Delivered)
		}
	case parked:
		t.park(m, out)
	}
}

// consume ends the piece m without a fate: its successors carry on.
func (t *tally) consume(m *Message) {
	t.consumed++
	t.release(m)
	t.disown(m)
	t.endRoots(m, Filtered, nil)
}

// accountMerge counts a merge: one made, its parts consumed. They keep their credits
// and roots until the merge ends.
func accountMerge(t *tally, m *Message) {
	t.made++
	t.consumed += int64(len(m.in.Of))
	m.in.Charge = m.Size()
	t.r.credits.charge(0, m.in.Charge)
}

// copy makes one more piece of m's root, with credits of its own.
func (t *tally) copy(m *Message) Message {
	m.in.Doc.Detach()
	c := *m
	c.in.Credits, c.in.Charge, c.in.Of, c.in.Serial = 1, len(m.in.Orig), copies(m.in.Of), 0
	setTrial(&c, nil)
	setClaim(&c, nil)
	t.r.credits.charge(1, c.in.Charge)
	c.eachRoot(func(r root) { r.add(1) })
	t.made++
	return c
}

// copies are parts of a merge for its copy, which gives back no credits for them.
func copies(of []Message) []Message {
	all := slices.Clone(of)
	for i := range all {
		p := &all[i]
		p.in.Credits, p.in.Charge, p.in.Of = 0, 0, copies(p.in.Of)
		setClaim(p, nil)
	}
	return all
}

// returnAll ends every open root as returned, or as lost, and says how many pieces
// are lost.
func (t *tally) returnAll(why *Error) (lost int64) {
	for _, l := range t.r.open.list() {
		for i := range l.roots {
			if n := l.roots[i].pieces.Load(); n > 0 && t.giveUp(root{l, uint32(i)}, why) {
				lost += int64(n)
			}
		}
	}
	return lost
}

// giveUp ends a root whatever its pieces are doing: nothing is at work any more, for
// the fence is closed. It is lost where its source takes nothing back.
func (t *tally) giveUp(r root, why *Error) (lost bool) {
	l, s := r.led, &r.led.roots[r.i]
	f := Returned
	if l.takes == TakesNothing {
		f, why = Dropped, lostWith(nil)
		t.r.failures.add(l.asRead(r.i, why), f)
	}
	s.pieces.Store(givenUp)
	s.worsen(f, why)
	t.settle(r)
	return f == Dropped
}

// forget ends a root without an end: its steps' stakes are rolled back, and its
// source is told by the next plan.
func (t *tally) forget(l *ledger, i uint32) {
	l.roots[i].pieces.Store(givenUp)
	if l.acks != nil {
		l.acks.forget()
	}
	t.unstake(l, i, Returned)
}

// recharge makes m hold credits for what it keeps, neither more nor less.
func (t *tally) recharge(m *Message) {
	now := m.bytes()
	t.bytes += m.in.Charge - now
	m.in.Charge = now
}
