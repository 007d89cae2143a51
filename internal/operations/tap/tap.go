// Package tap shows live messages of a running process: a [Hub] is the observer of its pipelines, and each [Tap] takes some
// of what it sees. Messages never wait for a tap: what it can't take is counted, and not shown. Start at [Hub.Open].
package tap

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/operations/observe"
)

// Query says what a tap shows. Without a component and Failed, it follows messages: those that it chooses when they are read
// are shown wherever they pass, and Where is on them as they were read.
type Query struct {
	Pipeline  string    // "": all
	Component string    // the name of an input, step, batcher or output, or KIND NAME, such as "output lake"; "": see below
	Where     expr.Cond // on a message as the component got it; zero: all
	Failed    bool      // only messages that fail at the component
	Rate      int       // messages per second that are shown; with Failed, failures
}

// The rates of a query.
const (
	DefaultRate = 10
	MaxRate     = 1000
)

// mostLooks bounds the messages per second on which a condition is evaluated: a rare message is found, and the others do not
// wait for that.
const mostLooks = 50_000

// mostTaps bounds the taps of a process at once, and mostWaiting the records that wait for a slow reader.
const (
	mostTaps    = 16
	mostWaiting = 256
)

// Hub observes the pipelines of a process, before and after reloads. Without a tap it costs a call for each run of
// messages. It is safe for concurrent use. The zero Hub has no taps.
type Hub struct {
	taps atomic.Pointer[[]*Tap]
	mu   sync.Mutex // held to change taps
}

var _ engine.Observer = (*Hub)(nil)

// Tap is one look at messages. C has records until the tap is closed.
type Tap struct {
	C      <-chan observe.Record
	missed atomic.Int64 // messages that were not shown

	query Query
	send  chan observe.Record
	hub   *Hub

	mu    sync.Mutex // guards the fields below
	left  int        // messages that may still be shown in the present interval
	looks int        // and those on which the condition may still be evaluated
	ends  time.Time  // of the interval

	followed map[engine.Origin]time.Time // messages that have not ended, and when they were read
	many     atomic.Int32                // how many these are, to be read without the lock
}

// mostFollowed bounds the messages that a tap follows at once: a window may keep each for hours.
const mostFollowed = 1000

// follows reports whether the tap follows messages.
func (q *Query) follows() bool { return q.Component == "" && !q.Failed }

// interval is how often a tap may look at more messages: often enough to look like a stream.
const interval = 100 * time.Millisecond

// Open adds a tap; nil: there are too many. The caller closes it.
func (h *Hub) Open(q Query) *Tap {
	if q.Rate == 0 {
		q.Rate = DefaultRate
	}
	t := &Tap{query: q, hub: h, send: make(chan observe.Record, mostWaiting), followed: map[engine.Origin]time.Time{}}
	t.C = t.send
	h.mu.Lock()
	defer h.mu.Unlock()
	open := h.open()
	if len(open) == mostTaps {
		return nil
	}
	all := append(slices.Clone(open), t)
	h.taps.Store(&all)
	return t
}

// Close removes the tap. C is not closed, since messages may be on their way to it.
func (t *Tap) Close() {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(t.hub.open()), func(other *Tap) bool { return other == t })
	if len(all) == 0 {
		t.hub.taps.Store(nil)
		return
	}
	t.hub.taps.Store(&all)
}

// Missed returns how many messages were not shown since the last call.
func (t *Tap) Missed() int64 { return t.missed.Swap(0) }

func (h *Hub) open() []*Tap {
	if all := h.taps.Load(); all != nil {
		return *all
	}
	return nil
}

// matches reports whether the tap is about a spot.
func (t *Tap) matches(at *engine.Spot) bool {
	if at.Kind == engine.EndSpot {
		return t.many.Load() > 0
	}
	if t.query.Pipeline != "" && t.query.Pipeline != at.Pipeline {
		return false
	}
	want := t.query.Component
	return want == "" || want == at.Name || at.Kind == engine.CaseSpot && strings.HasPrefix(at.Name, want+", case ") ||
		strings.TrimPrefix(want, string(at.Kind)+" ") == at.Name
}

// allowed returns how many of n messages the tap may look at now.
func (t *Tap) allowed(at *engine.Spot, n int) int {
	switch {
	case t.query.Failed:
		return n // counted when they fail
	case t.query.follows() && at.Kind != engine.InputSpot && t.many.Load() == 0:
		return 0
	case t.query.follows() && at.Kind != engine.InputSpot:
		return n
	}
	if t.query.Where.IsZero() {
		return t.takeUp(&t.left, n)
	}
	return t.takeUp(&t.looks, n)
}

// takeUp uses up to n of a budget, and counts the rest as not shown.
func (t *Tap) takeUp(budget *int, n int) (granted int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); !now.Before(t.ends) {
		t.left, t.looks, t.ends = perInterval(t.query.Rate), perInterval(mostLooks), now.Add(interval)
	}
	granted = min(n, *budget)
	*budget -= granted
	t.missed.Add(int64(n - granted))
	return granted
}

func perInterval(perSecond int) int { return max(1, perSecond*int(interval)/int(time.Second)) }

