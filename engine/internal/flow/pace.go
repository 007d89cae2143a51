package flow

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/flowd-io/flowd/engine/internal/inside"
)

// This much may wait for the lanes, and for each write of an output, before readers pause:
// enough to keep all of them busy. Credits allow far more, but what waits in queues has
// left the processor's caches when its turn comes, and the garbage collector walks over it
// again and again.
const (
	Ahead      = 2 * inside.SlabSize // messages
	AheadBytes = 8 << 20
	SlowRun    = 16 // messages that a lane has before it at least
)

// Pace is where readers wait that are too far ahead.
type Pace struct {
	waiting atomic.Int32

	mu   sync.Mutex // guards the field below
	line []chan struct{}
}

// Crowded says whether more is queued than so many messages or bytes.
func (l *SlabList) Crowded(msgs, bytes int) bool { return l.Msgs > msgs || l.bytes > bytes }

// Crowded says whether every lane has more queued than so many messages, or its part of the bytes.
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

// Wait waits until lanes and outputs have caught up, which look finds out, or ctx ends.
func (p *Pace) Wait(ctx context.Context, look func()) {
	caughtUp := make(chan struct{})
	p.waiting.Add(1)
	p.mu.Lock()
	p.line = append(p.line, caughtUp)
	p.mu.Unlock()
	look() // there may be none already
	select {
	case <-caughtUp:
	case <-ctx.Done():
	}
	p.waiting.Add(-1)
}

// Ease lets all go on that wait, unless there is still a crowd.
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
