package life

import (
	"sync"
	"sync/atomic"
	"time"
)

// phase is how far a run has come. It only advances; what is not needed is skipped.
type phase int32

const (
	opening   phase = iota // plugins are being opened
	running                // inputs are read
	ending                 // nothing more is read; what is under way finishes, as far as there is time
	Returning              // what is unfinished goes back to its source, or to the plan that follows
	Over                   // nothing is left
)

// What has happened to a run, beside the phase that it is in.
const (
	opened   = 1 << iota // everything has been opened
	drained              // a drain was asked for
	replaced             // another plan is to follow
)

// Life is the phase of a run, and the fence behind which it ends.
type Life struct {
	phase    atomic.Int32
	happened atomic.Uint32
	since    [Over + 1]atomic.Int64 // when a phase began, unix nanoseconds; 0: not yet, or it was skipped
	Deadline atomic.Int64           // of the drain, unix nanoseconds; 0: none

	fence  sync.RWMutex // held for reading while messages end
	closed bool         // guarded by fence: everything has been handed back
}

// At is the phase at present.
func (l *Life) At() phase { return phase(l.phase.Load()) }

// Advance goes on to a phase, unless the run has come further.
func (l *Life) Advance(to phase) {
	for now := l.phase.Load(); now < int32(to); now = l.phase.Load() {
		if l.phase.CompareAndSwap(now, int32(to)) {
			l.since[to].Store(time.Now().UnixNano())
			return
		}
	}
}

// Ran, Ended and Stopped are when everything was open, when reading ended, and when nothing was left; zero: not yet.
func (l *Life) Ran() time.Time     { return l.began(running, running) }
func (l *Life) Ended() time.Time   { return l.began(ending, Returning) }
func (l *Life) Stopped() time.Time { return l.began(Over, Over) }

// began is when the first of some phases began that was not skipped.
func (l *Life) began(first, last phase) time.Time {
	for ; first <= last; first++ {
		if at := l.since[first].Load(); at != 0 {
			return time.Unix(0, at)
		}
	}
	return time.Time{}
}

func (l *Life) has(what uint32) bool { return l.happened.Load()&what != 0 }

// Runs says that everything is open.
func (l *Life) Runs() {
	l.happened.Or(opened)
	l.Advance(running)
}

// Drain begins a drain that ends at a time; zero: at once.
func (l *Life) Drain(until time.Time) {
	l.happened.Or(drained)
	if !until.IsZero() {
		l.Deadline.Store(until.UnixNano())
	}
	l.Advance(ending)
}

// Replace lets the run end for another plan.
func (l *Life) Replace() {
	l.happened.Or(replaced)
	l.Advance(ending)
}

// IsOpen says that everything has been opened; Draining, that a drain was asked for; Replacing, that another plan
// is to follow.
func (l *Life) IsOpen() bool    { return l.has(opened) }
func (l *Life) Draining() bool  { return l.has(drained) }
func (l *Life) Replacing() bool { return l.has(replaced) }

// Handing says that what is unfinished goes back now.
func (l *Life) Handing() bool { return l.At() >= Returning }

// PassesOn says that what is unfinished is about to go to the next plan.
func (l *Life) PassesOn() bool { return l.Replacing() && l.Handing() }

// TooLate says that a drain will have ended before a time.
func (l *Life) TooLate(at time.Time) bool {
	d := l.Deadline.Load()
	return l.Handing() || d > 0 && at.UnixNano() > d
}

// Enter must be called before messages end and leave after; false: all of them
// have been handed back meanwhile.
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

// Close closes the fence, and calls f meanwhile: nobody else ends messages, from now on.
func (l *Life) Close(f func()) {
	l.fence.Lock()
	defer l.fence.Unlock()
	l.closed = true
	f()
}
