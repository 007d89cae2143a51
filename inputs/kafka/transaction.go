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

// round is the content of one transaction: messages are read until it is full or old, then none until all of them have ended. So
// everything written in a transaction comes from the messages that it settles.
type round struct {
	read, left int           // messages, and those that have not ended
	failed     error         // why it can't be committed; nil: it can
	full       chan struct{} // closed when it is to end
}

// finish has the round end; the input's lock is held, as in ended.
func (r *round) finish() {
	select {
	case <-r.full:
	default:
		close(r.full)
	}
}

// ended counts n messages that have. Those that are returned were not worked on.
func (r *round) ended(f engine.Fate, n int) {
	r.left -= n
	if f == engine.Returned {
		r.fail(errReturned)
	}
}

// fail has the round aborted; the first cause counts.
func (r *round) fail(why error) {
	if r.failed == nil {
		r.failed = why
	}
	r.finish()
}

var (
	errReturned = errors.New("a message was given back: it has failed and no dead letter takes it, or the pipeline stops")
	errMoved    = errors.New("a partition has moved to another member")
	errStopped  = errors.New("the pipeline stops before all messages have ended")
)

// transactional are the options of a client that writes, too.
func (in *input) transactional() []kgo.Opt {
	t := &in.cfg.Transaction
	id := cmp.Or(t.ID, in.member)
	if id == "" {
		id = in.name + "-" + rand.Text()
	}
	return []kgo.Opt{kgo.TransactionalID(id), kgo.TransactionTimeout(t.Timeout)}
}

// turn waits until messages may be read, and says how many.
func (in *input) turn(ctx context.Context, room int) (int, error) {
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

// begin begins a transaction for what was fetched, if none is open.
func (in *input) begin() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.round != nil {
		return nil
	}
	if err := in.tx.Begin(); err != nil {
		return err
	}
	in.round = &round{full: make(chan struct{})}
	in.wake()
	return nil
}

// doom makes the open transaction abort.
func (in *input) doom(why error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.round != nil {
		in.round.fail(why)
		in.wake()
	}
}

// rounds ends one transaction after the other, until ctx ends, and with it the last; what it asks brokers then ends with
// asks.
func (in *input) rounds(ctx, asks context.Context) {
	for {
		in.mu.Lock()
		r, news := in.round, in.newsOf()
		in.mu.Unlock()
		if r == nil {
			select {
			case <-news:
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
		in.end(ctx, asks, r, began)
	}
}

// end ends a transaction: committed if all of its messages have ended in time, and no partition has moved.
func (in *input) end(ctx, asks context.Context, r *round, began time.Time) {
	in.mu.Lock()
	ending := make(chan struct{})
	in.ending = ending
	in.mu.Unlock()
	in.interrupt()
	why := in.settled(ctx, r, began)
	if why != nil {
		in.takeAway(nil)
	}
	call, cancel := context.WithTimeout(asks, in.cfg.Transaction.Timeout)
	defer cancel()
	committed, err := in.tx.End(call, why == nil)
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

// settled waits until all messages of a transaction have ended, and returns why it can't be committed, or nil.
func (in *input) settled(ctx context.Context, r *round, began time.Time) error {
	in.mu.Lock()
	holding := in.holding
	in.mu.Unlock()
	if holding != nil {
		defer holding.Hurry()()
	}
	// The brokers' clock runs since a little earlier.
	late := time.NewTimer(time.Until(began.Add(in.cfg.Transaction.Timeout * 8 / 10)))
	defer late.Stop()
	for {
		in.mu.Lock()
		left, failed, news := r.left, r.failed, in.newsOf()
		in.mu.Unlock()
		if failed != nil || left == 0 {
			return failed
		}
		select {
		case <-news:
		case <-late.C:
			return fmt.Errorf("%d messages have not ended after four fifths of transaction.timeout, which is %v (raise it, or "+
				"let fewer attempts be made: each transaction begins with the first)", left, in.cfg.Transaction.Timeout)
		case <-ctx.Done():
			return errStopped
		}
	}
}

// rewind follows all partitions again from their committed offsets: messages read since are read again. in.mu is held.
func (in *input) rewind() {
	for tp, p := range in.assigned {
		delete(in.slots, p.slot)
		in.assign(tp)
	}
	in.span = 0
}

// onMoved gives partitions up, and with them the transaction that is open: the client aborts it in any case.
func (in *input) onMoved(_ context.Context, _ *kgo.Client, all map[string][]int32) {
	leaving := in.leave(all)
	if len(leaving) == 0 {
		return
	}
	in.doom(errMoved)
	in.moved(len(leaving), in.takeAway(nil))
	in.forget(leaving)
	in.log.Info("partitions were given up", "partitions", len(leaving), "now", in.count())
}
