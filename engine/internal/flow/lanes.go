package flow

import (
	"hash/maphash"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// LaneQueue has the slabs that wait for lanes. Either any lane takes the next messages, or order keys choose the lane: then
// each lane has a queue of its own, and messages without a key are spread evenly. It is safe for concurrent use.
type LaneQueue struct {
	Turns   Turns      // the order in which lanes took messages, if any lane may take them
	mu      sync.Mutex // guards the fields below
	taken   uint64     // turns
	cond    sync.Cond
	shared  SlabList
	own     []SlabList // by lane; nil: any lane takes the next messages
	Lanes   int
	working int // lanes that run messages, without those that wait for credits
	closed  bool
	onIdle  func()              // called without the lock when a lane begins to wait
	Popped  func(*engine.Batch) // called with the lock for the messages that a lane takes
}

// SlabList is a queue of slabs. Some messages of the first slab may have been taken.
type SlabList struct {
	Head, tail *engine.Batch
	At         int // messages of Head that were taken
	Msgs       int // messages in all
	bytes      int // bytes that they keep in memory, roughly

	into *engine.Batch // the slab whose messages are being dealt to this list; see LaneQueue.deal
}

// Push appends a slab. If its messages fit into the last slab, it moves them there, since small slabs are mostly empty.
func (l *SlabList) Push(b *engine.Batch) {
	if t := l.tail; t != nil && admits(t, b, len(slab(b).Msgs)) {
		l.Msgs += len(slab(b).Msgs)
		bytes := slab(t).Bytes + slab(b).Bytes // of the blocks that they keep
		l.bytes += slab(b).Bytes
		for i := range slab(b).Msgs {
			slab(t).Take(&slab(b).Msgs[i])
		}
		slab(t).Bytes = bytes
		Recycle(b)
		return
	}
	l.Msgs += len(slab(b).Msgs)
	l.link(b)
}

func (l *SlabList) link(b *engine.Batch) {
	if l.tail == nil {
		l.Head = b
	} else {
		slab(l.tail).Next = b
	}
	l.tail = b
	l.bytes += slab(b).Bytes
}

// Pop takes up to n messages: the first slab, or a part of it.
func (l *SlabList) Pop(n int) *engine.Batch {
	b := l.Head
	if l.At == 0 && len(slab(b).Msgs) <= n {
		l.shift()
		l.Msgs -= len(slab(b).Msgs)
		return b
	}
	out := Follows(NewSlab(0), b)
	for ; n > 0 && l.At < len(slab(b).Msgs); n-- {
		slab(out).Take(&slab(b).Msgs[l.At])
		l.At++
	}
	slab(out).Bytes = slab(b).Bytes // a part keeps all blocks of the whole
	l.Msgs -= len(slab(out).Msgs)
	if l.At == len(slab(b).Msgs) {
		l.shift()
		Recycle(b)
	}
	return out
}

// admits says that n messages of another slab may be moved into b: it has room, and they continue in the same way.
func admits(b *engine.Batch, other *engine.Batch, n int) bool {
	return cap(slab(b).Msgs) == inside.SlabSize && len(slab(b).Msgs)+n <= inside.SlabSize && Likewise(b, other) &&
		!Whole(b) && !Whole(other) && !slab(b).Way.Detour && !slab(other).Way.Detour &&
		slab(b).Way.Counted == slab(other).Way.Counted && slab(b).Way.Out == slab(other).Way.Out
}

// Likewise says that the messages of both batches continue in the same way.
func Likewise(b *engine.Batch, other *engine.Batch) bool {
	return slab(b).Way.Batcher == slab(other).Way.Batcher && slab(b).Stage == slab(other).Stage &&
		slab(b).Way.In == slab(other).Way.In
}

// Follows prepares an empty slab for messages that continue like those of another. It returns b.
func Follows(b *engine.Batch, other *engine.Batch) *engine.Batch {
	slab(b).From, slab(b).Stage, slab(b).Way.Batcher, slab(b).Way.In = slab(other).From, slab(other).Stage,
		slab(other).Way.Batcher, slab(other).Way.In
	return b
}

func (l *SlabList) shift() {
	b := l.Head
	l.bytes -= slab(b).Bytes
	l.Head, slab(b).Next, l.At = slab(b).Next, nil, 0
	if l.Head == nil {
		l.tail = nil
	}
}

// NewLaneQueue makes a queue for a number of lanes. byKey says that order keys choose the lane. onIdle is called without
// the lock when a lane begins to wait.
func NewLaneQueue(lanes int, byKey bool, onIdle func()) *LaneQueue {
	q := &LaneQueue{Lanes: lanes, onIdle: onIdle}
	q.cond.L = &q.mu
	q.Turns.begin(lanes)
	if byKey {
		q.own = make([]SlabList, lanes)
	}
	return q
}

// Push hands a slab to the lanes.
func (q *LaneQueue) Push(b *engine.Batch) {
	if q.own == nil {
		q.mu.Lock()
		q.shared.Push(b)
		q.mu.Unlock()
		q.cond.Signal()
		return
	}
	if severalKeys(b) {
		q.mu.Lock()
		q.own[0].Push(b)
	} else {
		var room [inside.SlabSize]int32
		to := room[:0]
		for i := range slab(b).Msgs {
			to = append(to, int32(laneOf(slab(b).Msgs[i].Key, i, len(q.own))))
		}
		q.mu.Lock()
		q.deal(b, to)
	}
	q.mu.Unlock()
	q.cond.Broadcast()
}

// deal moves each message of b to the queue of its lane, into the last slab there if that has room. q.mu is held.
func (q *LaneQueue) deal(b *engine.Batch, to []int32) {
	for i := range slab(b).Msgs {
		l := &q.own[to[i]]
		if l.into != b { // the first of b
			l.into = b
			if l.tail == nil || !admits(l.tail, b, 1) {
				l.link(Follows(NewSlab(0), b))
			}
		} else if len(slab(l.tail).Msgs) == inside.SlabSize {
			l.link(Follows(NewSlab(0), b))
		}
		m, s := &slab(b).Msgs[i], slab(l.tail)
		n := msg(m).Charge
		s.Msgs = append(s.Msgs, *m)
		s.Bytes += n
		l.bytes += n
		l.Msgs++
	}
	for i := range q.own {
		q.own[i].into = nil
	}
	Recycle(b)
}

// laneOf is the lane of the i-th message of a slab, of n lanes.
func laneOf(key []byte, i, n int) int {
	if key == nil {
		return i % n
	}
	return int(maphash.Bytes(KeySeed, key) % uint64(n))
}

// severalKeys says that b has a merge, which may have several keys.
func severalKeys(b *engine.Batch) bool {
	for i := range slab(b).Msgs {
		if len(msg(&slab(b).Msgs[i]).Of) > 0 {
			return true
		}
	}
	return false
}

// KeySeed is the seed with which order keys are hashed.
var KeySeed = maphash.MakeSeed()

// Spread divides b into n parts by order key, so that equal keys stay together, in order. Messages without a key are spread
// evenly. Parts may be nil.
func Spread(b *engine.Batch, n int) []*engine.Batch {
	if severalKeys(b) {
		return []*engine.Batch{b}
	}
	parts := make([]*engine.Batch, n)
	to, sizes := make([]int, len(slab(b).Msgs)), make([]int, n)
	for i := range slab(b).Msgs {
		to[i] = laneOf(slab(b).Msgs[i].Key, i, n)
		sizes[to[i]]++
	}
	if len(slab(b).Msgs) > 0 && sizes[to[0]] == len(slab(b).Msgs) {
		parts[to[0]] = b
		return parts
	}
	for i, t := range to {
		if parts[t] == nil {
			parts[t] = Follows(SlabFor(sizes[t]), b)
		}
		slab(parts[t]).Take(&slab(b).Msgs[i])
	}
	Recycle(b)
	return parts
}

// Pop waits for up to n messages for a lane. It returns them and the turn in which they may leave, or nil if the queue is
// closed.
func (q *LaneQueue) Pop(lane, n int) (b *engine.Batch, turn uint64) {
	from := &q.shared
	if q.own != nil {
		from = &q.own[lane]
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for from.Head == nil && !q.closed {
		q.mu.Unlock()
		q.onIdle()
		q.mu.Lock()
		if from.Head == nil && !q.closed {
			q.cond.Wait()
		}
	}
	if q.closed {
		return nil, 0
	}
	b = from.Pop(n)
	q.Popped(b)
	q.working++
	q.taken++
	if q.own == nil && from.Head != nil {
		q.cond.Signal() // a push wakes only one lane
	}
	return b, q.taken
}

// Rest and Resume are called before and after a lane waits for credits.
func (q *LaneQueue) Rest()   { q.work(-1) }
func (q *LaneQueue) Resume() { q.work(1) }

func (q *LaneQueue) work(by int) {
	q.mu.Lock()
	q.working += by
	q.mu.Unlock()
}

// Stuck says that no lane can move: none works, and no messages are queued or lanes wait for credits.
func (q *LaneQueue) Stuck(resting int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.working > 0 {
		return false
	}
	waiting := q.shared.Msgs
	for i := range q.own {
		waiting += q.own[i].Msgs
	}
	return waiting == 0 || resting > 0
}

// Busy is how many lanes have work.
func (q *LaneQueue) Busy() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.working
}

// Close ends all lanes at their next pop.
func (q *LaneQueue) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.cond.Broadcast()
}

// Whole says that b must stay as it is, because a batcher made it or it waits for its turn.
func Whole(b *engine.Batch) bool { return slab(b).Trigger != "" || slab(b).Way.Turn != nil }
