package engine

import (
	"context"
	"time"
)

// The states of a root's lease.
const (
	leaseOpen  int32 = iota
	leaseEnded       // the source is told how the root ended
	leaseLost        // the source has taken the root away, and is told nothing
)

const (
	leaseLeast = 50 * time.Millisecond // between two calls of a Leaser
	leaseAgain = time.Second           // after one that failed and does not say when to come again
)

// lend begins to renew the leases of what an acker is owed results for, where its
// source lends messages for a time. It goes on through a drain, until the acker
// has been told everything.
func (r *account) lend(a *ackLoop) {
	l, ok := a.to.(Leaser)
	if !ok {
		return
	}
	a.lent = make(chan struct{})
	go func() {
		defer close(a.lent)
		r.renewAll(a, l)
	}()
}

func (r *account) renewAll(a *ackLoop, l Leaser) {
	failed := 0
	for a.over.Err() == nil {
		lost, next, err := a.renew(l, r.open.refs(a))
		r.lose(a, lost)
		switch {
		case err == nil:
			failed = 0
		case a.over.Err() == nil:
			failed++
			if next <= 0 {
				next = leaseAgain
			}
			if powerOfTen(int64(failed)) {
				r.log.Warn("leases are not renewed", "input", a.input, "err", firstLine(err), "times", failed)
			}
		}
		pause(a.over, max(next, leaseLeast))
	}
}

// renew asks the source, within a deadline.
func (a *ackLoop) renew(l Leaser, refs []uint64) (lost []uint64, next time.Duration, err error) {
	ctx, cancel := context.WithTimeout(a.over, a.timeout)
	defer cancel()
	defer recovered(&err)
	return l.Renew(ctx, refs)
}

// refs are the handles of the roots that have not ended and of which an acker is to
// be told.
func (s *ledgers) refs(a *ackLoop) (all []uint64) {
	for _, l := range s.list() {
		for i := range l.roots {
			if x := &l.roots[i]; l.acks == a && x.pieces.Load() > 0 && x.lease.Load() == leaseOpen {
				all = append(all, x.ref)
			}
		}
	}
	return all
}

// lose takes roots away: from now on no piece of them goes into a step or a write,
// and their source is not told of them.
func (r *account) lose(a *ackLoop, refs []uint64) {
	if len(refs) == 0 {
		return
	}
	lost := make(map[uint64]bool, len(refs))
	for _, ref := range refs {
		lost[ref] = true
	}
	n := int64(0)
	for _, l := range r.open.list() {
		for i := range l.roots {
			// What has ended meanwhile is told as it ended: who settles it swaps first.
			if x := &l.roots[i]; l.acks == a && lost[x.ref] && x.pieces.Load() > 0 && x.lease.CompareAndSwap(leaseOpen, leaseLost) {
				n++
			}
		}
	}
	if n > 0 {
		r.lost.Add(n)
		r.log.Warn("leases were lost: the source delivers these messages again", "input", a.input, "messages", n)
	}
}

// takeAway ends what is still to be worked on in b and whose lease is lost, or which
// was recalled. Pieces that wait elsewhere end when they come here.
func (r *account) takeAway(b *Batch) {
	if b == nil || r.lost.Load() == 0 && r.recalls.Load() == 0 {
		return
	}
	for i := range b.in.Msgs {
		switch m := &b.in.Msgs[i]; {
		case m.in.State != live:
		case m.lost():
			m.EndAs(Returned)
			m.in.Err = Errorf(Transient, "the lease of this message was lost (give the source a longer visibility, or speed up what is slow)")
		case r.recalls.Load() > 0 && !m.in.Dead && m.recalled():
			m.EndAs(Returned)
			m.in.Err = &Error{Class: Transient, Err: ErrBehind}
		}
	}
}

// lost says that everything that m stands for was taken away: a merge of which only
// a part was goes on.
func (m *Message) lost() bool {
	for i := range m.in.Of {
		if !m.in.Of[i].lost() {
			return false
		}
	}
	if len(m.in.Of) > 0 {
		return true
	}
	r := rootOf(m)
	return r.led != nil && r.led.roots[r.i].lease.Load() == leaseLost
}
