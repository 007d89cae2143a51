package ledger

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/guard"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

const (
	ackTries   = 40                     // of one result, over seven minutes
	ackBackoff = 100 * time.Millisecond // before the second attempt
	ackDoubles = 7                      // times that it doubles
)

// AckLoop reports to one acker how its messages ended: one call at a time, everything that
// arrived meanwhile in the next. Results that fail are retried along with newer ones. When
// another connection has taken over, it ends with its last result.
type AckLoop struct {
	To    engine.Acker
	Input string
	log   *slog.Logger
	done  chan struct{}   // closed when the loop has ended
	over  context.Context // ends with the loop
	lent  chan struct{}   // closed when no lease is renewed any more; nil: none is

	withholds bool // see Traits

	Timeout time.Duration // of a call
	Since   atomic.Int64  // of the current call, unix nanoseconds; 0: none

	wake chan struct{} // has room for one

	spare  []Ranked // what was sent last, emptied; of the loop
	failed int64    // calls in a row; of the loop

	mu      sync.Mutex // guards the fields below
	inbox   []Ranked
	owed    int  // results that are still to come
	closing bool // nothing is added to owed any more
	closed  bool // the loop ends
}

func startAcks(ctx context.Context, to engine.Acker, input string, timeout time.Duration, log *slog.Logger) *AckLoop {
	a := &AckLoop{
		To: to, Input: input, withholds: engine.TraitsOf(to).Withholds, Timeout: timeout, log: log,
		done: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	over, end := context.WithCancel(ctx)
	a.over = over
	go func() {
		defer end()
		a.run(ctx)
	}()
	return a
}

// Put hands results over.
func (a *AckLoop) Put(rs []Ranked) {
	a.mu.Lock()
	if len(a.inbox)+len(rs) > cap(a.inbox) {
		a.widen()
	}
	a.inbox = append(a.inbox, rs...)
	a.mu.Unlock()
	a.poke()
}

// wide are large inboxes that are empty.
var wide sync.Pool

// widen gives a an inbox from those, where there are any and it has none, or a full one;
// a.mu is held.
func (a *AckLoop) widen() {
	if n := cap(a.inbox); n > 0 && n < 8*inside.SlabSize {
		return
	}
	if w, _ := wide.Get().(*[]Ranked); w != nil && cap(*w) > cap(a.inbox) {
		had := a.inbox
		a.inbox = append((*w)[:0], had...)
		clear(had)
	}
}

// Owe says that n more results will follow; false: the loop has ended.
func (a *AckLoop) Owe(n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.owed += n
	a.closing = false
	return true
}

// Forget says that one owed result will not follow.
func (a *AckLoop) Forget() {
	a.mu.Lock()
	a.owed--
	a.mu.Unlock()
	a.poke()
}

// Close lets the loop end when it has sent all that is owed.
func (a *AckLoop) Close() {
	a.mu.Lock()
	a.closing = true
	a.mu.Unlock()
	a.poke()
}

// Waiting is how many results have not been reported to the source.
func (a *AckLoop) Waiting() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return int64(len(a.inbox))
}

func (a *AckLoop) ended() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

func (a *AckLoop) poke() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// take is what has arrived; closed: nothing has, nothing waits and nothing will.
func (a *AckLoop) take(waits bool) (rs []Ranked, closed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	rs, a.inbox = a.inbox, a.spare
	a.spare = nil
	a.owed -= len(rs)
	a.closed = a.closing && a.owed == 0 && len(rs) == 0 && !waits
	return rs, a.closed
}

func (a *AckLoop) run(ctx context.Context) {
	defer close(a.done)
	var again []Ranked // what waits for another attempt
	var due time.Time
	for {
		rs, closed := a.take(len(again) > 0)
		if len(again) > 0 && (ctx.Err() != nil || !time.Now().Before(due)) {
			rs, again = append(again, rs...), nil
		}
		switch {
		case len(rs) > 0:
			failed := a.lasting(ctx, a.send(ctx, rs))
			if again = append(again, failed...); len(failed) > 0 {
				due = time.Now().Add(ackBackoff << min(failed[0].tries-1, ackDoubles))
			}
			clear(rs)
			if cap(rs) <= 16*inside.SlabSize {
				a.spare = rs[:0]
			} else { // more than a quiet source should keep
				wide.Put(&rs)
			}
		case len(again) > 0:
			a.pause(ctx, time.Until(due))
		case closed:
			return
		default:
			<-a.wake
		}
	}
}

// lasting counts an attempt of what failed, and gives up what has used up its attempts.
func (a *AckLoop) lasting(ctx context.Context, failed []Ranked) (again []Ranked) {
	for _, r := range failed {
		if r.tries++; r.tries < ackTries && ctx.Err() == nil {
			again = append(again, r)
		}
	}
	if lost := len(failed) - len(again); lost > 0 {
		a.log.Error("acknowledgement given up: the source will deliver these messages again", "input", a.Input,
			"messages", lost)
	}
	return again
}

func (a *AckLoop) send(ctx context.Context, rs []Ranked) (again []Ranked) {
	if inOrder := func(x, y Ranked) int { return cmp.Compare(x.Rank, y.Rank) }; !slices.IsSortedFunc(rs, inOrder) {
		slices.SortFunc(rs, inOrder)
	}
	out := make([]engine.Result, len(rs))
	for i := range rs {
		out[i] = rs[i].Result
	}
	failed, err := a.call(ctx, out)
	if err == nil {
		a.failed = 0
	} else if a.failed++; guard.PowerOfTen(a.failed) {
		a.log.Warn("acknowledgement", "input", a.Input, "err", err, "times", a.failed)
	}
	if len(failed) == 0 {
		return nil
	}
	at := make(map[uint64]int, len(rs))
	for i := range rs {
		at[rs[i].Ref] = i
	}
	for _, f := range failed {
		if i, ok := at[f.Ref]; ok {
			again = append(again, rs[i])
		}
	}
	return again
}

// call calls the acker, within a deadline. Everything that a panic has interrupted is sent
// again.
func (a *AckLoop) call(ctx context.Context, rs []engine.Result) (again []engine.Result, err error) {
	now := time.Now()
	within := &guard.Deadline{Parent: ctx, At: now.Add(a.Timeout)}
	defer within.End()
	again = rs
	a.Since.Store(now.UnixNano())
	defer a.Since.Store(0)
	defer engine.Recovered(&err)
	return a.To.Ack(within, rs)
}

// pause waits until d is over, something arrives, or ctx ends.
func (a *AckLoop) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-a.wake:
	case <-ctx.Done():
	}
}

// Ranked is a result with its place in read order.
type Ranked struct {
	engine.Result
	Rank  uint64
	tries int
}
