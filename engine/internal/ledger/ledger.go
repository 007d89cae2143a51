package ledger

import (
	"fmt"
	"math"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine"
)

// Ledger holds the roots of one Read until each has ended. It is apart from the
// slab, so that one message that stays long keeps neither slab nor block.
type Ledger struct {
	InputName string
	Instance  int // of the input
	Takes     engine.TakesBack
	ReadAt    time.Time
	Counters  *engine.Counters
	Keys      engine.KeyWaits // nil: no order is kept
	Acks      *AckLoop        // nil: the source takes nothing back
	First     uint64          // read order of the first root, for acks
	Delays    time.Duration   // how long the source can delay one message
	Open      atomic.Int32
	Roots     []RootState
	pinned    atomic.Bool   // see Pin
	told      int           // roots of which the source knows; of the ack loop
	meta      engine.Meta   // of all roots but for its index, where metas is nil
	metas     []engine.Meta // by root; mu guards those of published ledgers, see oldest
	keys      [][]byte      // by root, that their input gave them; nil: none
	attempt   int32         // of all roots, where attempts is nil
	attempts  []int32       // by root

	next, prev *Ledger // of the run's open ledgers
	Replay     *Replay // of its reader

	Mu     sync.Mutex // guards worst and err of roots with several pieces, their payloads, and the fields below
	Stakes []Stake

	recalled map[string]uint32 // order keys, and from which root on they are to go back; see recall.go
}

// Root is a message's place in its ledger.
type Root struct {
	Led *Ledger
	I   uint32
}

// RootOf is the root that m stands for; none for a merge, or what no input of this process has read.
func RootOf(m *engine.Message) Root {
	return asRoot(msg(m))
}

// FirstRoot is the root of m, or of the first part of a merge.
func FirstRoot(m *engine.Message) Root {
	return asRoot(msg(m).First())
}

func asRoot(c *engine.Cell) Root {
	r, i := c.Root()
	led, _ := r.(*Ledger)
	return Root{led, i}
}

// Input names the input that has read l.
func (l *Ledger) Input() string { return l.InputName }

// At is when l was read.
func (l *Ledger) At() time.Time { return l.ReadAt }

// Counts are the counters of the pipeline.
func (l *Ledger) Counts() *engine.Counters { return l.Counters }

// KeyWaits are the order keys of the pipeline.
func (l *Ledger) KeyWaits() engine.KeyWaits { return l.Keys }

// AsRead is a root's message as it was read, with why it ends.
func (l *Ledger) AsRead(i uint32, why *engine.Error) *engine.Message {
	m := &engine.Message{Meta: l.MetaOf(int(i))}
	msg(m).SetRoot(l, i)
	msg(m).Orig, msg(m).Err = l.Roots[i].Body, why
	return m
}

// RootState counts the pieces of a root that have not ended, and keeps the
// worst end so far. It fills a cache line: its neighbours end on other processors.
type RootState struct {
	Ref    uint64
	others atomic.Int32 // pieces that have not ended, less one: a root is read as one piece
	Lease  atomic.Int32 // of a source that lends; see lease.go
	Worst  engine.Fate
	Stakes int32 // its last one in the ledger's, from 1; 0: none
	Err    *engine.Error

	// As it was read, for the plan that may take this one's place. The body goes with
	// the end, as do what the ledger has of its metadata and key.
	index int // of its metadata
	Body  []byte
}

// Keep takes down m as it was read.
func (l *Ledger) Keep(i int, m *engine.Message) {
	s := &l.Roots[i]
	meta, index := m.Meta.At(0), m.Meta.Index()
	s.Ref, s.Body, s.index = m.Ref, msg(m).Orig, index
	switch {
	case i == 0:
		l.meta = meta
	case l.metas == nil && meta != l.meta:
		l.metas = make([]engine.Meta, len(l.Roots))
		for before := range i {
			l.metas[before] = l.meta
		}
	}
	if l.metas != nil {
		l.metas[i] = meta
	}
	switch attempt := int32(min(m.Attempt, math.MaxInt32)); {
	case i == 0:
		l.attempt = attempt
	case l.attempts == nil && attempt != l.attempt:
		l.attempts = make([]int32, len(l.Roots))
		for before := range i {
			l.attempts[before] = l.attempt
		}
	}
	if l.attempts != nil {
		l.attempts[i] = int32(min(m.Attempt, math.MaxInt32))
	}
	if m.Key != nil {
		if l.keys == nil {
			l.keys = make([][]byte, len(l.Roots))
		}
		l.keys[i] = m.Key
	}
}

// LetGo lets go of the payload of a root that has ended: others of the ledger may stay long.
func (l *Ledger) LetGo(i uint32) {
	l.Roots[i].Body = nil
	if l.metas != nil {
		l.Mu.Lock()
		l.metas[i] = engine.Meta{}
		l.Mu.Unlock()
	}
	if l.keys != nil {
		l.keys[i] = nil
	}
}

