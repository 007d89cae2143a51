package engine

import (
	"cmp"
	"math"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine/expr"
)

// Limiter is a rate limit: a fixed window or a token bucket, one for all messages
// or one for each value of a key. It neither waits nor asks for the time. It is safe
// for concurrent use, and never lets more pass than it is told to, even when callers
// disagree a little about the time or a clock is set back.
//
// Windows lie end to end from the first use on, at the same times for all keys.
type Limiter struct {
	name string
	spec RateLimit // kind, key and max_keys are in force; the rest lies in rate

	mu      sync.Mutex // guards the fields below
	rate    rate
	next    *rate // in force from turn on; nil: none
	turn    int64
	clock   limitClock
	zero    int64      // when the window 0 began
	all     allowance  // of messages without a key
	keys    *keyLimits // nil: not keyed
	limited int64
	booked  uint64        // bookings of the unkeyed limit so far
	changed chan struct{} // closed by the next Change
}

// rate is how much may pass.
type rate struct {
	messages float64
	per      int64   // nanoseconds
	most     float64 // that may pass at once: messages of a window, burst of a bucket
}

// allowance is what one limit has given away. The zero allowance is untouched.
type allowance struct {
	at   int64   // when used was right: the number of a window, or a time
	used float64 // messages; those beyond rate.most are booked ahead
	back float64 // given back while some were booked ahead: they may pass now
}

// crumb is what rounding may do to a count of messages.
const crumb = 1e-6

// longestWait keeps sums of times from overflowing.
const longestWait = 100 * 365 * 24 * time.Hour