// mayShow reports whether the rate allows a message whose condition holds. Without a condition, it has been asked before.
func (t *Tap) mayShow() bool {
	return t.query.Where.IsZero() || t.query.Failed || t.takeUp(&t.left, 1) > 0
}

// Wants returns the largest number of messages that a tap may look at.
func (h *Hub) Wants(at *engine.Spot, n int) int {
	most := 0
	for _, t := range h.open() {
		if t.matches(at) {
			most = max(most, t.allowed(at, n))
		}
	}
	return most
}

// seen is a message as a spot got it, and the taps whose condition it meets.
type seen struct {
	was  *observe.Snapshot
	taps []*Tap
}

// Before copies a message for the taps whose condition holds.
func (h *Hub) Before(at *engine.Spot, m *engine.Message) any {
	var s *seen
	for _, t := range h.open() {
		if !t.matches(at) || t.query.Failed && t.query.Where.IsZero() || !t.chooses(at, m) {
			continue
		}
		if s == nil {
			s = &seen{was: observe.Before(m)}
		}
		s.taps = append(s.taps, t)
	}
	if s == nil {
		return nil // without an allocation, for taps that wait for failures
	}
	return s
}

// chooses reports whether a message at a spot is for the tap. It decides which messages are followed.
func (t *Tap) chooses(at *engine.Spot, m *engine.Message) bool {
	if !t.query.follows() {
		return t.holds(m) && t.mayShow()
	}
	origins := m.Origins(make([]engine.Origin, 0, 8))
	if at.Kind == engine.InputSpot && !(t.holds(m) && t.mayShow()) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if at.Kind == engine.InputSpot {
		if len(t.followed) >= mostFollowed {
			t.forget(time.Now().Add(-time.Minute))
		}
		for _, o := range origins {
			if len(t.followed) < mostFollowed {
				t.followed[o] = time.Now()
			}
		}
		t.many.Store(int32(len(t.followed)))
	}
	return slices.ContainsFunc(origins, func(o engine.Origin) bool { return !t.followed[o].IsZero() })
}

// forget stops following messages that were read before a time: those that a reload has read again never end. t.mu is held.
func (t *Tap) forget(before time.Time) {
	for o, read := range t.followed {
		if read.Before(before) {
			delete(t.followed, o)
		}
	}
}

// holds reports whether the condition of the query is true for a message.
func (t *Tap) holds(m *engine.Message) bool {
	if t.query.Where.IsZero() {
		return true
	}
	ok, err := t.query.Where.Test(m)
	return err == nil && ok
}

// After sends a record to the taps.
func (h *Hub) After(at *engine.Spot, before any, b *engine.Batch, m *engine.Message, how engine.Passage) {
	s, _ := before.(*seen)
	var was *observe.Snapshot
	if s != nil {
		was = s.was
	}
	var r *observe.Record
	for _, t := range h.open() {
		if s != nil && !slices.Contains(s.taps, t) || s == nil && !t.waitsFor(at, m, how) || t.query.Failed && !t.takesFailure(how) {
			continue
		}
		if r == nil {
			made := observe.After(at, was, b, m, how)
			r = &made
			r.Pipeline, r.At, r.Message = at.Pipeline, time.Now(), numbers(m)
		}
		select {
		case t.send <- *r:
		default:
			t.missed.Add(1)
		}
	}
}

// waitsFor reports whether a message is for the tap that Before did not see or did not choose.
func (t *Tap) waitsFor(at *engine.Spot, m *engine.Message, how engine.Passage) bool {
	before := (at.Kind == engine.StepSpot || at.Kind == engine.OutputSpot) && how != engine.SkippedStep
	if before && (!t.query.Failed || !t.query.Where.IsZero()) {
		return false
	}
	return t.matches(at) && (t.query.Failed && how != engine.FailedThere || t.chooses(at, m))
}

// takesFailure reports whether the message has failed, and may be shown.
func (t *Tap) takesFailure(how engine.Passage) bool {
	if how != engine.FailedThere {
		return false
	}
	return t.takeUp(&t.left, 1) > 0
}

// numbers names the messages that m consists of, such as "web 17".
func numbers(m *engine.Message) string {
	const most = 3
	var all []string
	origins := m.Origins(nil)
	for _, o := range origins[:min(most, len(origins))] {
		if text := o.String(); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	if more := len(origins) - most; more > 0 {
		all = append(all, fmt.Sprintf("%d more", more))
	}
	return strings.Join(all, ", ")
}

// Ended sends the fate of a message that taps follow.
func (h *Hub) Ended(o engine.Origin, f engine.Fate, err *engine.Error) {
	for _, t := range h.open() {
		t.mu.Lock()
		_, followed := t.followed[o]
		delete(t.followed, o)
		t.many.Store(int32(len(t.followed)))
		t.mu.Unlock()
		if !followed {
			continue
		}
		r := observe.Record{Message: o.String(), At: time.Now(), Kind: engine.EndSpot, Name: f.String(), Passage: engine.Passage(f.String())}
		if err != nil {
			r.Error = &observe.Failure{Class: err.Class, Message: err.Error()}
		}
		select {
		case t.send <- r:
		default:
			t.missed.Add(1)
		}
	}
}
