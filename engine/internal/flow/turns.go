package flow

import (
	"sync"
	"sync/atomic"
)

// Turns lets lanes pass on messages in the order in which they took them. Turns are numbered from 1.
type Turns struct {
	over    atomic.Uint64   // the last turn that is over
	waiting []chan struct{} // by turn, modulo the number of lanes, so that no two lanes share one

	mu     sync.Mutex // guards the field below
	asleep []bool     // whether a lane waits there
}

func (t *Turns) begin(lanes int) {
	t.waiting, t.asleep = make([]chan struct{}, lanes), make([]bool, lanes)
	for i := range t.waiting {
		t.waiting[i] = make(chan struct{}, 1)
	}
}

// Due says whether all turns before this one are over.
func (t *Turns) Due(turn uint64) bool { return t.over.Load() == turn-1 }

// Wait waits until all turns before this one are over.
func (t *Turns) Wait(turn uint64) {
	i := turn % uint64(len(t.waiting))
	t.mu.Lock()
	if t.Due(turn) {
		t.mu.Unlock()
		return
	}
	t.asleep[i] = true
	t.mu.Unlock()
	<-t.waiting[i]
}

// End ends the turn that is due.
func (t *Turns) End(turn uint64) {
	i := (turn + 1) % uint64(len(t.waiting))
	t.mu.Lock()
	t.over.Store(turn)
	wake := t.asleep[i]
	t.asleep[i] = false
	t.mu.Unlock()
	if wake {
		t.waiting[i] <- struct{}{}
	}
}