// NewLimiter makes a limit. Its name is for operators; spec.Name is not looked up.
func NewLimiter(name string, spec RateLimit) *Limiter {
	l := &Limiter{name: name, spec: spec, changed: make(chan struct{})}
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

// Keyed says whether each value of a key has a limit of its own.
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

// Take takes up to n messages that may pass now, of the unkeyed limit. When it got
// none, asking again is in vain before wait has passed. It never books ahead, so who
// takes gets only what others have not reserved; who must not be passed by for ever
// calls [Limiter.Turn].
func (l *Limiter) Take(now time.Time, n int) (got int, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if got = l.take(now, n); got > 0 || n <= 0 {
		return got, 0
	}
	l.limited++
	return 0, l.wait(l.all.used + 1 - l.rate.most)
}

// Turn is Take for who waits in line. Where none may pass now, it books one, behind
// all that is booked already: it may pass after wait, with what is free then. place is
// for [Limiter.Leave].
func (l *Limiter) Turn(now time.Time, n int) (got int, wait time.Duration, place uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if got = l.take(now, n); got > 0 || n <= 0 {
		return got, 0, l.booked
	}
	l.all.used++
	l.limited++
	l.booked++
	return 1, l.wait(l.all.used - l.rate.most), l.booked
}

// Leave gives back n of what Turn has booked and has not come to pass. Nothing comes
// of it when others have booked behind: they have their times already.
func (l *Limiter) Leave(place uint64, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if place == l.booked {
		l.all.used = max(0, l.all.used-float64(n))
	}
}

// Spend says that n of what was given at a time pass only now, as when a source had
// nothing to read: they count from now.
func (l *Limiter) Spend(given, now time.Time, n int) {
	if n <= 0 || !now.After(given) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.clock.of(given)
	l.ask(now)
	l.renew(&l.all)
	switch {
	case l.bucket(): // as if it had grown no further than to be whole without them
		l.all.used = max(l.all.used, float64(n))
	case at < l.zero+l.window()*l.rate.per:
		l.all.used += float64(n)
	}
}

// Pass is Take for messages that are at hand: those that it does not let pass are
// to be reserved for.
func (l *Limiter) Pass(now time.Time, n int) (got int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.take(now, n)
}

func (l *Limiter) take(now time.Time, n int) (got int) {
	l.ask(now)
	l.renew(&l.all)
	free := math.Floor(l.rate.most - l.all.used + crumb)
	got = int(max(0, min(free, float64(n))))
	l.all.used += float64(got)
	again := max(0, int(min(math.Floor(l.all.back+crumb), float64(n-got))))
	l.all.back -= float64(again)
	return got + again
}

// Put gives back n of what Take gave at a time and was not used. Nothing comes of it
// once that window is over, and what a bucket has grown by since is not given twice.
// What others have booked ahead keeps its time.
func (l *Limiter) Put(taken time.Time, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, back := l.clock.of(taken), float64(n)
	if at > l.clock.last { // a turn has come since the limit was last asked
		l.ask(taken)
	}
	l.renew(&l.all)
	switch {
	case l.bucket():
		back -= float64(max(0, l.clock.last-at)) * l.rate.messages / float64(l.rate.per)
	case at < l.zero+l.window()*l.rate.per:
		return
	}
	if back = max(0, back); l.all.used > l.rate.most+crumb {
		l.all.back = min(l.rate.most, l.all.back+back)
		return
	}
	l.all.used = max(0, l.all.used-back)
}

// Reserve books n messages of a key, in the order of the calls, and says how long
// they must wait before all of them may pass. A nil key is that of the unkeyed limit.
func (l *Limiter) Reserve(now time.Time, key []byte, n int) (wait time.Duration) {
	if n <= 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ask(now)
	a := &l.all
	if l.keys != nil && key != nil {
		a = l.keys.get(key, l.renew)
	}
	l.renew(a)
	a.used += float64(n)
	if a == &l.all {
		l.booked++
	}
	if wait = l.wait(a.used - l.rate.most); wait > 0 {
		l.limited += int64(n)
	}
	return wait
}

// Change sets a new rate, for all keys. It holds at once, as if nothing had passed
// yet, or, for windows, from the next one on; for a bucket what has passed counts
// then. Messages that are booked ahead keep their times and count against the new rate.
// burst 0 is as many as messages.
func (l *Limiter) Change(now time.Time, messages int, per time.Duration, burst int, atOnce bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fresh := !l.clock.started
	l.ask(now)
	close(l.changed)
	l.changed = make(chan struct{})
	r := l.rateOf(messages, per, burst)
	switch {
	case l.bucket() && !atOnce:
		l.each(l.renew)
		l.rate = r
	case atOnce || fresh:
		l.adopt(r, l.clock.last, func(a *allowance) {
			l.renew(a)
			a.used -= l.rate.most
		})
	default:
		l.next, l.turn = &r, l.zero+(l.window()+1)*l.rate.per
	}
}

// Changed is closed by the next Change: who waits may ask again then.
func (l *Limiter) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// State is the limit as seen from outside.
func (l *Limiter) State() LimitState {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := LimitState{Name: l.name, Messages: int(l.rate.messages), Per: time.Duration(l.rate.per), Limited: l.limited}
	if l.keys != nil {
		s.Keys = l.keys.len()
	}
	return s
}

// ask tells the clock what the caller's says, and adopts a rate whose time has come.
func (l *Limiter) ask(now time.Time) {
	if l.clock.ask(now); l.next == nil || l.clock.last < l.turn {
		return
	}
	turn := (l.turn - l.zero) / l.rate.per
	l.adopt(*l.next, l.turn, func(a *allowance) { a.renewWindow(turn, l.rate) })
}

// adopt makes r the rate from a time on; keep leaves of each allowance what is
// booked beyond that.
func (l *Limiter) adopt(r rate, from int64, keep func(*allowance)) {
	l.each(keep)
	l.rate, l.zero, l.next = r, from, nil
	at := int64(0) // the window that begins
	if l.bucket() {
		at = from
	}
	l.each(func(a *allowance) { a.at, a.used, a.back = at, max(0, a.used), 0 })
}

func (l *Limiter) each(f func(*allowance)) {
	f(&l.all)
	if l.keys != nil {
		l.keys.each(f)
	}
}

// window is the number of the window at hand.
func (l *Limiter) window() int64 { return (l.clock.last - l.zero) / l.rate.per }

// renew gives back to a what time has renewed.
func (l *Limiter) renew(a *allowance) {
	if l.bucket() {
		a.used = max(0, a.used-float64(l.clock.last-a.at)*l.rate.messages/float64(l.rate.per))
		a.at = l.clock.last
		if a.used <= l.rate.most {
			a.used, a.back = max(0, a.used-a.back), 0
		}
		return
	}
	a.renewWindow(l.window(), l.rate)
}

func (a *allowance) renewWindow(number int64, r rate) {
	if number > a.at { // what was given back was of the window before
		a.back = 0
	}
	a.used = max(0, a.used-float64(number-a.at)*r.messages)
	a.at = number
}

// wait is the time until so many messages beyond what may pass now are renewed.
func (l *Limiter) wait(over float64) time.Duration {
	if over <= crumb {
		return 0
	}
	per := float64(l.rate.per)
	if l.bucket() {
		return time.Duration(min(math.Ceil(over*per/l.rate.messages-crumb), float64(longestWait)))
	}
	windows := math.Ceil((over - crumb) / l.rate.messages)
	if windows*per > float64(longestWait) {
		return longestWait
	}
	return time.Duration(int64(windows)*l.rate.per - (l.clock.last-l.zero)%l.rate.per)
}

// limitClock counts nanoseconds from the first time it is told, and never back.
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
