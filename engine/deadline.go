package engine

import (
	"context"
	"sync"
	"time"
)

// deadline is the context of one call of a plugin. Most calls never look at theirs,
// so timer and channel are made when one does: see context.WithDeadline, which it is
// from then on.
type deadline struct {
	parent context.Context
	at     time.Time

	mu    sync.Mutex // guards the fields below
	real  context.Context
	stop  context.CancelFunc
	ended bool
}

// end releases what the call has made of the context, and ends it for who kept it.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.stop != nil {
		d.stop()
	}
}

func (d *deadline) context() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.real == nil {
		d.real, d.stop = context.WithDeadline(d.parent, d.at)
		if d.ended {
			d.stop()
		}
	}
	return d.real
}

func (d *deadline) Deadline() (time.Time, bool) {
	if at, ok := d.parent.Deadline(); ok && at.Before(d.at) {
		return at, true
	}
	return d.at, true
}

func (d *deadline) Done() <-chan struct{} { return d.context().Done() }

func (d *deadline) Err() error {
	d.mu.Lock()
	idle := d.real == nil && !d.ended
	d.mu.Unlock()
	if idle && d.parent.Err() == nil && time.Now().Before(d.at) {
		return nil
	}
	return d.context().Err()
}

// Value asks the context that is there: one derived from it looks for its parent this
// way, behind a call of Done.
func (d *deadline) Value(key any) any {
	d.mu.Lock()
	ctx := d.real
	d.mu.Unlock()
	if ctx == nil {
		ctx = d.parent
	}
	return ctx.Value(key)
}
