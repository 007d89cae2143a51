package engine

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
	returning              // what is unfinished goes back to its source, or to the plan that follows
	over                   // nothing is left
)

// What has happened to a run, beside the phase that it is in.
const (
	opened   = 1 << iota // everything has been opened
	drained              // a drain was asked for
	replaced             // another plan is to follow
)

// life is the phase of a run, and the fence behind which it ends.
type life struct {
	phase    atomic.Int32
	happened atomic.Uint32
	deadline atomic.Int64 // of the drain, unix nanoseconds; 0: none

	fence  sync.RWMutex // held for reading while messages end
	closed bool         // guarded by fence: everything has been handed back
}

func (l *life) at() phase { return phase(l.phase.Load()) }

// advance goes on to a phase, unless the run has come further.
func (l *life) advance(to phase) {
	for now := l.phase.Load(); now < int32(to) && !l.phase.CompareAndSwap(now, int32(to)); now = l.phase.Load() {
	}
}

func (l *life) has(what uint32) bool { return l.happened.Load()&what != 0 }

// runs says that everything is open.
func (l *life) runs() {
	l.happened.Or(opened)
	l.advance(running)
}

// drain begins a drain that ends at a time; zero: at once.
func (l *life) drain(until time.Time) {
	l.happened.Or(drained)
	if !until.IsZero() {
		l.deadline.Store(until.UnixNano())
	}
	l.advance(ending)
}

// replace lets the run end for another plan.
func (l *life) replace() {
	l.happened.Or(replaced)
	l.advance(ending)
}

func (l *life) isOpen() bool    { return l.has(opened) }
func (l *life) draining() bool  { return l.has(drained) }
func (l *life) replacing() bool { return l.has(replaced) }

// handing says that what is unfinished goes back now.
func (l *life) handing() bool { return l.at() >= returning }

// passesOn says that what is unfinished is about to go to the next plan.
func (l *life) passesOn() bool { return l.replacing() && l.handing() }

// tooLate says that a drain will have ended before a time.
func (l *life) tooLate(at time.Time) bool {
	d := l.deadline.Load()
	return l.handing() || d > 0 && at.UnixNano() > d
}

// enter must be called before messages end and leave after; false: all of them
// have been handed back meanwhile.
func (l *life) enter() bool {
	l.fence.RLock()
	if l.closed {
		l.fence.RUnlock()
		return false
	}
	return true
}

func (l *life) leave() { l.fence.RUnlock() }

// close closes the fence, and calls f meanwhile: nobody else ends messages, from now on.
func (l *life) close(f func()) {
	l.fence.Lock()
	defer l.fence.Unlock()
	l.closed = true
	f()
}
