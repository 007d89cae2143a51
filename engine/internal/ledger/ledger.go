package ledger

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// Ledger has the roots of one Read until all of them have ended. It is separate from the slab, so that a message that stays
// long keeps neither the slab nor the block of bytes that was read.
type Ledger struct {
	InputName string
	Instance  int // of the input
	Takes     engine.TakesBack
	ReadAt    time.Time
	Counters  *engine.Counters
	Keys      engine.KeyWaits // nil: no order is kept
	Acks      *AckLoop        // nil: the source takes nothing back
	First     uint64          // the number of the first root in the order of reading
	Delays    time.Duration   // how long the source can delay one message
	Open      atomic.Int32    // roots that have not ended
	Roots     []RootState
	pinned    atomic.Bool   // see Pin
	told      int           // roots whose result the source has got; for the ack loop
	meta      engine.Meta   // of all roots except for its index, if metas is nil
	metas     []engine.Meta // by root; guarded by Mu once the ledger is open, see oldest
	keys      [][]byte      // by root, as the input has set them; nil: it has set none
	attempt   int32         // of all roots, if attempts is nil
	attempts  []int32       // by root

	traces atomic.Pointer[traces] // by root; nil: no tracer follows one

	next, prev *Ledger // of the run's open ledgers
	Replay     *Replay // of its reader

	Mu     sync.Mutex // guards Worst, Err and the payload of roots with several pieces, and the fields below
	Stakes []Stake

	recalled map[string]uint32 // by order key: from which root on its messages must be returned; see Account.Recall
}

// Root identifies a root by its ledger and its index there.
type Root struct {
	Led *Ledger
	I   uint32
}

// RootOf is the root of m. It is zero for a merge, and for a message that no input of this process has read.
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

// Input is the name of the input that has read l.
func (l *Ledger) Input() string { return l.InputName }

// At is when l was read.
func (l *Ledger) At() time.Time { return l.ReadAt }

// Number is the number of a root among all that the instance of its input has read, from 1.
func (l *Ledger) Number(i uint32) uint64 { return l.First + uint64(i) + 1 }

// Counts are the counters of the pipeline.
func (l *Ledger) Counts() *engine.Counters { return l.Counters }

// KeyWaits returns the order keys of the pipeline.
func (l *Ledger) KeyWaits() engine.KeyWaits { return l.Keys }

// AsRead returns the message of a root as it was read, with the error that ends it.
func (l *Ledger) AsRead(i uint32, why *engine.Error) *engine.Message {
	m := &engine.Message{Meta: l.MetaOf(int(i))}
	msg(m).SetRoot(l, i)
	msg(m).Orig, msg(m).Err = l.Roots[i].Body, why
	return m
}

// RootState counts the pieces of a root that have not ended, and has the worst fate so far. It fills a cache line, since
// its neighbours end on other processors.
type RootState struct {
	Ref    uint64
	others atomic.Int32 // pieces that have not ended, minus one
	Lease  atomic.Int32 // for a source that leases messages; see lease.go
	Worst  engine.Fate
	Stakes int32 // the last of its stakes in the ledger, from 1; 0: none
	Err    *engine.Error

	// The message as it was read, for a plan that may replace this one. LetGo releases it when the root ends.
	index int // of its metadata
	Body  []byte
}

// Keep records m as it was read, as the i-th root.
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

// LetGo releases the payload, metadata and key of a root that has ended, since other roots of the ledger may stay long.
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

