package poll

import (
	"context"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// units bounds the number of portions in which free slots are dealt.
const units = 64

// deal gives free slots to sources that could read, one at a time in the strategy's order, and returns when to deal again. A read
// in progress counts for as many messages as its source is likely to return, judging by the last read. A read that waits for a
// first message counts for none. So a source with few messages keeps no slots idle, and at most one read of each source goes
// beyond the room.
func (in *input) deal(now time.Time) (again time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	again = now.Add(time.Minute)
	free := in.room
	in.open = in.open[:0]
	for _, s := range in.sources {
		at, open := s.look(now)
		again = earlier(again, at)
		if !open {
			continue
		}
		s.polled.Busy = !s.idle()
		if s.polling {
			free -= s.expected
		}
		if s.held != nil {
			free -= s.held.left()
		}
		in.open = append(in.open, s.polled)
	}
	for _, s := range in.sources {
		if s.waits && 2*s.offered <= free { // it began when little was free
			s.cancel()
		}
	}
	offered := free
	for unit := max(1, free/units); free > 0 && len(in.open) > 0; free -= unit {
		s := in.known[in.strategy.Next(now, in.open)]
		if s == nil || !s.idle() {
			again = earlier(again, now.Add(leastPause)) // it may have its reasons
			break
		}
		s.dealt += min(unit, free)
	}
	for _, p := range in.open {
		if s := in.known[p]; s.dealt > 0 {
			s.offered = offered
			s.grant(now)
			again = earlier(again, now.Add(s.patience()))
		}
	}
	return again
}

// grant lets a source read with what was dealt to it; in.mu is held.
func (s *source) grant(now time.Time) {
	slots := s.dealt
	s.dealt, s.slots, s.polling, s.waits, s.freed, s.since = 0, slots, true, false, false, now
	if s.expected = slots; s.gives > 0 {
		s.expected = min(slots, s.gives)
	}
	ctx, cancel := context.WithCancel(s.in.active)
	s.cancel = cancel
	s.grants <- grant{ctx, slots} // has room: the source is idle
}

// earlier returns the earlier of two times. b may be zero, for none.
func earlier(a, b time.Time) time.Time {
	if !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// look reports whether a source reads or could read, and when that may change without an event.
func (s *source) look(now time.Time) (again time.Time, open bool) {
	if s.polling && !s.waits {
		if again = s.since.Add(s.patience()); now.Before(again) {
			return again, true
		}
		s.waits = true
		s.in.strategy.Empty(s.polled)
	}
	switch {
	case s.state != reads || s.polling:
		return time.Time{}, false
	case now.Before(s.due):
		return s.due, false
	}
	return time.Time{}, true
}

// patience is how long a read may take before its source counts as empty: a few times as long as a read that finds messages.
func (s *source) patience() time.Duration {
	if s.quick == 0 {
		return firstPatience
	}
	return min(max(4*s.quick, leastPatience), mostPatience)
}

// learn estimates from a read that found n messages how many the next one finds, and how long it takes. The quickest of the last
// reads counts: reads that waited for a message, or found only one, say nothing about that.
func (s *source) learn(n int, took time.Duration) {
	if s.gives = max(s.gives, 2*n); n < s.slots {
		s.gives = n
	}
	took = max(took, time.Microsecond)
	switch {
	case took < s.quick:
		s.quick = took
	case n > 1 && s.quick == 0:
		s.quick = took
	case n > 1:
		s.quick = min(took, s.quick+s.quick/8+time.Microsecond)
	}
}

// idle marks a source as able to read.
func (s *source) idle() bool { return s.state == reads && !s.polling && s.held == nil }

// answered records the outcome of a read, and returns whether the source continues.
func (in *input) answered(s *source, r result) {
	in.mu.Lock()
	defer in.mu.Unlock()
	defer in.poke()
	now := time.Now()
	s.polling = false
	s.cancel()
	switch {
	case r.n > 0:
		s.learn(r.n, now.Sub(s.since))
		in.strategy.Found(s.polled, r.n)
		s.held = &held{batch: r.batch, acker: s.ackerOf(r.acker), of: r.n, taken: make(chan struct{}),
			cut: make(chan struct{})}
		in.ready = append(in.ready, s)
	case r.err == nil && !r.interrupted:
		if !s.waits {
			in.strategy.Empty(s.polled)
		}
		s.due = now
		if !s.freed {
			s.due = now.Add(in.pause)
		}
		if least := s.since.Add(leastPause); s.due.Before(least) {
			s.due = least
		}
	}
	s.waits = false
	if s.received += int64(r.n); r.err == nil {
		s.failure = nil
	}
	if r.err != nil {
		if engine.FailedSince(r.err).Sub(s.connected) >= standing { // message or not
			s.failures = 0
		}
		s.failed(r.err)
	}
}

// settled is called when messages of a source are settled.
func (in *input) settled(s *source, n int) {
	if n == 0 {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	s.unsettled -= n
	in.strategy.Done(s.polled, n)
	if !s.withholds {
		return
	}
	s.freed = true // its key is free: the source may have something now
	if !s.due.IsZero() {
		s.due = time.Time{}
		in.poke()
	}
}
