package sqs

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/aws"
)

// lease is the time for which the queue hides a message from others.
type lease struct {
	id       string // the message's
	group    string // in a FIFO queue; else ""
	handle   string
	received time.Time
	until    time.Time
	receives int
	settling bool      // its fate is known: it is renewed only while deleting it fails
	deleting time.Time // when deleting was last tried; zero: never
}

// change is a new end of a lease, in seconds from now.
type change struct {
	ref     uint64
	l       *lease
	seconds int32
}

const (
	parallelCalls = 8 // of one Ack or renewal
	firstBackoff  = time.Second
	mostBackoff   = 15 * time.Minute // of a message that was returned without a delay
	givenUp       = 2 * time.Minute  // after its last attempt, a delete is given up: its connection was replaced
)

// Renew extends leases when half of their time has passed. Leases that have expired, or that the queue no longer knows, are lost.
func (in *input) Renew(ctx context.Context, refs []uint64) (lost []uint64, next time.Duration, err error) {
	c := in.Conn()
	next = c.visibility / 4
	if !in.cfg.Lease.Renew {
		in.sweep(time.Now())
		return nil, next, nil
	}
	in.changing <- struct{}{} // a renewal must not overtake an Ack's change of the same lease
	now := time.Now()
	due := in.due(append(in.undeleted(now), refs...), c.visibility, now)
	errs := in.hide(ctx, c, due)
	<-in.changing
	in.mu.Lock()
	for i, d := range due {
		switch e := errs[i]; {
		case e == nil:
			d.l.until = now.Add(time.Duration(d.seconds) * time.Second)
			continue
		case d.l.settling: // its result was reported meanwhile, and may have ended the lease
			continue
		case !gone(e):
			err = errors.Join(err, e)
		}
		if gone(errs[i]) || !time.Now().Before(d.l.until) {
			lost = append(lost, d.ref)
			delete(in.held, d.ref)
		}
	}
	for _, ref := range refs { // leases that can't be extended any more
		switch l := in.held[ref]; {
		case l == nil || l.settling:
		case now.Before(l.until):
			next = min(next, l.until.Sub(now))
		default:
			lost = append(lost, ref)
			delete(in.held, ref)
		}
	}
	in.mu.Unlock()
	in.sweep(now)
	if err != nil {
		next = c.visibility / 16
	}
	return lost, next, first(err)
}

// undeleted returns the messages whose delete has failed and will be retried. Until then nobody else should get them.
func (in *input) undeleted(now time.Time) (refs []uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for ref, l := range in.held {
		if !l.deleting.IsZero() && now.Sub(l.deleting) < givenUp {
			refs = append(refs, ref)
		}
	}
	return refs
}

// first returns the first of joined errors, because the others say the same.
func first(err error) error {
	if all, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // made here
		return first(all.Unwrap()[0])
	}
	return err
}

// due returns the leases to extend, each within lease.max.
func (in *input) due(refs []uint64, visibility time.Duration, now time.Time) (all []change) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, ref := range refs {
		l := in.held[ref]
		if l == nil || l.settling && l.deleting.IsZero() || l.until.Sub(now) > visibility/2 {
			continue
		}
		until := now.Add(visibility)
		if most := l.received.Add(in.cfg.Lease.Max); until.After(most) {
			until = most
		}
		seconds := until.Sub(now) / time.Second
		if now.Add(seconds * time.Second).After(l.until) { // it can still be extended
			all = append(all, change{ref, l, int32(seconds)})
		}
	}
	return all
}

// sweep forgets messages whose result could not be reported while they were hidden, because the queue delivers them again. It also
// forgets groups that are no longer hidden.
func (in *input) sweep(now time.Time) {
	late := 0
	in.mu.Lock()
	for ref, l := range in.held {
		if l.settling && now.After(l.until) {
			delete(in.held, ref)
			if !l.deleting.IsZero() {
				late++
			}
		}
	}
	maps.DeleteFunc(in.hidden, func(_ string, until time.Time) bool { return now.After(until) })
	in.mu.Unlock()
	in.warnLate(late)
}

