package life

import (
	"context"
	"sync"
	"time"
)

// Pauses lets readers pause and resume. It is safe for concurrent use.
type Pauses struct {
	mu      sync.Mutex // guards the fields below
	paused  bool
	since   time.Time       // when it was set last; zero: it never was
	active  context.Context // ends with the next pause
	cancel  context.CancelFunc
	resumed chan struct{} // closed by the next resume
}

// NewPauses makes a Pauses whose readers read.
func NewPauses() *Pauses {
	p := &Pauses{resumed: make(chan struct{})}
	p.active, p.cancel = context.WithCancel(context.Background())
	return p
}

// Set pauses or resumes, and says whether that changes anything.
func (p *Pauses) Set(paused bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused == paused {
		return false
	}
	p.since = time.Now()
	if p.paused = paused; paused {
		p.cancel()
		return true
	}
	p.active, p.cancel = context.WithCancel(context.Background())
	close(p.resumed)
	p.resumed = make(chan struct{})
	return true
}

// Is says whether reading is paused.
func (p *Pauses) Is() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused
}

// Since is when reading was paused or resumed last; zero: it never was.
func (p *Pauses) Since() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.since
}

// Wait waits while reading is paused. It returns a context that ends with ctx or at the next pause. is is called with the
// state of the input when a pause begins and ends.
func (p *Pauses) Wait(ctx context.Context, is func(state string)) (context.Context, func()) {
	for {
		p.mu.Lock()
		paused, active, resumed := p.paused, p.active, p.resumed
		p.mu.Unlock()
		if !paused || ctx.Err() != nil {
			both, cancel := context.WithCancel(ctx)
			stop := context.AfterFunc(active, cancel)
			return both, func() { stop(); cancel() }
		}
		is("paused")
		select {
		case <-resumed:
		case <-ctx.Done():
		}
		is("reading")
	}
}
