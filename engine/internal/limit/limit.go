package limit

import (
	"cmp"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
)

// Limiter is a rate limit: a window or a token bucket, one for all messages or one for each
// value of a key. It neither waits nor asks for the time. It is safe for concurrent use,
// and never lets more pass than it may, even when callers disagree a little about the time
// or a clock is set back.
//
// A window slides: in no stretch of its length do more messages pass than it allows.
type Limiter struct {
	name   string
	number uint64           // in which order several limits are locked
	spec   engine.RateLimit // kind, key and max_keys are in force; the rest is in rate

	mu      sync.Mutex // guards the fields below
	rate    rate
	next    *rate // in force from turn on; nil: none
	turn    int64
	clock   limitClock
	all     allowance  // of messages without a key
	keys    *keyLimits // nil: not keyed
	limited int64
	booked  uint64        // calls so far that took or booked some of the unkeyed limit
	changed chan struct{} // closed by the next Change
}

var limiters atomic.Uint64

// rate is how much may pass.
type rate struct {
	messages float64
	per      int64   // nanoseconds
	most     float64 // that may pass at once: messages of a window, burst of a bucket
}

// allowance is what one limit has given away. The zero allowance is untouched.
type allowance struct {
	at     int64   // of a bucket: when used was right
	used   float64 // of a bucket: messages; those beyond rate.most are booked ahead
	passes passes  // of a window
}

// crumb is what rounding may do to a count of messages.
const crumb = 1e-6

// longestWait keeps sums of times from overflowing.
const longestWait = 100 * 365 * 24 * time.Hour

// NewLimiter makes a limit. Its name is for operators; spec.Name is not looked up.
func NewLimiter(name string, spec engine.RateLimit) *Limiter {
	l := &Limiter{name: name, number: limiters.Add(1), spec: spec, changed: make(chan struct{})}
	l.rate = l.rateOf(spec.Messages, spec.Per, spec.Burst)
	if !spec.Key.IsZero() {
		l.keys = newKeyLimits(cmp.Or(spec.MaxKeys, 100_000))
	}
	return l
}

// rateOf makes a rate that can be divided by, whatever it is given.
func (l *Limiter) rateOf(messages int, per time.Duration, burst int) rate {
	r := rate{messages: float64(max(1, messages)), per: int64(min(max(1, per), longestWait))}
	r.most = r.messages
	if l.bucket() && burst > 0 {
		r.most = float64(burst)
	}
	return r
}

func (l *Limiter) bucket() bool { return l.spec.Kind == "bucket" }

// Name is what operators call the limit.
func (l *Limiter) Name() string { return l.name }

// Keyed says whether each value of a key has its own limit.
func (l *Limiter) Keyed() bool { return l.keys != nil }

// KeyOf is the key of a message, for [Limiter.Reserve]. ok is false when the key is
// nil or the limit is not keyed: such messages share one limit. Errors are those
// of expressions.
func (l *Limiter) KeyOf(src expr.Source) (key []byte, ok bool, err error) {
	return l.AppendKey(nil, src)
}

// AppendKey is KeyOf in memory of the caller's.
func (l *Limiter) AppendKey(dst []byte, src expr.Source) (key []byte, ok bool, err error) {
	if l.keys == nil {
		return dst, false, nil
	}
	return l.spec.Key.AppendKey(dst, src)
}

// Free is how many messages may pass now, of the unkeyed limit. When there are none,
// one that was booked now would pass after wait.
func (l *Limiter) Free(now time.Time) (n int, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ask(now)
	l.renew(&l.all)
	if n = l.free(&l.all); n > 0 {
		return n, 0
	}
	if !l.bucket() {
		return 0, time.Duration(l.all.passes.next(l.clock.last, &l.rate) - l.clock.last)
	}
	return 0, l.grows(l.all.used + 1 - l.rate.most)
}

// Take takes up to n messages that may pass now, of the unkeyed limit. It never books
// ahead, so the caller gets only what others have not reserved.
func (l *Limiter) Take(now time.Time, n int) (got int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ask(now)
	l.renew(&l.all)
	got = max(0, min(n, l.free(&l.all)))
	l.take(got)
	return got
}

// Reserve books one message of a key, in the order of the calls, and says how long it
// must wait before it may pass. A nil key is that of the unkeyed limit.
func (l *Limiter) Reserve(now time.Time, key []byte) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ask(now)
	a := &l.all
	if l.keys != nil && key != nil {
		a = l.keys.get(key, l.idle)
	}
	l.renew(a)
	return l.book(a)
}

