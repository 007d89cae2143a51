package flow

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/flowd-io/flowd/engine/internal/inside"
)

// Readers pause when more than this waits for each lane, or for each write of an output. It is enough to keep all of them
// busy. Credits allow far more, but messages that wait long leave the CPU caches, and cost the garbage collector time.
const (
	Ahead      = 2 * inside.SlabSize // messages
	AheadBytes = 8 << 20
	SlowRun    = 16 // the least messages that a lane should have queued
)

// Pace lets readers wait that are too far ahead.
type Pace struct {
	waiting atomic.Int32

	mu   sync.Mutex // guards the field below
	line []chan struct{}
}

// Crowded says whether more than msgs messages or bytes bytes are queued.
func (l *SlabList) Crowded(msgs, bytes int) bool { return l.Msgs > msgs || l.bytes > bytes }

// Crowded says whether every lane has more than msgs messages, or its share of the bytes, queued.
func (q *LaneQueue) Crowded(msgs, bytes int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.own == nil {
		return q.shared.Crowded(msgs*q.Lanes, bytes)
	}
	for i := range q.own {
		if !q.own[i].Crowded(msgs, bytes/q.Lanes) {
			return false
		}
	}
	return true
}

// Wait waits until Ease finds that lanes and outputs have caught up, or ctx ends. It calls look, which calls Ease if they
// have caught up already.
func (p *Pace) Wait(ctx context.Context, look func()) {
	caughtUp := make(chan struct{})
	p.waiting.Add(1)
	p.mu.Lock()
	p.line = append(p.line, caughtUp)
	p.mu.Unlock()
	look() // they may have caught up before the reader was in the line
	select {
	case <-caughtUp:
	case <-ctx.Done():
	}
	p.waiting.Add(-1)
}

// Ease lets all waiting readers continue, unless the queues are still more than half full.
func (p *Pace) Ease(crowded func(part int) bool) {
	if p.waiting.Load() == 0 || crowded(2) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, caughtUp := range p.line {
		close(caughtUp)
	}
	p.line = p.line[:0]
}
