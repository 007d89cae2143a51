package source

// Signal wakes one goroutine, which waits for the channel, when another has set it. Setting it again before that changes
// nothing: who wakes up looks at everything that there is.
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
