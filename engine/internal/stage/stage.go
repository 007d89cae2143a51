package stage

import (
	"context"
	"slices"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/order"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// stage is a queue and the workers that take from it. The workers run the steps of the messages' batcher, then those
// of the stage. Behind the steps is an exit: the sink of an output, or the way back from a group to the lanes.
type stage struct {
	*settlement
	name    string
	steps   *steps.Program
	batched bool         // it is a group: its messages always come in batches
	failure *Policy      // nil: the pipeline's
	spot    *engine.Spot // of the output; nil: it is a group, or nobody observes it
	place   order.Place
	exit    exit
	rest    func() // called when a worker has nothing to do; may be nil

	works context.Context // set by start, as is loops
	loops *sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	cond    sync.Cond
	ready   flow.SlabList
	again   flow.SlabList       // messages that are due for another attempt, if the exit allows
	chains  map[string][]*entry // by key: the batch being worked on, and those behind it; nil: no order is kept
	width   int                 // workers, without those that were abandoned
	workers []*worker
	idle    int // workers that wait
	working int // workers that do not
	most    int // that may work at once
	closed  bool
}

// exit takes batches that have gone through the steps of a stage: the sink of an output, or a group.
type exit interface {
	// worker makes one more worker.
	worker() *worker
	// next takes the batch that a worker is to work on now. If probe is set, it probes whether the output is up again; b
	// may be nil then. Without b and probe, there is nothing to do. The stage's lock is held.
	next() (b *engine.Batch, probe bool)
	// serve works on what next returned. False: the worker was abandoned, and another has taken its place.
	serve(ctx context.Context, w *worker, b *engine.Batch, probe bool) bool
	// come counts messages that come to the stage from elsewhere.
	come(n int)
	// forward takes a message that is live behind the exit.
	forward(out *outcome, m *engine.Message)
	// retry takes a failed message if it is to be tried again there, and says whether it did.
	retry(out *outcome, m *engine.Message) bool
	// wait is called with messages that wait for another attempt.
	wait(b *engine.Batch)
}

func newStage(s *settlement, name string, p *steps.Program, width int, exit exit) *stage {
	x := &stage{settlement: s, name: name, steps: p, exit: exit, width: width, most: width}
	x.cond.L = &x.mu
	x.place.Push = x.arrive
	return x
}

// keyPlace is where messages of s hold their keys; nil, the lanes, without s.
func (s *stage) keyPlace() *order.Place {
	if s == nil {
		return nil
	}
	return &s.place
}

// start starts the workers. works is the context of what they call.
func (s *stage) start(works context.Context, loops *sync.WaitGroup) {
	s.works, s.loops = works, loops
	s.mu.Lock()
	defer s.mu.Unlock()
	for range s.width {
		s.workers = append(s.workers, s.exit.worker())
	}
	for _, w := range s.workers {
		s.loops.Add(1)
		go w.run()
	}
}

// hired returns all workers, including abandoned ones that have not returned.
func (s *stage) hired() []*worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.workers)
}

// Push queues a batch, or messages without one.
func (s *stage) Push(b *engine.Batch) { s.queue(b, &s.ready) }

// pushAgain queues messages for another attempt.
func (s *stage) pushAgain(b *engine.Batch) { s.queue(b, &s.again) }

// arrive queues messages that come from somewhere other than a batcher, and has the exit count them.
func (s *stage) arrive(b *engine.Batch) {
	s.exit.come(len(slab(b).Msgs))
	s.Push(b)
}

func (s *stage) queue(b *engine.Batch, in *flow.SlabList) {
	if s.chains == nil {
		s.mu.Lock()
		in.Push(b)
		s.mu.Unlock()
		s.cond.Signal()
		return
	}
	parts := []*engine.Batch{b}
	if s.layout.Ordered && slab(b).Trigger == "" {
		parts = flow.Spread(b, s.width)
	}
	s.mu.Lock()
	for _, p := range parts {
		if p != nil && s.chain(p) {
			in.Push(p)
		}
	}
	s.mu.Unlock()
	s.cond.Broadcast()
}

