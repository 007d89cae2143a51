package kafka

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/twmb/franz-go/pkg/kgo"
)

// round is the messages of one transaction. Messages are read until the round is full or transaction.interval is over, and then
// none until all of them have ended. Everything written in a transaction therefore comes from messages that it settles. The
// input's lock guards the fields.
type round struct {
	read, left int           // number of messages, and of those that have not ended
	failed     error         // why it must be aborted; nil: it can be committed
	full       chan struct{} // closed when no more messages are read
}

// finish lets the round end without more messages.
func (r *round) finish() {
	select {
	case <-r.full:
	default:
		close(r.full)
	}
}

// countEnded counts n messages that have ended. A message that is returned was not processed, so the round fails.
func (r *round) countEnded(f engine.Fate, n int) {
	r.left -= n
	if f == engine.Returned {
		r.fail(errReturned)
	}
}

// fail makes the round abort. The first cause is kept.
func (r *round) fail(why error) {
	if r.failed == nil {
		r.failed = why
	}
	r.finish()
}

var (
	errReturned = errors.New("a message was returned: it has failed and is not dead-lettered, or the pipeline stops")
	errMoved    = errors.New("a partition has moved to another member")
	errStopped  = errors.New("the pipeline stops before all messages have ended")
)

// transactional returns the options of a client that also writes, in transactions.
func (in *input) transactional() []kgo.Opt {
	t := &in.cfg.Transaction
	id := cmp.Or(t.ID, in.member)
	if id == "" {
		id = in.name + "-" + rand.Text()
	}
	return []kgo.Opt{kgo.TransactionalID(id), kgo.TransactionTimeout(t.Timeout)}
}

// readable waits until no transaction is ending, and returns how many messages may be read.
func (in *input) readable(ctx context.Context, room int) (int, error) {
	for {
		in.mu.Lock()
		ending, broken := in.ending, in.broken
		if in.round != nil {
			room = min(room, in.cfg.Transaction.Size-in.round.read)
		} else {
			room = min(room, in.cfg.Transaction.Size)
		}
		in.mu.Unlock()
		switch {
		case broken != nil:
			return 0, broken
		case ending == nil:
			return max(room, 0), nil
		}
		select {
		case <-ending:
		case <-ctx.Done():
			return 0, nil
		}
	}
}

// beginRound begins a transaction for fetched messages, unless one is open.
func (in *input) beginRound() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.round != nil {
		return nil
	}
	if err := in.tx.BeginTransaction(); err != nil {
		return err
	}
	in.round = &round{full: make(chan struct{})}
	in.signalChanged()
	return nil
}

// failRound makes the open transaction abort.
func (in *input) failRound(why error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.round != nil {
		in.round.fail(why)
		in.signalChanged()
	}
}

// endRounds ends each transaction when it is due, until ctx ends, which also ends the last one. Requests to brokers then end with
// requests.
func (in *input) endRounds(ctx, requests context.Context) {
	for {
		in.mu.Lock()
		r, changed := in.round, in.nextChange()
		in.mu.Unlock()
		if r == nil {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		began := time.Now()
		t := time.NewTimer(in.cfg.Transaction.Interval)
		select {
		case <-r.full:
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
		in.endRound(ctx, requests, r, began)
	}
}

// endRound ends a transaction. It is committed if all of its messages have ended in time and no partition has moved, and aborted
// otherwise.
func (in *input) endRound(ctx, requests context.Context, r *round, began time.Time) {
	in.mu.Lock()
	ending := make(chan struct{})
	in.ending = ending
	in.mu.Unlock()
	in.interruptPoll()
	why := in.awaitRound(ctx, r, began)
	if why != nil {
		in.takeAway(nil)
	}
	call, cancel := context.WithTimeout(requests, in.cfg.Transaction.Timeout)
	defer cancel()
	committed, err := in.tx.EndTransaction(call, why == nil)
	in.mu.Lock()
	defer in.mu.Unlock()
	if err != nil {
		in.broken = err
	}
	if !committed {
		in.log.Warn("a transaction was aborted: its messages are read again", "messages", r.read,
			"err", cmp.Or(err, why, errMoved))
		in.rewind()
	}
	in.round, in.ending = nil, nil
	close(ending)
}

// awaitRound waits until all messages of a transaction have ended, and returns why it must be aborted, or nil.
func (in *input) awaitRound(ctx context.Context, r *round, began time.Time) error {
	in.mu.Lock()
	holding := in.holding
	in.mu.Unlock()
	if holding != nil {
		defer holding.Hurry()()
	}
	// The timeout of the brokers has started a little earlier.
	late := time.NewTimer(time.Until(began.Add(in.cfg.Transaction.Timeout * 8 / 10)))
	defer late.Stop()
	for {
		in.mu.Lock()
		left, failed, changed := r.left, r.failed, in.nextChange()
		in.mu.Unlock()
		if failed != nil || left == 0 {
			return failed
		}
		select {
		case <-changed:
		case <-late.C:
			return fmt.Errorf("%d messages have not ended after four fifths of transaction.timeout, which is %v (raise it, or "+
				"allow fewer attempts: each transaction starts with the first attempt again)", left, in.cfg.Transaction.Timeout)
		case <-ctx.Done():
			return errStopped
		}
	}
}

// rewind tracks all partitions from their committed offsets again, since the client reads on from there. in.mu is held.
func (in *input) rewind() {
	for tp, p := range in.assigned {
		delete(in.slots, p.slot)
		in.assign(tp)
	}
	in.span = 0
}

// onMoved gives up partitions, and the open transaction with them: the client aborts it in any case.
func (in *input) onMoved(_ context.Context, _ *kgo.Client, all map[string][]int32) {
	leaving := in.markLeaving(all)
	if len(leaving) == 0 {
		return
	}
	in.failRound(errMoved)
	in.countMoved(len(leaving), in.takeAway(nil))
	in.forget(leaving)
	in.log.Info("partitions were given up", "partitions", len(leaving), "now", in.count())
}
