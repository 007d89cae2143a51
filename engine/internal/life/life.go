package life

import (
	"sync"
	"sync/atomic"
	"time"
)

// phase is how far a run has come. It only advances, and phases may be skipped.
type phase int32

const (
	opening   phase = iota // plugins are being opened
	running                // inputs are read
	ending                 // nothing more is read; messages in flight finish if there is time
	Returning              // unfinished messages are handed back to their sources, or to the next plan
	Over                   // no messages are left
)

// What has happened to a run, besides its phase.
const (
	opened   = 1 << iota // everything has been opened
	drained              // a drain was asked for
	replaced             // another plan will follow
)

// Life is the phase of a run, and its fence. It is safe for concurrent use.
type Life struct {
	phase    atomic.Int32
	happened atomic.Uint32
	since    [Over + 1]atomic.Int64 // when each phase began, unix nanoseconds; 0: not yet, or it was skipped
	Deadline atomic.Int64           // of the drain, unix nanoseconds; 0: none

	fence  sync.RWMutex // held for reading while messages end
	closed bool         // guarded by fence: all messages have been handed back
}

// At is the present phase.
func (l *Life) At() phase { return phase(l.phase.Load()) }

// Advance enters a phase, unless the run is in a later one.
func (l *Life) Advance(to phase) {
	for now := l.phase.Load(); now < int32(to); now = l.phase.Load() {
		if l.phase.CompareAndSwap(now, int32(to)) {
			l.since[to].Store(time.Now().UnixNano())
			return
		}
	}
}

// Ran, Ended and Stopped are when all plugins were open, when reading ended, and when no messages were left; zero: not yet.
func (l *Life) Ran() time.Time     { return l.began(running, running) }
func (l *Life) Ended() time.Time   { return l.began(ending, Returning) }
func (l *Life) Stopped() time.Time { return l.began(Over, Over) }

// began is when the first phase of a range began that was not skipped.
func (l *Life) began(first, last phase) time.Time {
	for ; first <= last; first++ {
		if at := l.since[first].Load(); at != 0 {
			return time.Unix(0, at)
		}
	}
	return time.Time{}
}

func (l *Life) has(what uint32) bool { return l.happened.Load()&what != 0 }

// Runs is called when everything is open.
func (l *Life) Runs() {
	l.happened.Or(opened)
	l.Advance(running)
}

// Drain begins a drain with a deadline; zero: it ends at once.
func (l *Life) Drain(until time.Time) {
	l.happened.Or(drained)
	if !until.IsZero() {
		l.Deadline.Store(until.UnixNano())
	}
	l.Advance(ending)
}

// Replace says that the run ends because another plan replaces its own.
func (l *Life) Replace() {
	l.happened.Or(replaced)
	l.Advance(ending)
}

// IsOpen says that everything was opened, Draining that a drain was asked for, and Replacing that another plan will follow.
func (l *Life) IsOpen() bool    { return l.has(opened) }
func (l *Life) Draining() bool  { return l.has(drained) }
func (l *Life) Replacing() bool { return l.has(replaced) }

// Handing says that unfinished messages are being handed back.
func (l *Life) Handing() bool { return l.At() >= Returning }

// PassesOn says that unfinished messages are being handed to the next plan.
func (l *Life) PassesOn() bool { return l.Replacing() && l.Handing() }

// TooLate says that a time is after the deadline of the drain.
func (l *Life) TooLate(at time.Time) bool {
	d := l.Deadline.Load()
	return l.Handing() || d > 0 && at.UnixNano() > d
}

// Enter must be called before messages are ended, and Leave afterwards. It returns false if all messages have been handed
// back.
func (l *Life) Enter() bool {
	l.fence.RLock()
	if l.closed {
		l.fence.RUnlock()
		return false
	}
	return true
}

// Leave ends what Enter began.
func (l *Life) Leave() { l.fence.RUnlock() }

// Close closes the fence and calls f. From now on nobody else ends messages.
func (l *Life) Close(f func()) {
	l.fence.Lock()
	defer l.fence.Unlock()
	l.closed = true
	f()
}
