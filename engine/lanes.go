package engine

import (
	"hash/maphash"
	"sync"
)

// laneQueue holds the slabs that wait for lanes. Without order any lane takes
// the next run; with it each lane has a queue of its own, and what has no key
// goes to the shortest.
type laneQueue struct {
	mu      sync.Mutex // guards the fields below
	cond    sync.Cond
	shared  slabList
	own     []slabList // by lane; nil without order
	lanes   int
	working int // lanes that run messages and wait for no credits
	closed  bool
	onIdle  func() // called without the lock when a lane begins to wait
	popped  func(*Batch)
}

// slabList is a queue of slabs, of which the first may be partly taken.
type slabList struct {
	head, tail *Batch
	at         int // messages taken of head
	msgs       int // messages in all
	bytes      int // that they keep, about
}

// push appends a slab, or its messages to the last one: many small slabs would be
// mostly empty.
func (l *slabList) push(b *Batch) {
	if t := l.tail; t != nil && t.admits(b, len(b.in.Msgs)) {
		l.msgs += len(b.in.Msgs)
		bytes := t.in.Bytes + b.in.Bytes // the blocks that they keep
		l.bytes += b.in.Bytes
		for i := range b.in.Msgs {
			t.in.Take(&b.in.Msgs[i])
		}
		t.in.Bytes = bytes
		recycle(b)
		return
	}
	l.msgs += len(b.in.Msgs)
	l.link(b)
}

func (l *slabList) link(b *Batch) {
	if l.tail == nil {
		l.head = b
	} else {
		l.tail.in.Next = b
	}
	l.tail = b
	l.bytes += b.in.Bytes
}

// pop takes up to n messages: the first slab itself where it fits, else a part.
func (l *slabList) pop(n int) *Batch {
	b := l.head
	if l.at == 0 && len(b.in.Msgs) <= n {
		l.shift()
		l.msgs -= len(b.in.Msgs)
		return b
	}
	out := newSlab(0).follows(b)
	for ; n > 0 && l.at < len(b.in.Msgs); n-- {
		out.in.Take(&b.in.Msgs[l.at])
		l.at++
	}
	out.in.Bytes = b.in.Bytes // the blocks that a part keeps are those of the whole
	l.msgs -= len(out.in.Msgs)
	if l.at == len(b.in.Msgs) {
		l.shift()
		recycle(b)
	}
	return out
}

// admits says that n messages of another slab may go on in b, which has room.
func (b *Batch) admits(other *Batch, n int) bool {
	return cap(b.in.Msgs) == slabSize && len(b.in.Msgs)+n <= slabSize && b.likewise(other) &&
		!b.whole() && !other.whole() && !b.in.Way.detour && !other.in.Way.detour && b.in.Way.slot == other.in.Way.slot && b.in.Way.out == other.in.Way.out
}

// likewise says that messages of both batches go on in the same way.
func (b *Batch) likewise(other *Batch) bool {
	return b.in.Way.batcher == other.in.Way.batcher && b.in.Stage == other.in.Stage && b.in.Way.in == other.in.Way.in
}

// follows makes an empty slab one whose messages go on as those of another.
func (b *Batch) follows(other *Batch) *Batch {
	b.in.From, b.in.Stage, b.in.Way.batcher, b.in.Way.in = other.in.From, other.in.Stage, other.in.Way.batcher, other.in.Way.in
	return b
}

func (l *slabList) shift() {
	b := l.head
	l.bytes -= b.in.Bytes
	l.head, b.in.Next, l.at = b.in.Next, nil, 0
	if l.head == nil {
		l.tail = nil
	}
}

func newLaneQueue(lanes int, ordered bool, onIdle func()) *laneQueue {
	q := &laneQueue{lanes: lanes, onIdle: onIdle}
	q.cond.L = &q.mu
	if ordered {
		q.own = make([]slabList, lanes)
	}
	return q
}