// MetaOf is the metadata with which a root was read. It is empty when the root has ended.
func (l *Ledger) MetaOf(i int) engine.Meta {
	if l.metas == nil {
		return l.meta.At(l.Roots[i].index)
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.metas[i].At(l.Roots[i].index)
}

// Attempt is how often the source has delivered a root; 0: unknown.
func (l *Ledger) Attempt(i int) int {
	if l.attempts == nil {
		return int(l.attempt)
	}
	return int(l.attempts[i])
}

// Key is the order key that the input has set for a root, or nil.
func (l *Ledger) Key(i int) []byte {
	if l.keys == nil {
		return nil
	}
	return l.keys[i]
}

// Stake is a step's request to learn how a root ends.
type Stake struct {
	By    engine.Settler
	Ref   uint64
	Next  int32       // the previous stake on this root, from 1; 0: none
	Worst engine.Fate // the worst fate that still counts as committed
}

// Stake adds a stake on a root.
func (l *Ledger) Stake(i uint32, s engine.Settler, ref uint64, worst engine.Fate) {
	if !reflect.TypeOf(s).Comparable() {
		panic(fmt.Sprintf("engine: Stake with a %T: Settlers are compared with ==, so it must be a pointer", s))
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.Stakes = append(l.Stakes, Stake{s, ref, l.Roots[i].Stakes, worst})
	l.Roots[i].Stakes = int32(len(l.Stakes))
}

// Moved replaces the payload that a root keeps, which its only piece has moved in memory.
func (l *Ledger) Moved(i uint32, from, to []byte) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if s := &l.Roots[i]; s.Pieces() == 1 && len(s.Body) > 0 && &s.Body[0] == &from[0] {
		s.Body = to
	}
}

// Pieces is how many pieces have not ended. If it is 0 or less, the root has ended.
func (s *RootState) Pieces() int32 { return s.others.Load() + 1 }

// GiveUp ends the root before its pieces. Code that still works on pieces, behind the fence, can't end it again.
func (r Root) GiveUp() {
	r.Led.Pin()
	r.Led.Roots[r.I].others.Store(math.MinInt32 / 2)
}

// Add counts n more pieces of a root. The caller holds a piece.
func (r Root) Add(n int) {
	if r.Led != nil {
		r.Led.Roots[r.I].others.Add(int32(n))
	}
}

// End ends one piece of a root, and says whether it was the last one.
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
	return s.others.Add(-1) == -1 // a root that was given up has far fewer, and has ended already
}

// Explain sets the error of an unfinished root that has none.
func (r Root) Explain(err *engine.Error) {
	r.Led.Mu.Lock()
	defer r.Led.Mu.Unlock()
	if s := &r.Led.Roots[r.I]; s.Err == nil {
		s.Err = err
	}
}

// Worsen records the fate of a piece if it is the worst so far.
func (s *RootState) Worsen(f engine.Fate, err *engine.Error) {
	if f >= s.Worst {
		s.Worst = f
		if err != nil {
			s.Err = err
		}
	}
}

// ledgers are the open ledgers of a run, oldest first. They are safe for concurrent use.
type ledgers struct {
	mu         sync.Mutex
	head, tail *Ledger
}

// Add adds a ledger, and returns how many of its roots the source has already taken away.
func (s *ledgers) Add(l *Ledger) (lost int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := l.Acks; a != nil {
		for _, gone := range a.gone {
			lost += l.takeAway(gone)
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

// List returns all open ledgers, oldest first.
func (s *ledgers) List() (all []*Ledger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := s.head; l != nil; l = l.next {
		all = append(all, l)
	}
	return all
}

// EachRoot calls f for the root of m, or for the roots of a merge.
func EachRoot(m *engine.Message, f func(Root)) {
	for i := range msg(m).Of {
		EachRoot(&msg(m).Of[i], f)
	}
	if r := RootOf(m); len(msg(m).Of) == 0 && r.Led != nil {
		f(r)
	}
}

// positionNames are the names of metadata that say where in its source a message is.
var positionNames = []string{"path", "line", "topic", "partition", "offset", "key", "message_id"}

// Position says where in its source a message is, such as "input log, path access.log, line 17".
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

// Oldest returns the age and position of the oldest root that has not ended; 0: all have.
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

// oldest is the metadata of the first root that has not ended.
func (l *Ledger) oldest() (meta engine.Meta, ok bool) {
	for i := range l.Roots {
		if meta = l.MetaOf(i); l.Roots[i].Pieces() > 0 { // read before the check: LetGo comes after the end
			return meta, true
		}
	}
	return engine.Meta{}, false
}
