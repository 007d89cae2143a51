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
	LeaseEnded       // the root has ended, and the source gets its result
	LeaseLost        // the source has taken the root away, and gets no result
)

const (
	leaseLeast = 50 * time.Millisecond // between two calls of a Leaser
	leaseAgain = time.Second           // after a call that failed and did not say when to call again
)

// lend starts renewing leases if the source of an acker leases messages. It continues during a drain, until the acker has
// got all results.
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

// Leases says that the source leases messages, so that Renew is called.
func (a *AckLoop) Leases() bool { return a.lent != nil }

// MayTake says that the source may take messages away.
func (a *AckLoop) MayTake() bool { return a.revokes || a.Leases() }

// Taken says that the source has taken the i-th root away.
func (l *Ledger) Taken(i uint32) bool { return l.Roots[i].Lease.Load() == LeaseLost }

// Take implements [engine.Holding.Take] for an acker.
func (r *Account) Take(a *AckLoop, gone func(ref uint64) bool) int {
	n := r.Open.takeAway(a, gone)
	r.Lost.Add(int64(n))
	return n
}

// Reads is called when a Read begins whose results go to a. Its messages have no ledger until it returns. If the source
// takes some of them away meanwhile, they are removed when the Read returns.
func (r *Account) Reads(a *AckLoop) {
	r.Open.mu.Lock()
	defer r.Open.mu.Unlock()
	a.reading, a.gone = true, nil
}

// takeAway marks roots as lost. The lock keeps ledgers from being recycled meanwhile.
func (s *ledgers) takeAway(a *AckLoop, gone func(ref uint64) bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := s.head; l != nil; l = l.next {
		if l.Acks == a {
			n += l.takeAway(gone)
		}
	}
	if a.reading && a.revokes { // not for leases, whose refs may be reused
		a.gone = append(a.gone, gone)
	}
	return n
}

func (l *Ledger) takeAway(gone func(ref uint64) bool) (n int) {
	for i := range l.Roots {
		// A root that ends at the same time is either taken or reported: the first swap wins.
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

// refs are the refs of the roots of an acker that have not ended.
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

// lose marks roots as lost. From now on no piece of them enters a step or a write, and their source gets no result.
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
		r.Log.Warn("leases were lost: the source will deliver these messages again", "input", a.Input, "messages", n)
	}
}

// TakeAway ends live messages of b whose lease is lost, or that were recalled. It is called before steps and writes, so
// that pieces that wait elsewhere end when they move on.
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
				"the lease of this message was lost (set a longer visibility timeout at the source, or speed up slow steps)")
		case r.Recalls.Load() > 0 && !msg(m).Dead && recalled(m):
			m.EndAs(engine.Returned)
			msg(m).Err = &engine.Error{Class: engine.Transient, Err: engine.ErrBehind}
		}
	}
}

// lost says that m was taken away. A merge is lost when all of its parts are.
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

// Recall is called when m is returned to its source. If the source withholds later messages with the same key, those that
// were read later are returned, too. Otherwise they would be delivered before m.
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

// recall marks the roots with a key from an index on. It returns 1 if the key had no mark.
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

// Recalls is how many keys are marked.
func (l *Ledger) Recalls() int {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return len(l.recalled)
}

// recalled says whether m must be returned. A merge must if one of its parts must.
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
