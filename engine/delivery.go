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
	meta     Meta     // of all roots but for its index, where metas is nil
	metas    []Meta   // by root; mu guards those of published ledgers, see oldest
	keys     [][]byte // by root, that their input gave them; nil: none

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

// rootOf is the root that m stands for; none for a merge, or what no input of this process has read.
func rootOf(m *Message) root {
	return asRoot(m.in.Origin)
}

// firstRoot is the root of m, or of the first part of a merge.
func firstRoot(m *Message) root {
	return asRoot(m.First(key{}))
}

func asRoot(o Origin) root {
	r, i := o.Of(key{})
	led, _ := r.(*ledger)
	return root{led, i}
}

// Input names the input that has read l.
func (l *ledger) Input() string { return l.input }

// At is when l was read.
func (l *ledger) At() time.Time { return l.at }

// asRead is a root's message as it was read, with why it ends.
func (l *ledger) asRead(i uint32, why *Error) *Message {
	m := &Message{Meta: l.metaOf(int(i))}
	m.in.Origin, m.in.Orig, m.in.Err = OriginOf(key{}, l, i), l.roots[i].body, why
	return m
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
	meta, index := m.Meta.At(0), m.Meta.Index()
	s.ref, s.body, s.index, s.attempt = m.Ref, m.in.Orig, index, int32(min(m.Attempt, math.MaxInt32))
	switch {
	case i == 0:
		l.meta = meta
	case l.metas == nil && meta != l.meta:
		l.metas = make([]Meta, len(l.roots))
		for before := range i {
			l.metas[before] = l.meta
		}
	}
	if l.metas != nil {
		l.metas[i] = meta
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
		l.mu.Lock()
		l.metas[i] = Meta{}
		l.mu.Unlock()
	}
	if l.keys != nil {
		l.keys[i] = nil
	}
}

// metaOf is the metadata that a root was read with, until it ends.
func (l *ledger) metaOf(i int) Meta {
	if l.metas == nil {
		return l.meta.At(l.roots[i].index)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.metas[i].At(l.roots[i].index)
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

// Stake notes that s is to learn how a root ends.
func (l *ledger) Stake(i uint32, s Settler, ref uint64, worst Fate) {
	if !reflect.TypeOf(s).Comparable() {
		panic(fmt.Sprintf("engine: Stake with a %T: a Settler is told from others by ==, so it must be a pointer", s))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stakes = append(l.stakes, stake{s, ref, l.roots[i].stakes, worst})
	l.roots[i].stakes = int32(len(l.stakes))
}

// Moved lets the payload that a root keeps move with its only piece.
func (l *ledger) Moved(i uint32, from, to []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := &l.roots[i]; s.pieces.Load() == 1 && len(s.body) > 0 && &s.body[0] == &from[0] {
		s.body = to
	}
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