// entry is a batch's place in the chains of its keys. It outlives the slab.
type entry struct {
	b        *engine.Batch // until it is taken
	keys     []string
	blockers int // keys in whose chains others are before it
}

// chain queues b behind all batches that share a key with it, and says whether there are none. s.mu is held.
func (s *stage) chain(b *engine.Batch) bool {
	t := &entry{b: b}
	if slab(b).Trigger != "" && len(slab(b).Msgs) > 0 && msg(&slab(b).Msgs[0]).BatchKey != "" {
		s.link(t, "b"+msg(&slab(b).Msgs[0]).BatchKey)
	}
	if s.layout.Ordered {
		for i := range slab(b).Msgs {
			order.EachLeafKey(&slab(b).Msgs[i], func(leaf *engine.Message) { s.link(t, "o"+string(leaf.Key)) })
		}
	}
	if len(t.keys) > 0 {
		slab(b).Way.Turn = t
	}
	return t.blockers == 0
}

func (s *stage) link(t *entry, key string) {
	chain := s.chains[key]
	if n := len(chain); n > 0 {
		if chain[n-1] == t {
			return
		}
		t.blockers++
	}
	s.chains[key] = append(chain, t)
	t.keys = append(t.keys, key)
}

// passTurn lets batches go on that have waited behind t; s.mu is held.
func (s *stage) passTurn(t *entry) {
	for _, key := range t.keys {
		chain := s.chains[key][1:]
		if len(chain) == 0 {
			delete(s.chains, key)
			continue
		}
		s.chains[key] = chain
		if next := chain[0]; next.blockers > 1 {
			next.blockers--
		} else {
			next.blockers = 0
			s.ready.Push(next.b)
			next.b = nil
		}
	}
}

// hasIdle says whether a worker waits for work.
func (s *stage) hasIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.idle > 0
}

// hasKey says whether a message with an order key is queued or being worked on.
func (s *stage) hasKey(key []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.chains["o"+string(key)]) > 0
}

// pop waits until exit.next has work for a worker. It returns nothing when the queue is closed.
func (s *stage) pop() (b *engine.Batch, probe bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed {
		if b, probe = s.next(); b != nil || probe {
			return b, probe
		}
		s.idle++
		s.mu.Unlock()
		if s.rest != nil {
			s.rest()
		}
		s.balance.relieve()
		s.mu.Lock()
		if b, probe = s.next(); b != nil || probe {
			s.idle--
			return b, probe
		}
		if !s.closed {
			s.cond.Wait()
		}
		s.idle--
	}
	return nil, false
}

// next returns the work of exit.next and wakes another worker if more is queued; s.mu is held.
func (s *stage) next() (b *engine.Batch, probe bool) {
	if s.working >= s.most || s.closed {
		return nil, false
	}
	if b, probe = s.exit.next(); b == nil && !probe {
		return nil, false
	}
	if s.working++; s.ready.Head != nil {
		s.cond.Signal()
	}
	return b, probe
}

// takeFrom takes from a queue what one worker is to work on; s.mu is held.
func (s *stage) takeFrom(from *flow.SlabList, limit int) *engine.Batch {
	head := from.Head
	if flow.Whole(head) {
		b := from.Pop(len(slab(head).Msgs))
		t, _ := slab(b).Way.Turn.(*entry)
		if t != nil && slab(b).Trigger == "" && limit > inside.SlabSize && from == &s.ready {
			b = s.gather(b, t, limit)
		}
		return b
	}
	want := min(limit, (from.Msgs+s.most-1)/s.most)
	if limit > inside.SlabSize || from == &s.again {
		want = limit // one write is one token
	}
	b := from.Pop(want)
	for len(slab(b).Msgs) < want {
		if next := from.Head; next == nil || flow.Whole(next) || !flow.Likewise(next, b) {
			break
		}
		if cap(slab(b).Msgs) < want {
			b = into(b, flow.NewWrite(want))
		}
		into(from.Pop(want-len(slab(b).Msgs)), b)
	}
	return b
}

