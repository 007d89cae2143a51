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

// AckLoop reports to one acker how its messages ended. It makes one call at a time; the next call has all results that
// arrived meanwhile. Results that the acker returns are sent again, together with newer ones, until the pipeline ends,
// since only the acker knows whether that can help. If the input has a new acker, the loop ends with the last result that
// it owes.
type AckLoop struct {
	To    engine.Acker
	Input string
	of    *Account
	done  chan struct{}   // closed when the loop has ended
	over  context.Context // ends with the loop
	lent  chan struct{}   // closed when leases are no longer renewed; nil: the source has no leases
	// revokes says that the acker may take messages away; see engine.Revoker.
	revokes bool

	withholds bool // see engine.Traits

	// Guarded by the lock of the open ledgers.
	reading bool                    // a Read is under way whose messages have no ledger yet
	gone    []func(ref uint64) bool // which of its messages the source has taken away since it began

	Timeout time.Duration // of a call
	Since   atomic.Int64  // of the current call, unix nanoseconds; 0: none

	wake chan struct{} // has room for one

	// Of the goroutine of the loop.
	spare   []span          // the memory of an inbox that was sent
	results []engine.Result // of the current call
	fails   int64           // failed calls in a row

	failing atomic.Pointer[ackFailure] // nil: the last call reported everything
	untold  atomic.Int64               // results that the source will not get

	mu       sync.Mutex // guards the fields below
	inbox    []span
	waiting  int  // roots in it
	withheld int  // roots that have ended but are not in the inbox yet; see Account.Withhold
	failed   int  // roots that wait for another attempt
	owed     int  // results that have not arrived yet
	closing  bool // no more results will be owed
	hurry    bool // results that wait for another attempt must be sent now
	closed   bool // the loop has ended, or is about to
}

// ackFailure says why results must be sent again, and since when.
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

// Owe announces n more results. It returns false if the loop has ended.
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

// Forget says that one result that is owed will not arrive.
func (a *AckLoop) Forget() {
	a.mu.Lock()
	a.owed--
	a.mu.Unlock()
	a.poke()
}

// Close ends the loop when it has sent all results that are owed. Results that wait for another attempt are sent at once:
// the input has a new connection, or the pipeline ends and has no time to wait.
func (a *AckLoop) Close() {
	a.mu.Lock()
	a.closing, a.hurry = true, true
	a.mu.Unlock()
	a.poke()
}

// Waiting is how many results the source has not got.
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

// takeInbox takes the results that have arrived. waits says that results wait for another attempt. hurry: those must be
// sent now; closed: no results are there, and none will arrive.
func (a *AckLoop) takeInbox(waits bool) (spans []span, hurry, closed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	spans, a.inbox = a.inbox, a.spare
	a.owed -= a.waiting
	a.spare, a.waiting = nil, 0
	a.closed = a.closing && a.owed == 0 && len(spans) == 0 && !waits
	hurry, a.hurry = a.hurry, false
	return spans, hurry, a.closed
}

// Failing returns the error of the last call, and since when calls have been failing; nil: the last call succeeded.
func (a *AckLoop) Failing() (since time.Time, err error) {
	if f := a.failing.Load(); f != nil {
		return f.since, f.err
	}
	return time.Time{}, nil
}

// run sends results as they arrive. When ctx has ended, it sends each result once more, and gives up results that have not
// arrived by then.
func (a *AckLoop) run(ctx context.Context) {
	defer close(a.done)
	var again []span // results that wait for another attempt
	var due time.Time
	for {
		spans, hurry, closed := a.takeInbox(len(again) > 0)
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

// LeavesUntold says that the source will never get some results.
func (a *AckLoop) LeavesUntold() bool { return a.untold.Load() > 0 }

// abandon ends the loop, and returns how many results are still owed.
func (a *AckLoop) abandon() (owed int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	return a.owed
}

// giveUp counts and logs results that the source will not get.
func (a *AckLoop) giveUp(n int) {
	if n > 0 {
		a.untold.Add(int64(n))
		a.of.Untold.Add(int64(n))
		a.of.Log.Error("messages were not acknowledged: their source will deliver them again", "input", a.Input, "messages", n)
	}
}

// retryable counts an attempt for results that failed, and returns them. When ctx has ended, it gives them up.
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

// send sends spans in the order of reading, and returns roots whose results must be sent again, each as its own span.
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
	a.noteCall(err, len(failed))
	if len(failed) > 0 {
		again = spansOf(failed, spans)
	}
	a.recycleTold(spans, again)
	if clear(a.results); cap(a.results) <= atRest {
		a.results = a.results[:0]
	} else {
		a.results = nil
	}
	return again
}

// noteCall records whether a call has succeeded, and logs failures.
func (a *AckLoop) noteCall(err error, again int) {
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

// recycleTold recycles ledgers whose source has got the results of all roots, unless their leases may still be renewed.
func (a *AckLoop) recycleTold(spans, again []span) {
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

// atRest is for how many results, and spans, a loop keeps memory between calls, which usually have a few slabs of them.
const atRest = 16 * inside.SlabSize

// call calls the acker within a deadline. After a panic, all results are sent again.
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

// pause waits for d, or until results arrive or ctx ends.
func (a *AckLoop) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-a.wake:
	case <-ctx.Done():
	}
}

// span is a range of roots of a ledger.
type span struct {
	led      *Ledger
	from, to uint32
	tries    int  // failed attempts to send their results
	early    bool // the result is Delivered, whatever becomes of them
}

// rank is the place of the first root in the order of reading.
func (x span) rank() uint64 { return x.led.First + uint64(x.from) }

// result is the result of a root of x.
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

// spansOf returns the roots of spans that results are about, each as its own span.
func spansOf(results []engine.Result, spans []span) (all []span) {
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

// Reports are roots that have ended and whose ackers must be told.
type Reports []report

// report is for one acker.
type report struct {
	to    *AckLoop
	n     int // roots
	spans []span
}

// Add adds a root.
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

// Send passes all roots to the loops, and empties the reports. It keeps the memory if there is only one loop.
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

// Early reports all roots of l as delivered. Their real results are never reported.
func (l *Ledger) Early() {
	l.Pin()
	l.Acks.put(len(l.Roots), span{led: l, to: uint32(len(l.Roots)), early: true})
	l.Acks = nil
}

// put passes n roots to the loop.
func (a *AckLoop) put(n int, spans ...span) {
	a.mu.Lock()
	a.inbox = append(a.inbox, spans...)
	a.waiting += n
	a.mu.Unlock()
	a.poke()
}
