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
	reads   int           // Reads that may be under way
	rests   func()        // called when the last of these Reads has returned; may be nil
}

// NewPauses makes a Pauses whose readers read.
func NewPauses() *Pauses {
	p := &Pauses{resumed: make(chan struct{})}
	p.active, p.cancel = context.WithCancel(context.Background())
	return p
}

// Set pauses or resumes, and says whether that changes anything. It calls rests when no Read is under way any more,
// unless reading resumes before; nil: nothing is called.
func (p *Pauses) Set(paused bool, rests func()) bool {
	p.mu.Lock()
	if p.paused == paused {
		p.mu.Unlock()
		return false
	}
	p.since, p.rests = time.Now(), rests
	if p.paused = paused; paused {
		p.cancel()
		p.unlock()
		return true
	}
	p.active, p.cancel = context.WithCancel(context.Background())
	close(p.resumed)
	p.resumed = make(chan struct{})
	p.mu.Unlock()
	return true
}

// Interrupt ends Reads under way, as a pause does, so that they give back the credits that they hold while nothing arrives.
func (p *Pauses) Interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.paused {
		p.cancel()
		p.active, p.cancel = context.WithCancel(context.Background())
	}
}

// unlock releases p.mu, and then calls rests, once, if reading is paused and no Read is under way.
func (p *Pauses) unlock() {
	var rests func()
	if p.paused && p.reads == 0 {
		rests, p.rests = p.rests, nil
	}
	p.mu.Unlock()
	if rests != nil {
		rests()
	}
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

// Wait waits while reading is paused, before a Read. The context that it returns is for that Read: it ends with ctx and
// with the next pause. over must be called when the Read has returned. is gets the state of the reader: "paused" while it
// waits, "reading" afterwards.
func (p *Pauses) Wait(ctx context.Context, is func(state string)) (read context.Context, over func()) {
	for {
		p.mu.Lock()
		paused, active, resumed := p.paused, p.active, p.resumed
		reads := !paused || ctx.Err() != nil
		if reads {
			p.reads++
		}
		p.mu.Unlock()
		if reads {
			both, cancel := context.WithCancel(ctx)
			stop := context.AfterFunc(active, cancel)
			return both, func() {
				stop()
				cancel()
				p.mu.Lock()
				p.reads--
				p.unlock()
			}
		}
		is("paused")
		select {
		case <-resumed:
		case <-ctx.Done():
		}
		is("reading")
	}
}
