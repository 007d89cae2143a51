package ledger

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/guard"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

const (
	ackBackoff = 100 * time.Millisecond // before the second attempt
	ackDoubles = 7                      // times that it doubles
)

// AckLoop reports to one acker how its messages ended: one call at a time, everything that
// arrived meanwhile in the next. Results that fail are retried along with newer ones until the
// pipeline ends: only the acker knows whether that can help. When another connection has taken
// over, the loop ends with its last result.
type AckLoop struct {
	To    engine.Acker
	Input string
	of    *Account
	done  chan struct{}   // closed when the loop has ended
	over  context.Context // ends with the loop
	lent  chan struct{}   // closed when no lease is renewed any more; nil: none is
	// revokes says that the acker may take messages away; see engine.Revoker.
	revokes bool

	withholds bool // see Traits

	// Of the lock of the open ledgers.
	reading bool                    // a Read has begun whose messages have no ledger yet
	gone    []func(ref uint64) bool // what was taken away since, maybe of these

	Timeout time.Duration // of a call
	Since   atomic.Int64  // of the current call, unix nanoseconds; 0: none

	wake chan struct{} // has room for one

	// Of the loop.
	spare   []span          // an inbox that was sent, emptied
	results []engine.Result // of the call
	fails   int64           // failed calls in a row

	failing atomic.Pointer[ackFailure] // nil: the last call reported everything
	untold  atomic.Int64               // results that were given up

	mu       sync.Mutex // guards the fields below
	inbox    []span
	waiting  int  // roots in it
	withheld int  // roots that have ended and are not in it yet: see Account.Withhold
	failed   int  // roots that wait for another attempt
	owed     int  // results that are still to come
	closing  bool // nothing is added to owed any more
	hurry    bool // what waits for another attempt is not to wait
	closed   bool // the loop ends
}

// ackFailure is why results have to be reported again, and since when.
type ackFailure struct {
	err   error
	since time.Time
}

