package ledger

import (
	"context"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/guard"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// The states of a root's lease.
const (
	LeaseOpen  int32 = iota
	LeaseEnded       // the result of the root is reported to the source
	LeaseLost        // the source has taken the root away, and gets no result
)

const (
	leaseLeast = 50 * time.Millisecond // between two calls of a Leaser
	leaseAgain = time.Second           // after one that failed and does not say when to call again
)

// lend begins to renew the leases of what an acker is owed results for, if its source
// leases messages. It continues through a drain, until everything has been reported to the
// acker.
func (r *Account) lend(a *AckLoop) {
	l, ok := a.To.(engine.Leaser)
	if !ok {
		return
	}
	a.lent = make(chan struct{})
	go func() {
		defer close(a.lent)
		r.renewAll(a, l)
	}()
}

// Leases says that the source leases messages, and is asked about them.
func (a *AckLoop) Leases() bool { return a.lent != nil }

// MayTake says that the source may take a message away.
func (a *AckLoop) MayTake() bool { return a.revokes || a.Leases() }

// Taken says that the source has taken a root away.
func (l *Ledger) Taken(i uint32) bool { return l.Roots[i].Lease.Load() == LeaseLost }

// Take is [engine.Holding.Take] for an acker.
func (r *Account) Take(a *AckLoop, gone func(ref uint64) bool) int {
	n := r.Open.take(a, gone)
	r.Lost.Add(int64(n))
	return n
}

// Reads says that a Read begins of which the results go to a. What is taken away from here on is also taken from what
// it brings, which has no ledger until it has returned.
func (r *Account) Reads(a *AckLoop) {
	r.Open.mu.Lock()
	defer r.Open.mu.Unlock()
	a.reading, a.gone = true, nil
}

// take marks roots as lost. The lock keeps the memory of a ledger from being used again meanwhile.
func (s *ledgers) take(a *AckLoop, gone func(ref uint64) bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := s.head; l != nil; l = l.next {
		if l.Acks == a {
			n += l.take(gone)
		}
	}
	if a.reading && a.revokes { // handles of leases may be used again
		a.gone = append(a.gone, gone)
	}
	return n
}

func (l *Ledger) take(gone func(ref uint64) bool) (n int) {
	for i := range l.Roots {
		// What has ended meanwhile is reported as it ended: whoever settles it swaps first.
		x := &l.Roots[i]
		if x.Pieces() > 0 && gone(x.Ref) && x.Lease.CompareAndSwap(LeaseOpen, LeaseLost) {
			n++
		}
	}
	return n
}

func (r *Account) renewAll(a *AckLoop, l engine.Leaser) {
	failed := 0
	for a.over.Err() == nil {
		lost, next, err := a.renew(l, r.withheld.refs(r.Open.refs(a), a))
		r.lose(a, lost)
		switch {
		case err == nil:
			failed = 0
		case a.over.Err() == nil:
			failed++
			if next <= 0 {
				next = leaseAgain
			}
			if guard.PowerOfTen(int64(failed)) {
				r.Log.Warn("leases are not renewed", "input", a.Input, "err", guard.FirstLine(err), "times", failed)
			}
		}
		guard.Pause(a.over, max(next, leaseLeast))
	}
}

// renew asks the source, within a deadline.
func (a *AckLoop) renew(l engine.Leaser, refs []uint64) (lost []uint64, next time.Duration, err error) {
	ctx, cancel := context.WithTimeout(a.over, a.Timeout)
	defer cancel()
	defer engine.Recovered(&err)
	return l.Renew(ctx, refs)
}

// refs are the handles of the roots that have not ended and that must be reported to an
// acker.
func (s *ledgers) refs(a *AckLoop) (all []uint64) {
	for _, l := range s.List() {
		for i := range l.Roots {
			if x := &l.Roots[i]; l.Acks == a && x.Pieces() > 0 && x.Lease.Load() == LeaseOpen {
				all = append(all, x.Ref)
			}
		}
	}
	return all
}

// lose takes roots away: from now on no piece of them goes into a step or a write, and they
// are not reported to their source.
func (r *Account) lose(a *AckLoop, refs []uint64) {
	if len(refs) == 0 {
		return
	}
	lost := make(map[uint64]bool, len(refs))
	for _, ref := range refs {
		lost[ref] = true
	}
	n := r.Take(a, func(ref uint64) bool { return lost[ref] })
	if n > 0 {
		r.Log.Warn("leases were lost: the source delivers these messages again", "input", a.Input, "messages", n)
	}
}

// TakeAway ends what is still to be worked on in b and whose lease is lost, or which
// was recalled. Pieces that wait elsewhere end when they come here.
func (r *Account) TakeAway(b *engine.Batch) {
	if b == nil || r.Lost.Load() == 0 && r.Recalls.Load() == 0 {
		return
	}
	for i := range slab(b).Msgs {
		switch m := &slab(b).Msgs[i]; {
		case msg(m).State != inside.Live:
		case lost(m):
			m.EndAs(engine.Returned)
			msg(m).Err = engine.Errorf(engine.Transient,
				"the lease of this message was lost (give the source a longer visibility, or speed up what is slow)")
		case r.Recalls.Load() > 0 && !msg(m).Dead && recalled(m):
			m.EndAs(engine.Returned)
			msg(m).Err = &engine.Error{Class: engine.Transient, Err: engine.ErrBehind}
		}
	}
}

// lost says that everything that m represents was taken away: a merge of which only a part
// was continues.
func lost(m *engine.Message) bool {
	for i := range msg(m).Of {
		if !lost(&msg(m).Of[i]) {
			return false
		}
	}
	if len(msg(m).Of) > 0 {
		return true
	}
	r := RootOf(m)
	return r.Led != nil && r.Led.Roots[r.I].Lease.Load() == LeaseLost
}

// Recall is called when m goes back to its source. If the source delivers it again before
// what follows it, everything that was read later with its order key goes back, too:
// otherwise that would be delivered first.
func (r *Account) Recall(m *engine.Message) {
	at := RootOf(m)
	first := at.Led
	if m.Key == nil || first.Acks == nil || !first.Acks.withholds {
		return
	}
	for _, l := range r.Open.List() {
		switch {
		case l == first:
			r.Recalls.Add(l.recall(m.Key, at.I+1))
		case l.Acks == first.Acks && l.First > first.First:
			r.Recalls.Add(l.recall(m.Key, 0))
		}
	}
}

// recall marks the roots from one on that have a key, and says how many marks are new.
func (l *Ledger) recall(key []byte, from uint32) int64 {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	at, marked := l.recalled[string(key)]
	switch {
	case marked && at <= from || int(from) == len(l.Roots) || l.Open.Load() == 0:
		return 0
	case l.recalled == nil:
		l.recalled = map[string]uint32{}
	}
	l.recalled[string(key)] = from
	if marked {
		return 0
	}
	return 1
}

// Recalls is how many marks there are.
func (l *Ledger) Recalls() int {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return len(l.recalled)
}

// recalled says whether m is to go back. A merge does as soon as one of its parts is to.
func recalled(m *engine.Message) bool {
	for i := range msg(m).Of {
		if recalled(&msg(m).Of[i]) {
			return true
		}
	}
	r := RootOf(m)
	l := r.Led
	if len(msg(m).Of) > 0 || l == nil || m.Key == nil {
		return false
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	from, marked := l.recalled[string(m.Key)]
	return marked && r.I >= from
}