// Ack deletes settled messages and returns the others to the queue, ten per call. It retries those that failed for a reason that
// may pass.
func (in *input) Ack(ctx context.Context, rs []engine.Result) (again []engine.Result, err error) {
	c := in.Conn()
	byRef := make(map[uint64]engine.Result, len(rs))
	var done, back []change
	select { // a renewal ends at its deadline, and so does this wait
	case in.changing <- struct{}{}:
	case <-ctx.Done():
		return rs, ctx.Err()
	}
	now := time.Now()
	in.mu.Lock()
	for _, r := range rs {
		l := in.held[r.Ref]
		switch {
		case l == nil: // lost
			continue
		case r.Fate == engine.Returned:
			back = append(back, change{r.Ref, l, in.delay(r, l, now)})
			in.tries.Returned(l.id, r, l.receives)
		case in.cfg.Delete:
			done = append(done, change{ref: r.Ref, l: l})
			l.deleting = now
		default:
			delete(in.held, r.Ref)
			continue
		}
		l.settling = true
		in.gave = in.gave || r.Fate == engine.Returned && in.Stopping()
		byRef[r.Ref] = r
	}
	in.mu.Unlock()
	<-in.changing

	late := 0
	for _, part := range []struct {
		changes []change
		errs    []error
	}{{back, in.hide(ctx, c, back)}, {done, in.remove(ctx, c, done)}} {
		for i, ch := range part.changes {
			switch e := part.errs[i]; {
			case e != nil && !gone(e):
				again = append(again, byRef[ch.ref])
				err = e
				continue
			case e != nil:
				late++
			}
			in.forget(ch.ref)
		}
	}
	in.warnLate(late)
	return again, err
}

func (in *input) warnLate(messages int) {
	if messages > 0 {
		in.log.Warn("acknowledged too late: the queue delivers these messages again (raise `visibility`, or let leases be "+
			"renewed)", "queue", in.queue.Name, "messages", messages)
	}
}

func (in *input) forget(ref uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.held, ref)
}

// delay returns for how many seconds a returned message stays hidden. A failed message without an interval backs off, or it would be
// read again in a tight loop. Later messages of its group are hidden for at least as long. in.mu is held.
func (in *input) delay(r engine.Result, l *lease, now time.Time) int32 {
	d := r.Delay
	switch failed := r.Err != nil && !r.Err.Unfinished() && !in.Stopping(); {
	case failed && errors.Is(r.Err, engine.ErrBehind):
		d = in.hidden[l.group].Sub(now)
	case d == 0 && failed:
		d = min(firstBackoff<<min(l.receives-1, 20), mostBackoff)
	}
	if until := now.Add(d); l.group != "" && until.After(in.hidden[l.group]) {
		in.hidden[l.group] = until
	}
	return max(0, min(aws.Seconds(d), int32((longest-now.Sub(l.received))/time.Second)-1))
}

// releaseAll makes all held messages visible.
func (in *input) releaseAll(ctx context.Context, c *conn) error {
	var all []change
	in.mu.Lock()
	for ref, l := range in.held {
		if !l.settling {
			all = append(all, change{ref: ref, l: l})
		}
	}
	in.held = map[uint64]*lease{}
	in.gave = in.gave || len(all) > 0
	in.mu.Unlock()
	return in.hideAll(ctx, c, all)
}

// hideAll is like hide, and returns the first error of a message that still exists.
func (in *input) hideAll(ctx context.Context, c *conn, all []change) error {
	for _, err := range in.hide(ctx, c, all) {
		if err != nil && !gone(err) {
			return err
		}
	}
	return nil
}

// gone reports whether the queue no longer knows a handle.
func gone(err error) bool {
	var e *engine.Error
	return errors.As(err, &e) && e.Class == engine.Rejected
}

// hide changes when messages become visible.
func (in *input) hide(ctx context.Context, c *conn, all []change) []error {
	return calls.Hide(ctx, c.client, c.url, in.queue.String(), len(all), func(i int) (*string, int32) {
		return &all[i].l.handle, all[i].seconds
	})
}

// remove deletes messages.
func (in *input) remove(ctx context.Context, c *conn, all []change) []error {
	return calls.Delete(ctx, c.client, c.url, in.queue.String(), len(all), func(i int) *string {
		return &all[i].l.handle
	})
}

var calls = aws.Requests{Parallel: parallelCalls, Timeout: callTimeout}