// push hands a slab to the lanes.
func (q *laneQueue) push(b *Batch) {
	if q.own == nil {
		q.mu.Lock()
		q.shared.push(b)
		q.mu.Unlock()
		q.cond.Signal()
		return
	}
	q.mu.Lock()
	if severalKeys(b) {
		q.own[0].push(b)
	} else {
		q.deal(b)
	}
	q.mu.Unlock()
	q.cond.Broadcast()
}

// deal gives each message of b to the lane of its key, into the slab that waits there
// last if it has room; what has no key goes round. q.mu is held.
func (q *laneQueue) deal(b *Batch) {
	for i := range b.in.Msgs {
		m := &b.in.Msgs[i]
		l := &q.own[laneOf(m.Key, i, len(q.own))]
		s := l.tail
		if s == nil || !s.admits(b, 1) {
			s = newSlab(0).follows(b)
			l.link(s)
		}
		s.in.Msgs = append(s.in.Msgs, *m)
		s.in.Bytes += m.in.Charge
		l.bytes += m.in.Charge
		m.in.State = moved
		l.msgs++
	}
	recycle(b)
}

// laneOf is where the i-th message of a slab goes, of n places.
func laneOf(key []byte, i, n int) int {
	if key == nil {
		return i % n
	}
	return int(maphash.Bytes(keySeed, key) % uint64(n))
}

// severalKeys says that b has a merge, which must not be told from others by its key.
func severalKeys(b *Batch) bool {
	for i := range b.in.Msgs {
		if len(b.in.Msgs[i].in.Of) > 0 {
			return true
		}
	}
	return false
}

var keySeed = maphash.MakeSeed()

// spread parts b by order key: equal keys stay together, in order. What has no
// key goes round.
func spread(b *Batch, n int) []*Batch {
	if severalKeys(b) {
		return []*Batch{b}
	}
	parts := make([]*Batch, n)
	to, sizes := make([]int, len(b.in.Msgs)), make([]int, n)
	for i := range b.in.Msgs {
		to[i] = laneOf(b.in.Msgs[i].Key, i, n)
		sizes[to[i]]++
	}
	if len(b.in.Msgs) > 0 && sizes[to[0]] == len(b.in.Msgs) {
		parts[to[0]] = b
		return parts
	}
	for i, t := range to {
		if parts[t] == nil {
			parts[t] = slabFor(sizes[t]).follows(b)
		}
		parts[t].in.Take(&b.in.Msgs[i])
	}
	recycle(b)
	return parts
}

// pop waits for up to n messages for a lane; nil when the queue is closed.
func (q *laneQueue) pop(lane, n int) *Batch {
	from := &q.shared
	if q.own != nil {
		from = &q.own[lane]
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for from.head == nil && !q.closed {
		q.mu.Unlock()
		q.onIdle()
		q.mu.Lock()
		if from.head == nil && !q.closed {
			q.cond.Wait()
		}
	}
	if q.closed {
		return nil
	}
	b := from.pop(n)
	q.popped(b)
	q.working++
	if q.own == nil && from.head != nil {
		q.cond.Signal() // a push wakes one lane, which leaves the rest to the next
	}
	return b
}

// rest and resume bracket a lane's wait for credits.
func (q *laneQueue) rest()   { q.work(-1) }
func (q *laneQueue) resume() { q.work(1) }

func (q *laneQueue) work(by int) {
	q.mu.Lock()
	q.working += by
	q.mu.Unlock()
}

// stuck says that no lane can move: none works, and what waits is behind lanes
// that wait for credits.
func (q *laneQueue) stuck(resting int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.working > 0 {
		return false
	}
	waiting := q.shared.msgs
	for i := range q.own {
		waiting += q.own[i].msgs
	}
	return waiting == 0 || resting > 0
}

// busy is how many lanes have work.
func (q *laneQueue) busy() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.working
}

// close ends all lanes at their next pop.
func (q *laneQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.cond.Broadcast()
}

// whole says that b must be written as it is.
func (b *Batch) whole() bool { return b.in.Trigger != "" || b.in.Way.turn != nil }
