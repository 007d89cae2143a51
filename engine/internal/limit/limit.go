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

// Limiter is a rate limit: a window or a token bucket, for all messages or for each value of a key. It neither waits nor
// reads the clock. It is safe for concurrent use, and never lets too many messages pass, even if callers disagree about the
// time or a clock is set back.
//
// A window slides: no interval of its length has more messages than it allows, wherever it begins.
type Limiter struct {
	name   string
	number uint64           // several limits are locked in the order of their numbers
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

// rate is how many messages may pass in a time.
type rate struct {
	messages float64
	per      int64   // nanoseconds
	most     float64 // messages that may pass at once: all of a window, the burst of a bucket
}

// allowance is how much of one limit was used. The zero allowance is unused.
type allowance struct {
	at     int64   // of a bucket: when used was computed
	used   float64 // of a bucket: messages that passed; those beyond rate.most are booked ahead
	passes passes  // of a window
}

// crumb is the largest rounding error of a count of messages.
const crumb = 1e-6

// longestWait keeps sums of times from overflowing.
const longestWait = 100 * 365 * 24 * time.Hour

// NewLimiter makes a limit. Its name is for logs and snapshots; spec.Name is not looked up.
func NewLimiter(name string, spec engine.RateLimit) *Limiter {
	l := &Limiter{name: name, number: limiters.Add(1), spec: spec, changed: make(chan struct{})}
	l.rate = l.rateOf(spec.Messages, spec.Per, spec.Burst)
	if !spec.Key.IsZero() {
		l.keys = newKeyLimits(cmp.Or(spec.MaxKeys, 100_000))
	}
	return l
}

// rateOf makes a rate without zeros, so that it can be divided by.
func (l *Limiter) rateOf(messages int, per time.Duration, burst int) rate {
	r := rate{messages: float64(max(1, messages)), per: int64(min(max(1, per), longestWait))}
	r.most = r.messages
	if l.bucket() && burst > 0 {
		r.most = float64(burst)
	}
	return r
}

func (l *Limiter) bucket() bool { return l.spec.Kind == "bucket" }

// Name is the name of the limit in logs and snapshots.
func (l *Limiter) Name() string { return l.name }

// Keyed says whether each value of a key has its own limit.
func (l *Limiter) Keyed() bool { return l.keys != nil }

// KeyOf returns the key of a message, for [Limiter.Reserve]. ok is false if the key is nil or the limit has no key; such
// messages share one limit. Errors are errors of the expression.
func (l *Limiter) KeyOf(src expr.Source) (key []byte, ok bool, err error) {
	return l.AppendKey(nil, src)
}

// AppendKey is like KeyOf, and appends the key to dst.
func (l *Limiter) AppendKey(dst []byte, src expr.Source) (key []byte, ok bool, err error) {
	if l.keys == nil {
		return dst, false, nil
	}
	return l.spec.Key.AppendKey(dst, src)
}

// Free returns how many messages may pass the unkeyed limit now. If it is 0, a message that is booked now would pass after
// wait.
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

// Take lets up to n messages pass the unkeyed limit now, and returns how many. It never books ahead, so the caller gets only
// what others have not reserved.
func (l *Limiter) Take(now time.Time, n int) (got int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ask(now)
	l.renew(&l.all)
	got = max(0, min(n, l.free(&l.all)))
	l.take(got)
	return got
}

// Pass lets one message of a key pass now, and says whether it may. It never books ahead. A nil key means the unkeyed limit.
func (l *Limiter) Pass(now time.Time, key []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.allowance(now, key)
	if l.free(a) == 0 {
		return false
	}
	l.book(a)
	return true
}

// Reserve books one message of a key, in the order of the calls, and returns how long it must wait before it may pass. A nil
// key means the unkeyed limit.
func (l *Limiter) Reserve(now time.Time, key []byte) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.book(l.allowance(now, key))
}

// allowance returns the allowance of a key, renewed; nil means the unkeyed limit. l.mu is held.
func (l *Limiter) allowance(now time.Time, key []byte) *allowance {
	l.ask(now)
	a := &l.all
	if l.keys != nil && key != nil {
		a = l.keys.get(key, l.idle)
	}
	l.renew(a)
	return a
}

// Change sets a new rate, for all keys. With atOnce it applies immediately, as if no message had passed yet. Without it, a
// window has its new rate after one more period of the old rate, and a bucket immediately, with the messages that have
// passed. Messages that are booked ahead keep their times and count against the new rate. burst 0 means messages.
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

// Changed returns a channel that the next Change closes. Callers that wait may then ask again.
func (l *Limiter) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// State describes the limit.
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

// ask sets the clock to the caller's time, and adopts a rate whose time has come.
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

// renew gives back what a has regained since it was last used.
func (l *Limiter) renew(a *allowance) {
	if !l.bucket() {
		a.passes.renew(l.clock.last, l.rate.per)
		return
	}
	a.used = max(0, a.used-float64(l.clock.last-a.at)*l.rate.messages/float64(l.rate.per))
	a.at = l.clock.last
}

// idle renews a, and says whether it is unused again.
func (l *Limiter) idle(a *allowance) bool {
	l.renew(a)
	return a.used == 0 && a.passes.empty()
}

// free is how many messages may pass now. a has been renewed.
func (l *Limiter) free(a *allowance) int {
	if l.bucket() {
		return int(max(0, min(math.Floor(l.rate.most-a.used+crumb), math.MaxInt32)))
	}
	return a.passes.free(l.clock.last, &l.rate)
}

// take lets n messages pass the unkeyed limit, which has as many free.
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

// book books one message behind all others, and returns how long it waits. a has been renewed.
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

// leave returns the last booking. It has no effect if others have booked behind it, since they already have their times.
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

// grows is the time in which a bucket regains this many messages.
func (l *Limiter) grows(over float64) time.Duration {
	if over <= crumb {
		return 0
	}
	return time.Duration(min(math.Ceil(over*float64(l.rate.per)/l.rate.messages-crumb), float64(longestWait)))
}

// limitClock counts nanoseconds from the first time that it is given, and never goes back.
type limitClock struct {
	started bool
	base    time.Time
	shift   int64 // how far clocks were set back, in all
	last    int64
}

// setBack is how far a time must lie behind the latest one to mean that a clock was set back. Callers that read the clock
// and then had to wait for the lock lie less behind.
const setBack = int64(10 * time.Second)

// ask sets the clock to a caller's time.
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