// Change sets a new rate, for all keys. It holds at once, as if nothing had passed
// yet, or, for windows, after one more of the old ones; for a bucket what has passed
// counts then. Messages that are booked ahead keep their times and count against the
// new rate. burst 0 is as many as messages.
func (l *Limiter) Change(now time.Time, messages int, per time.Duration, burst int, atOnce bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fresh := !l.clock.started
	l.ask(now)
	close(l.changed)
	l.changed = make(chan struct{})
	r := l.rateOf(messages, per, burst)
	switch {
	case l.bucket():
		l.Each(l.renew)
		if atOnce {
			l.Each(func(a *allowance) { a.used = max(0, a.used-l.rate.most) })
		}
		l.rate = r
	case atOnce || fresh:
		l.adopt(r, l.clock.last, true)
	default:
		l.next, l.turn = &r, l.clock.last+l.rate.per
	}
}

// Changed is closed by the next Change: those that wait may then ask again.
func (l *Limiter) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// State is the limit as seen from outside.
func (l *Limiter) State() engine.LimitState {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := engine.LimitState{Name: l.name, Messages: int(l.rate.messages), Per: time.Duration(l.rate.per),
		Limited: l.limited}
	if l.keys != nil {
		s.Keys = l.keys.len()
	}
	return s
}

// ask tells the clock what the caller's says, and adopts a rate whose time has come.
func (l *Limiter) ask(now time.Time) {
	if l.clock.ask(now); l.next != nil && l.clock.last >= l.turn {
		l.adopt(*l.next, l.turn, false)
	}
}

// adopt makes r the rate of a window from a time on.
func (l *Limiter) adopt(r rate, from int64, anew bool) {
	l.Each(func(a *allowance) { a.passes.adopt(&l.rate, &r, from, anew) })
	l.rate, l.next = r, nil
}

func (l *Limiter) Each(f func(*allowance)) {
	f(&l.all)
	if l.keys != nil {
		l.keys.Each(f)
	}
}

// renew gives back to a what time has renewed.
func (l *Limiter) renew(a *allowance) {
	if !l.bucket() {
		a.passes.renew(l.clock.last, l.rate.per)
		return
	}
	a.used = max(0, a.used-float64(l.clock.last-a.at)*l.rate.messages/float64(l.rate.per))
	a.at = l.clock.last
}

// idle renews a and says whether it is whole again.
func (l *Limiter) idle(a *allowance) bool {
	l.renew(a)
	return a.used == 0 && a.passes.empty()
}

// free is how many may pass now of an allowance that is renewed.
func (l *Limiter) free(a *allowance) int {
	if l.bucket() {
		return int(max(0, min(math.Floor(l.rate.most-a.used+crumb), math.MaxInt32)))
	}
	return a.passes.free(l.clock.last, &l.rate)
}

// take lets n pass of the unkeyed limit, which has as many free.
func (l *Limiter) take(n int) {
	if n == 0 {
		return
	}
	l.booked++
	if l.bucket() {
		l.all.used += float64(n)
		return
	}
	l.all.passes.put(l.clock.last, n, &l.rate)
}

// book books one message of an allowance that is renewed, after all others, and returns how
// long it waits.
func (l *Limiter) book(a *allowance) (wait time.Duration) {
	if l.bucket() {
		a.used++
		wait = l.grows(a.used - l.rate.most)
	} else {
		wait = time.Duration(a.passes.book(l.clock.last, &l.rate) - l.clock.last)
	}
	if wait > 0 {
		l.limited++
	}
	if a == &l.all {
		l.booked++
	}
	return wait
}

// leave returns what was booked last. It has no effect when others have booked after it:
// they already have their times.
func (l *Limiter) leave(place uint64) {
	if place != l.booked {
		return
	}
	if l.bucket() {
		l.all.used = max(0, l.all.used-1)
		return
	}
	l.all.passes.leave()
}

// grows is the time in which a bucket grows by this many messages.
func (l *Limiter) grows(over float64) time.Duration {
	if over <= crumb {
		return 0
	}
	return time.Duration(min(math.Ceil(over*float64(l.rate.per)/l.rate.messages-crumb), float64(longestWait)))
}

// limitClock counts nanoseconds from the first time it is given, and never goes back.
type limitClock struct {
	started bool
	base    time.Time
	shift   int64 // what clocks that were set back have lost
	last    int64
}

// setBack is how far a time lies behind others when a clock was set back. Callers
// that asked the clock and then had to wait lie less behind.
const setBack = int64(10 * time.Second)

// ask takes in what a caller's clock says now.
func (c *limitClock) ask(now time.Time) {
	if !c.started {
		c.started, c.base = true, now
	}
	at := c.of(now)
	if behind := c.last - at; behind > setBack {
		c.shift += behind
	}
	c.last = max(c.last, at)
}

func (c *limitClock) of(t time.Time) int64 { return int64(t.Sub(c.base)) + c.shift }
