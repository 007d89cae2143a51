package cursor

import (
	"context"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/state/checkpoint"
	"github.com/flowd-io/flowd/internal/state/watermark"
)

// Places tracks which messages are settled, and saves the state reached with them. It is the Acker of all Reads, even
// after the input is closed and opened again: what this process knows is newer than what was saved. The zero Places
// has read nothing.
type Places[S any] struct {
	mu     sync.Mutex // guards the fields below
	low    watermark.Watermark
	marks  []mark[S] // not reached yet
	saved  *S        // what the checkpoint has, or will have; nil: nothing
	keeper *checkpoint.Keeper[S]
}

// mark is a state that is reached when all positions before it are settled.
type mark[S any] struct {
	before uint64
	state  S
}

// Keep opens the checkpoint. first is the state in it if this process does not know one yet.
func (p *Places[S]) Keep(cfg checkpoint.Config[S]) (first *S, err error) {
	cfg.State = p.state
	k, saved, err := checkpoint.Open(cfg)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keeper = k
	if p.saved == nil && p.low.Low() == 0 && p.low.Span() == 0 {
		p.saved, first = saved, saved
	}
	if p.saved != nil {
		k.Changed(0)
	}
	return first, nil
}

// Leave saves the state, and closes the checkpoint.
func (p *Places[S]) Leave() error {
	p.mu.Lock()
	k := p.keeper
	p.keeper = nil
	p.mu.Unlock()
	if k == nil {
		return nil
	}
	return k.Close()
}

// state returns the state to save. It is only called if there is one.
func (p *Places[S]) state() (s S) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.saved != nil {
		s = *p.saved
	}
	return s
}

// Read records that n messages were read. It returns the Ref of the first one; the others follow.
func (p *Places[S]) Read(n int) (ref uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.low.Read(n)
}

// Mark says that a state is reached when everything read so far is settled.
func (p *Places[S]) Mark(state S) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.marks = append(p.marks, mark[S]{p.low.Low() + uint64(p.low.Span()), state})
	p.advance(0)
}

// Ack settles all messages except returned ones.
func (p *Places[S]) Ack(_ context.Context, results []engine.Result) (again []engine.Result, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.low.Ack(results) {
		p.advance(len(results))
	}
	return nil, nil
}

// advance saves the last state that is reached.
func (p *Places[S]) advance(messages int) {
	n := 0
	for n < len(p.marks) && p.marks[n].before <= p.low.Low() {
		n++
	}
	if n == 0 {
		return
	}
	reached := p.marks[n-1].state
	p.saved = &reached
	rest := copy(p.marks, p.marks[n:])
	clear(p.marks[rest:])
	p.marks = p.marks[:rest]
	if p.keeper != nil {
		p.keeper.Changed(messages)
	}
}
