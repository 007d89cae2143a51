package engine

import (
	"fmt"
	"math"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
)

// ledger holds the roots of one Read until each has ended. It is apart from the
// slab, so that one message that stays long keeps neither slab nor block.
type ledger struct {
	input    string
	instance int // of the input
	takes    TakesBack
	at       time.Time
	acks     *ackLoop      // nil: the source takes nothing back
	then     then          // what the source can do with a failed message
	first    uint64        // read order of the first root, for acks
	delays   time.Duration // how long the source can delay one message
	open     atomic.Int32
	roots    []rootState
	meta     *metaFields                  // of all roots, where metas is nil
	metas    []atomic.Pointer[metaFields] // by root; looked at from outside, see oldest
	keys     [][]byte                     // by root, that their input gave them; nil: none

	next, prev *ledger // of the run's open ledgers
	replay     *replay // of its reader

	mu     sync.Mutex // guards worst and err of roots with several pieces, their payloads, and the fields below
	stakes []stake

	recalled map[string]uint32 // order keys, and from which root on they are to go back; see recall.go
}

// root is a message's place in its ledger.
type root struct {
	led *ledger
	i   uint32
}

// rootState counts the pieces of a root that have not ended, and keeps the
// worst end so far.
type rootState struct {
	ref    uint64
	pieces atomic.Int32
	lease  atomic.Int32 // of a source that lends; see lease.go
	worst  Fate
	stakes int32 // its last one in the ledger's, from 1; 0: none
	err    *Error

	// As it was read, for the plan that may take this one's place. The body goes with
	// the end, as do what the ledger has of its metadata and key.
	attempt int32
	index   int // of its metadata
	body    []byte
}

// keep takes down m as it was read.
func (l *ledger) keep(i int, m *Message) {
	s := &l.roots[i]
	s.ref, s.body, s.index, s.attempt = m.Ref, m.orig, m.Meta.index, int32(min(m.Attempt, math.MaxInt32))
	switch {
	case i == 0:
		l.meta = m.Meta.shared
	case l.metas == nil && m.Meta.shared != l.meta:
		l.metas = make([]atomic.Pointer[metaFields], len(l.roots))
		for before := range i {
			l.metas[before].Store(l.meta)
		}
	}
	if l.metas != nil {
		l.metas[i].Store(m.Meta.shared)
	}
	if m.Key != nil {
		if l.keys == nil {
			l.keys = make([][]byte, len(l.roots))
		}
		l.keys[i] = m.Key
	}
}

// letGo lets go of the payload of a root that has ended: others of the ledger may stay long.
func (l *ledger) letGo(i uint32) {
	l.roots[i].body = nil
	if l.metas != nil {
		l.metas[i].Store(nil)
	}
	if l.keys != nil {
		l.keys[i] = nil
	}
}

// metaOf is the metadata that a root was read with, until it ends.
func (l *ledger) metaOf(i int) Meta {
	if l.metas == nil {
		return Meta{l.meta, l.roots[i].index}
	}
	return Meta{l.metas[i].Load(), l.roots[i].index}
}

// key is the order key that its input gave a root, or nil.
func (l *ledger) key(i int) []byte {
	if l.keys == nil {
		return nil
	}
	return l.keys[i]
}

type stake struct {
	by    Settler
	ref   uint64
	next  int32 // the root's stake before this, from 1
	worst Fate  // that still counts as committed
}

