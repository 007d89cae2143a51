package source

// Signal wakes a goroutine that receives from the channel. Setting a signal that is set already has no effect, so the
// goroutine must handle everything that is there when it wakes up.
type Signal chan struct{}

// NewSignal makes a Signal that is not set.
func NewSignal() Signal { return make(Signal, 1) }

// Set sets the signal. It never waits, and may be called from any goroutine.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default:
	}
}
