package engine

import (
	"context"
	"sync"
	"sync/atomic"
)

// So much may wait for the lanes, and for each write of an output, before readers
// pause: enough to keep all of them busy. Credits allow far more, but what waits in
// queues has left the processor's caches when its turn comes, and the garbage
// collector walks over it again and again.
const (
	ahead      = 2 * slabSize // messages
	aheadBytes = 8 << 20
	slowRun    = 16 // messages that a lane has before it at least
)

// pace is where readers wait that are too far ahead.
type pace struct {
	waiting atomic.Int32

	mu   sync.Mutex // guards the field below
	line []chan struct{}
}

// keepPace waits until lanes and outputs have caught up, or ctx ends.
func (rd *reader) keepPace(ctx context.Context) {
	r := rd.r
	if !r.crowded(1) {
		return
	}
	rd.waits(true)
	defer rd.waits(false)
	p, caughtUp := &r.pace, make(chan struct{})
	p.waiting.Add(1)
	p.mu.Lock()
	p.line = append(p.line, caughtUp)
	p.mu.Unlock()
	r.ease() // they may have done so meanwhile
	select {
	case <-caughtUp:
	case <-ctx.Done():
	}
	p.waiting.Add(-1)
}

// ease lets readers go on when half of what they were ahead is done. It is called
// whenever that may have become true.
func (r *run) ease() {
	p := &r.pace
	if p.waiting.Load() == 0 || r.crowded(2) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, caughtUp := range p.line {
		close(caughtUp)
	}
	p.line = p.line[:0]
}

// crowded says that every lane has so much before it, or every output that works,
// for each of its writes.
func (r *run) crowded(part int) bool {
	if r.lanes.crowded(max(ahead/r.lanes.lanes, 2*slowRun, 2*r.plan.steps.together)/part, aheadBytes/part) {
		return true
	}
	all := false
	for _, o := range r.outputs {
		if o.plan.feeds {
			if !o.crowded(ahead/part, aheadBytes/part) {
				return false
			}
			all = true
		}
	}
	return all
}

func (l *slabList) crowded(msgs, bytes int) bool { return l.msgs > msgs || l.bytes > bytes }

func (q *laneQueue) crowded(msgs, bytes int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.own == nil {
		return q.shared.crowded(msgs*q.lanes, bytes)
	}
	for i := range q.own {
		if !q.own[i].crowded(msgs, bytes/q.lanes) {
			return false
		}
	}
	return true
}

// crowded is not said of an output that is held: what waits for it is bounded by
// credits, which it keeps.
func (o *outRun) crowded(msgs, bytes int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ready.crowded(msgs*o.most, bytes) && !o.gate.shut
}