func (l *ledger) stake(i uint32, s Settler, ref uint64, worst Fate) {
	if !reflect.TypeOf(s).Comparable() {
		panic(fmt.Sprintf("engine: Stake with a %T: a Settler is told from others by ==, so it must be a pointer", s))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stakes = append(l.stakes, stake{s, ref, l.roots[i].stakes, worst})
	l.roots[i].stakes = int32(len(l.stakes))
}

// givenUp is how many pieces a root has that has ended without them: what is still at work
// on some, behind the fence, never brings it to an end again.
const givenUp = math.MinInt32 / 2

// add counts n more pieces of a root; the caller holds one.
func (r root) add(n int) {
	if r.led != nil {
		r.led.roots[r.i].pieces.Add(int32(n))
	}
}

// end ends one piece of a root and says whether it was the last.
func (r root) end(f Fate, err *Error) (last bool) {
	s := &r.led.roots[r.i]
	if s.pieces.Load() == 1 { // only who holds a piece can add one
		s.worsen(f, err)
		s.pieces.Store(0)
		return true
	}
	r.led.mu.Lock()
	s.worsen(f, err)
	r.led.mu.Unlock()
	return s.pieces.Add(-1) == 0
}

func (s *rootState) worsen(f Fate, err *Error) {
	if f >= s.worst {
		s.worst = f
		if err != nil {
			s.err = err
		}
	}
}

// tally is what one goroutine has found out about messages since it last told
// the run: fates, pieces made, credits to give back, results for sources. It is
// applied once per batch.
type tally struct {
	r *run

	pieces, roots  [fates]int64
	made, consumed int64
	msgs, bytes    int        // credits
	beyond         int        // by how much the messages beyond the lanes change
	past           bool       // this goroutine works beyond the lanes
	in             *inputPlan // in whose own steps the messages are; nil: elsewhere
	results        []results
	settled        []settlement
	onward         []sending
	waiting        []*Batch // slabs of messages that are to be tried again
	freed          []*claim // where messages held their order keys and no longer do
	was            int      // bytes of the slab that onward comes from
	keys           keyring  // order and batch keys that it has given to messages
}

type results struct {
	to *ackLoop
	rs []ranked
}

// ranked is a result with its place in read order.
type ranked struct {
	Result
	rank  uint64
	tries int
}

type settlement struct {
	then                  func() // is called instead, behind those before it; nil: not
	by                    Settler
	committed, rolledBack []uint64
}

// end ends the piece m.
func (t *tally) end(m *Message, f Fate) {
	t.pieces[f]++
	t.release(m)
	t.disown(m)
	t.endRoots(m, f, m.err)
}

// endRoots ends what m stands for: its root's piece, or those of a merge's parts.
func (t *tally) endRoots(m *Message, f Fate, err *Error) {
	for i := range m.of {
		t.release(&m.of[i])
		t.endRoots(&m.of[i], f, err)
	}
	if m.root.led == nil || len(m.of) > 0 {
		return
	}
	if f == Returned {
		if m.root.led.takes == TakesNothing { // merged with what a source takes back
			f = Dropped
		}
		t.r.recall(m)
	}
	if m.root.end(f, err) {
		t.settle(m.root)
	}
}

// settle takes down the result of a root that has ended.
func (t *tally) settle(r root) {
	l, s := r.led, &r.led.roots[r.i]
	t.roots[s.worst]++
	if s.worst == Returned && (t.r.handing.Load() || s.err != nil && s.err.unfinished) {
		t.r.handed.Add(1)
	}
	switch {
	case l.acks == nil:
	case !s.lease.CompareAndSwap(leaseOpen, leaseEnded):
		l.acks.forget()
		t.r.lost.Add(-1)
	default:
		res := Result{Ref: s.ref, Fate: s.worst, Err: s.err}
		if s.worst == Returned && s.err != nil {
			res.Delay = s.err.Delay
		}
		t.result(l.acks, ranked{Result: res, rank: l.first + uint64(r.i)})
	}
	t.unstake(l, r.i, s.worst)
	if l.open.Add(-1) == 0 {
		t.r.open.remove(l)
		t.r.recalls.Add(-int64(l.recalls()))
		if l.replay != nil {
			l.replay.ended()
		}
	}
}

// forfeit tells steps that what a failed message has written does not count, before its
// dead letter is written. Where later ones of its key are to see that, they wait for it.
func (t *tally) forfeit(m *Message, out *outRun) {
	if m.dead {
		return
	}
	m.eachRoot(func(r root) {
		l := r.led
		if s := &l.roots[r.i]; s.pieces.Load() > 1 || s.stakes == 0 { // who holds the last piece is alone with it
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		last := &l.roots[r.i].stakes
		for at := *last; at > 0; at = l.stakes[at-1].next {
			k := &l.stakes[at-1]
			if k.worst == DeadLettered {
				last = &k.next
				continue
			}
			t.stake(k, Returned)
			*last = k.next
		}
	})
	if t.r.plan.serial && out == nil && t.in == nil && len(t.settled) > 0 {
		t.r.holds.own(m, nil)
	}
}

// unstake tells those that had a stake in a root how it ended.
func (t *tally) unstake(l *ledger, i uint32, f Fate) {
	l.letGo(i)
	s := &l.roots[i]
	if s.stakes == 0 { // only who holds a piece can change that
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for at := s.stakes; at > 0; at = l.stakes[at-1].next {
		t.stake(&l.stakes[at-1], f)
	}
}

func (t *tally) result(to *ackLoop, r ranked) {
	for i := range t.results {
		if t.results[i].to == to {
			t.results[i].rs = append(t.results[i].rs, r)
			return
		}
	}
	t.results = append(t.results, results{to, []ranked{r}})
}

// reuse makes all empty; the memory of a sole source's results is kept, since its
// next ones are as many.
func reuse(all []results) []results {
	if len(all) == 1 && len(all[0].rs) > 0 && cap(all[0].rs) <= 2*slabSize {
		clear(all[0].rs)
		all[0].rs = all[0].rs[:0]
		return all
	}
	clear(all)
	return all[:0]
}

func (t *tally) stake(k *stake, f Fate) {
	i := 0
	for i < len(t.settled) && t.settled[i].by != k.by {
		i++
	}
	if i == len(t.settled) {
		t.settled = append(t.settled, settlement{by: k.by})
	}
	if s := &t.settled[i]; f <= k.worst {
		s.committed = append(s.committed, k.ref)
	} else {
		s.rolledBack = append(s.rolledBack, k.ref)
	}
}

// weight is how many messages of credit m holds, with the parts of a merge.
func (m *Message) weight() int {
	n := int(m.credits)
	for i := range m.of {
		n += m.of[i].weight()
	}
	return n
}

// release gives back the credits that m holds.
func (t *tally) release(m *Message) {
	t.msgs += int(m.credits)
	t.bytes += m.charge
	if t.past {
		t.beyond -= int(m.credits)
	}
	m.credits, m.charge = 0, 0
}

// apply tells the run and makes t empty. The run's fence is held for reading
// by whoever ends messages, see run.enter.
func (t *tally) apply() {
	r := t.r
	r.pieces.count(&t.pieces, t.made, t.consumed)
	r.roots.count(&t.roots, 0, 0)
	for i := range t.results {
		t.results[i].to.put(t.results[i].rs)
	}
	t.results = reuse(t.results)
	if len(t.settled) > 0 {
		if len(t.freed) > 0 && r.plan.serial { // who is let go sees what is settled
			freed := t.freed
			t.settled, t.freed = append(t.settled, settlement{then: func() { r.letGo(freed) }}), nil
		}
		r.settling.put(t.settled)
		t.settled = nil
	}
	if t.msgs != 0 || t.bytes != 0 || t.beyond != 0 {
		r.credits.put(t.msgs, t.bytes, t.beyond)
	}
	t.pieces, t.roots, t.made, t.consumed = [fates]int64{}, [fates]int64{}, 0, 0
	t.msgs, t.bytes, t.beyond = 0, 0, 0
	t.handOver()
	t.postpone()
	if len(t.freed) > 0 {
		r.holds.free(t.freed)
		t.freed = t.freed[:0]
	}
	r.quiesce()
}

// disown notes that m no longer holds its order keys.
func (t *tally) disown(m *Message) {
	if !t.r.plan.ordered {
		return
	}
	m.eachLeafKey(func(leaf *Message) {
		if leaf.owns != nil {
			t.freed = append(t.freed, leaf.owns)
			leaf.owns = nil
		}
	})
}

// ledgers are the open ones of a run, oldest first.
type ledgers struct {
	mu         sync.Mutex
	head, tail *ledger
}

func (s *ledgers) add(l *ledger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.prev = s.tail
	if s.tail == nil {
		s.head = l
	} else {
		s.tail.next = l
	}
	s.tail = l
}

func (s *ledgers) remove(l *ledger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.prev == nil {
		s.head = l.next
	} else {
		l.prev.next = l.next
	}
	if l.next == nil {
		s.tail = l.prev
	} else {
		l.next.prev = l.prev
	}
	l.next, l.prev = nil, nil
}

// list is all open ledgers, oldest first.
func (s *ledgers) list() (all []*ledger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := s.head; l != nil; l = l.next {
		all = append(all, l)
	}
	return all
}

// returnAll ends every open root as returned, or as lost, and says how many pieces
// are lost.
func (s *ledgers) returnAll(t *tally, why *Error) (lost int64) {
	for _, l := range s.list() {
		for i := range l.roots {
			if n := l.roots[i].pieces.Load(); n > 0 && t.giveUp(root{l, uint32(i)}, why) {
				lost += int64(n)
			}
		}
	}
	return lost
}

// giveUp ends a root whatever its pieces are doing: nothing is at work any more, for
// the fence is closed. It is lost where its source takes nothing back.
func (t *tally) giveUp(r root, why *Error) (lost bool) {
	l, s := r.led, &r.led.roots[r.i]
	f := Returned
	if l.takes == TakesNothing {
		f, why = Dropped, lostWith(nil)
		t.r.failures.add(&Message{root: r, orig: s.body, Meta: l.metaOf(int(r.i)), err: why}, f)
	}
	s.pieces.Store(givenUp)
	s.worsen(f, why)
	t.settle(r)
	return f == Dropped
}