// gather adds batches to b that wait only for b, or for nothing; t is the place of b in the chains. Otherwise each write
// would have only the messages that arrived together, and be small. s.mu is held.
func (s *stage) gather(b *engine.Batch, t *entry, limit int) *engine.Batch {
	fits := func(other *engine.Batch) bool {
		return slab(other).Trigger == "" && flow.Likewise(other, b) && len(slab(b).Msgs)+len(slab(other).Msgs) <= limit
	}
	join := func(other *engine.Batch) {
		if cap(slab(b).Msgs) < len(slab(b).Msgs)+len(slab(other).Msgs) {
			b = into(b, flow.NewWrite(limit))
			slab(b).Way.Turn = t
		}
		into(other, b)
	}
	at := 0 // earlier keys have nothing to add
	for {
		for ; at < len(t.keys); at++ {
			for {
				chain := s.chains[t.keys[at]]
				if len(chain) < 2 || !s.alone(t, chain[1]) || !fits(chain[1].b) {
					break
				}
				next := chain[1]
				s.merge(t, next)
				join(next.b)
			}
		}
		next := s.ready.Head
		if next == nil || !fits(next) {
			return b
		}
		of, _ := slab(next).Way.Turn.(*entry)
		if of == nil || s.ready.At > 0 {
			return b
		}
		s.ready.Pop(len(slab(next).Msgs))
		s.merge(t, of)
		join(next)
	}
}

// alone says whether next waits only for t; s.mu is held.
func (s *stage) alone(t, next *entry) bool {
	behind := 0
	for _, key := range next.keys {
		if chain := s.chains[key]; chain[0] == t && chain[1] == next {
			behind++
		}
	}
	return behind == next.blockers
}

// merge makes other, which is behind t or behind nothing, a part of t; s.mu is held.
func (s *stage) merge(t, other *entry) {
	for _, key := range other.keys {
		chain := s.chains[key]
		if chain[0] == other {
			chain[0] = t
			t.keys = append(t.keys, key)
			continue
		}
		s.chains[key] = slices.Delete(chain, 1, 2)
	}
}

// into moves all messages of b to another batch of its batcher.
func into(b *engine.Batch, to *engine.Batch) *engine.Batch {
	flow.Follows(to, b)
	for i := range slab(b).Msgs {
		slab(to).Take(&slab(b).Msgs[i])
	}
	flow.Recycle(b)
	return to
}

// done frees a worker, and lets batches behind t go on.
func (s *stage) done(t *entry) {
	s.mu.Lock()
	if t != nil {
		s.passTurn(t)
	}
	s.working--
	s.mu.Unlock()
	s.cond.Broadcast()
}

// rests says whether nothing is queued or being worked on.
func (s *stage) rests() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.working == 0 && s.ready.Head == nil && s.again.Head == nil
}

// queued are the messages that wait for a worker, and their bytes as they count against the allowance; s.mu is held.
func (s *stage) queued() (msgs, bytes int) {
	for _, l := range []*flow.SlabList{&s.ready, &s.again} {
		at := l.At
		for b := l.Head; b != nil; b = slab(b).Next {
			msgs += len(slab(b).Msgs) - at
			bytes += charged(slab(b).Msgs[at:])
			at = 0
		}
	}
	for key, chain := range s.chains {
		for _, t := range chain { // those without blockers are in the lists, or being worked on
			if t.blockers > 0 && t.keys[0] == key {
				msgs += len(slab(t.b).Msgs)
				bytes += charged(slab(t.b).Msgs)
			}
		}
	}
	return msgs, bytes
}

func charged(msgs []engine.Message) (bytes int) {
	for i := range msgs {
		bytes += msg(&msgs[i]).Charge
	}
	return bytes
}

func (s *stage) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cond.Broadcast()
}
