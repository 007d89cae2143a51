package engine

import (
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine/internal/inside"
)

// Parking is where a message waits that has left the running call to go on later.
type Parking struct {
	Edit   func(*Message) error // that resume was given
	Delay  time.Duration        // resumed by the engine after this; 0: by the code that parked it
	Step   any                  // that parked it; nil: a write
	Before *inside.Found[Meta]  // what the step's on_error may restore

	mu      sync.Mutex // guards the fields below, and Edit
	resumed bool
	goOn    func() // nil: the message is still in the call
}

// resume is what Message.Park returns.
func (p *Parking) resume(edit func(*Message) error) {
	p.mu.Lock()
	first, goOn := !p.resumed, p.goOn
	if first {
		p.resumed, p.Edit = true, edit
	}
	p.mu.Unlock()
	if first && goOn != nil {
		goOn()
	}
}

// Arm says how the message goes on, now that it has left the call; true: it has been resumed already.
func (p *Parking) Arm(goOn func()) (resumed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.goOn = goOn
	return p.resumed
}

// Resume resumes the message, unless that has been done.
func (p *Parking) Resume() { p.resume(nil) }