// MetaOf is the metadata that a root was read with, until it ends.
func (l *Ledger) MetaOf(i int) engine.Meta {
	if l.metas == nil {
		return l.meta.At(l.Roots[i].index)
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.metas[i].At(l.Roots[i].index)
}

// Attempt is the source's count of a root's deliveries.
func (l *Ledger) Attempt(i int) int {
	if l.attempts == nil {
		return int(l.attempt)
	}
	return int(l.attempts[i])
}

// Key is the order key that its input gave a root, or nil.
func (l *Ledger) Key(i int) []byte {
	if l.keys == nil {
		return nil
	}
	return l.keys[i]
}

// Stake is the wish of a step to learn how a root ends.
type Stake struct {
	By    engine.Settler
	Ref   uint64
	Next  int32       // the root's stake before this, from 1
	Worst engine.Fate // that still counts as committed
}

// Stake notes that s is to learn how a root ends.
func (l *Ledger) Stake(i uint32, s engine.Settler, ref uint64, worst engine.Fate) {
	if !reflect.TypeOf(s).Comparable() {
		panic(fmt.Sprintf("engine: Stake with a %T: Settlers are compared with ==, so it must be a pointer", s))
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.Stakes = append(l.Stakes, Stake{s, ref, l.Roots[i].Stakes, worst})
	l.Roots[i].Stakes = int32(len(l.Stakes))
}

// Moved lets the payload that a root keeps move with its only piece.
func (l *Ledger) Moved(i uint32, from, to []byte) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if s := &l.Roots[i]; s.Pieces() == 1 && len(s.Body) > 0 && &s.Body[0] == &from[0] {
		s.Body = to
	}
}

// Pieces is how many have not ended; none or less: the root has ended.
func (s *RootState) Pieces() int32 { return s.others.Load() + 1 }

// GiveUp ends the root without its pieces: what is still working on some, after the fence, never ends it again.
func (r Root) GiveUp() {
	r.Led.Pin()
	r.Led.Roots[r.I].others.Store(math.MinInt32 / 2)
}

// Add counts n more pieces of a root; the caller holds one.
func (r Root) Add(n int) {
	if r.Led != nil {
		r.Led.Roots[r.I].others.Add(int32(n))
	}
}

// End ends one piece of a root and says whether it was the last.
func (r Root) End(f engine.Fate, err *engine.Error) (last bool) {
	s := &r.Led.Roots[r.I]
	if s.Pieces() == 1 { // only the holder of a piece can add one
		s.Worsen(f, err)
		s.others.Store(-1)
		return true
	}
	r.Led.Mu.Lock()
	s.Worsen(f, err)
	r.Led.Mu.Unlock()
	return s.others.Add(-1) == -1 // one that was given up has far fewer, and has ended
}

// Explain takes down why a root is not finished, where nothing is known of that.
func (r Root) Explain(err *engine.Error) {
	r.Led.Mu.Lock()
	defer r.Led.Mu.Unlock()
	if s := &r.Led.Roots[r.I]; s.Err == nil {
		s.Err = err
	}
}

// Worsen takes down the end of a piece; the worst counts.
func (s *RootState) Worsen(f engine.Fate, err *engine.Error) {
	if f >= s.Worst {
		s.Worst = f
		if err != nil {
			s.Err = err
		}
	}
}

// ledgers are the open ones of a run, oldest first.
type ledgers struct {
	mu         sync.Mutex
	head, tail *Ledger
}

func (s *ledgers) Add(l *Ledger) (lost int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := l.Acks; a != nil {
		for _, gone := range a.gone {
			lost += l.take(gone)
		}
		a.reading, a.gone = false, nil
	}
	l.prev = s.tail
	if s.tail == nil {
		s.head = l
	} else {
		s.tail.next = l
	}
	s.tail = l
	return lost
}

func (s *ledgers) Remove(l *Ledger) {
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

// List is all open ledgers, oldest first.
func (s *ledgers) List() (all []*Ledger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := s.head; l != nil; l = l.next {
		all = append(all, l)
	}
	return all
}

// EachRoot calls f for each root that m represents.
func EachRoot(m *engine.Message, f func(Root)) {
	for i := range msg(m).Of {
		EachRoot(&msg(m).Of[i], f)
	}
	if r := RootOf(m); len(msg(m).Of) == 0 && r.Led != nil {
		f(r)
	}
}

// positionNames are the metadata with which sources say where a message is.
var positionNames = []string{"path", "line", "topic", "partition", "offset", "key", "message_id"}

// Position is where a message is, in its source's own terms.
func Position(input string, meta engine.Meta, part int32) string {
	from := []string{"input " + input}
	for name, v := range meta.All() {
		if slices.Contains(positionNames, name) {
			from = append(from, fmt.Sprintf("%s %v", name, v))
		}
	}
	if part > 0 {
		from = append(from, fmt.Sprintf("part %d", part))
	}
	return strings.Join(from, ", ")
}

// Oldest is the age and position of the oldest open root; 0: there is none.
func (s *ledgers) Oldest() (age time.Duration, at string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := s.head; l != nil; l = l.next {
		if meta, ok := l.oldest(); ok {
			return time.Since(l.ReadAt), Position(l.InputName, meta, 0)
		}
	}
	return 0, ""
}

// oldest is the metadata of the first root that is open.
func (l *Ledger) oldest() (meta engine.Meta, ok bool) {
	for i := range l.Roots {
		if meta = l.MetaOf(i); l.Roots[i].Pieces() > 0 { // it is let go after the last
			return meta, true
		}
	}
	return engine.Meta{}, false
}