func startAcks(of *Account, to engine.Acker, input string) *AckLoop {
	a := &AckLoop{
		To: to, Input: input, of: of, withholds: engine.TraitsOf(to).Withholds, Timeout: of.Timeout,
		done: make(chan struct{}), wake: make(chan struct{}, 1), reading: true,
	}
	over, end := context.WithCancel(of.ctx)
	a.over = over
	go func() {
		defer end()
		a.run(of.ctx)
	}()
	return a
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

// Close lets the loop end when it has sent all that is owed. What waits for another attempt is tried at once, each time:
// the input has a new connection, or the pipeline ends and has no time to wait.
func (a *AckLoop) Close() {
	a.mu.Lock()
	a.closing, a.hurry = true, true
	a.mu.Unlock()
	a.poke()
}

// Waiting is how many results have not been reported to the source.
func (a *AckLoop) Waiting() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return int64(a.waiting + a.withheld + a.failed)
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

// take is what has arrived. hurry: what waits is to be tried now; closed: nothing has, nothing waits and nothing will.
func (a *AckLoop) take(waits bool) (spans []span, hurry, closed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	spans, a.inbox = a.inbox, a.spare
	a.owed -= a.waiting
	a.spare, a.waiting = nil, 0
	a.closed = a.closing && a.owed == 0 && len(spans) == 0 && !waits
	hurry, a.hurry = a.hurry, false
	return spans, hurry, a.closed
}

// Failing says why the last call did not report everything, and since when that is so; nil: it did.
func (a *AckLoop) Failing() (since time.Time, err error) {
	if f := a.failing.Load(); f != nil {
		return f.since, f.err
	}
	return time.Time{}, nil
}

// run reports what arrives. After ctx has ended each result is tried once more, and what has not arrived by then is given
// up.
func (a *AckLoop) run(ctx context.Context) {
	defer close(a.done)
	var again []span // what waits for another attempt
	var due time.Time
	for {
		spans, hurry, closed := a.take(len(again) > 0)
		if hurry {
			due = time.Time{}
		}
		if len(again) > 0 && (ctx.Err() != nil || !time.Now().Before(due)) {
			spans, again = append(spans, again...), nil
		}
		switch {
		case len(spans) > 0:
			failed := a.retryable(ctx, a.send(ctx, spans))
			if again = append(again, failed...); len(failed) > 0 {
				due = time.Now().Add(ackBackoff << min(failed[0].tries-1, ackDoubles))
			}
			a.mu.Lock()
			a.failed = len(again) // each root is a span of its own
			a.mu.Unlock()
			if clear(spans); cap(spans) <= atRest {
				a.spare = spans[:0]
			}
		case len(again) > 0:
			a.pause(ctx, time.Until(due))
		case closed:
			return
		case ctx.Err() != nil:
			a.giveUp(a.abandon())
			return
		default:
			select {
			case <-a.wake:
			case <-ctx.Done():
			}
		}
	}
}

// LeavesUntold says that the source did not get all results, and never will.
func (a *AckLoop) LeavesUntold() bool { return a.untold.Load() > 0 }

// abandon ends the loop although results are to come, and says how many.
func (a *AckLoop) abandon() (owed int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	return a.owed
}

// giveUp counts and logs results that the source does not get.
func (a *AckLoop) giveUp(n int) {
	if n > 0 {
		a.untold.Add(int64(n))
		a.of.Untold.Add(int64(n))
		a.of.Log.Error("messages were not acknowledged: their source delivers them again", "input", a.Input, "messages", n)
	}
}

// retryable counts an attempt of the results that failed, and returns them. After ctx has ended, it gives them up.
func (a *AckLoop) retryable(ctx context.Context, failed []span) (again []span) {
	if ctx.Err() != nil {
		a.giveUp(len(failed))
		return nil
	}
	for i := range failed {
		failed[i].tries++
	}
	return failed
}

// send reports spans, in read order, and returns what failed, each root by itself.
func (a *AckLoop) send(ctx context.Context, spans []span) (again []span) {
	if inOrder := func(x, y span) int { return cmp.Compare(x.rank(), y.rank()) }; !slices.IsSortedFunc(spans, inOrder) {
		slices.SortFunc(spans, inOrder)
	}
	for _, x := range spans {
		for i := x.from; i < x.to; i++ {
			a.results = append(a.results, x.result(i))
		}
	}
	failed, err := a.call(ctx, a.results)
	a.note(err, len(failed))
	if len(failed) > 0 {
		again = those(failed, spans)
	}
	a.told(spans, again)
	if clear(a.results); cap(a.results) <= atRest {
		a.results = a.results[:0]
	} else {
		a.results = nil
	}
	return again
}

// note keeps and logs whether a call has reported everything.
func (a *AckLoop) note(err error, again int) {
	if err == nil && again > 0 {
		err = errAgain
	}
	if err == nil {
		a.fails = 0
		a.failing.Store(nil)
		return
	}
	f := &ackFailure{err, time.Now()}
	if was := a.failing.Load(); was != nil {
		f.since = was.since
	}
	a.failing.Store(f)
	if a.fails++; err != errAgain && guard.PowerOfTen(a.fails) {
		a.of.Log.Warn("acknowledgement", "input", a.Input, "err", err, "times", a.fails)
	}
}

var errAgain = errors.New("the source has not accepted all results")

// told recycles a ledger when its source knows how all its roots have ended. One that leases is still asked about them.
func (a *AckLoop) told(spans, again []span) {
	for _, x := range spans {
		x.led.told += int(x.to - x.from)
	}
	for _, x := range again {
		x.led.told--
	}
	for _, x := range spans {
		if x.led.told == len(x.led.Roots) && !a.Leases() {
			x.led.Recycle()
		}
	}
}

// atRest is how many results, and spans, a loop has room for between calls: one call has a few slabs' as a rule.
const atRest = 16 * inside.SlabSize

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

// span are roots of a ledger that follow each other.
type span struct {
	led      *Ledger
	from, to uint32
	tries    int  // to report them
	early    bool // they are reported as delivered, whatever becomes of them
}

// rank is the place of the first in read order.
func (x span) rank() uint64 { return x.led.First + uint64(x.from) }

// result is how a root of x ended.
func (x span) result(i uint32) engine.Result {
	s := &x.led.Roots[i]
	if x.early {
		return engine.Result{Ref: s.Ref, Fate: engine.Delivered}
	}
	r := engine.Result{Ref: s.Ref, Fate: s.Worst, Err: s.Err}
	if r.Fate == engine.Returned && r.Err != nil {
		r.Delay = r.Err.Delay
	}
	return r
}

// those are the roots of spans that results are about, each by itself.
func those(results []engine.Result, spans []span) (all []span) {
	refs := make(map[uint64]bool, len(results))
	for _, r := range results {
		refs[r.Ref] = true
	}
	for _, x := range spans {
		for i := x.from; i < x.to; i++ {
			if refs[x.led.Roots[i].Ref] {
				all = append(all, span{x.led, i, i + 1, x.tries, x.early})
			}
		}
	}
	return all
}

// Reports are roots that have ended, for their ackers.
type Reports []report

// report is for one connection.
type report struct {
	to    *AckLoop
	n     int // roots
	spans []span
}

// Add adds a root, whose source is to be told.
func (all *Reports) Add(r Root) {
	at := (*all).of(r.Led.Acks)
	if at == nil {
		*all = append(*all, report{to: r.Led.Acks})
		at = &(*all)[len(*all)-1]
	}
	at.n++
	if last := len(at.spans) - 1; last >= 0 && at.spans[last].led == r.Led && at.spans[last].to == r.I {
		at.spans[last].to++
		return
	}
	at.spans = append(at.spans, span{led: r.Led, from: r.I, to: r.I + 1})
}

func (all Reports) of(a *AckLoop) *report {
	for i := range all {
		if all[i].to == a {
			return &all[i]
		}
	}
	return nil
}

// Send hands all over to the loops, and empties it. The memory of a sole source's is kept: its next ones are as many.
func (all *Reports) Send() {
	for i := range *all {
		r := &(*all)[i]
		if r.n > 0 {
			r.to.put(r.n, r.spans...)
		}
		clear(r.spans)
		r.n, r.spans = 0, r.spans[:0]
	}
	if len(*all) != 1 || cap((*all)[0].spans) > inside.SlabSize {
		clear(*all)
		*all = (*all)[:0]
	}
}

// Early reports all of l as delivered. Nothing more is reported of it.
func (l *Ledger) Early() {
	l.Pin()
	l.Acks.put(len(l.Roots), span{led: l, to: uint32(len(l.Roots)), early: true})
	l.Acks = nil
}

// put hands n roots over.
func (a *AckLoop) put(n int, spans ...span) {
	a.mu.Lock()
	a.inbox = append(a.inbox, spans...)
	a.waiting += n
	a.mu.Unlock()
	a.poke()
}
