// Package history remembers the last messages of a process by an id, and what became of each, for `flowd trace`. Start at
// [History.Find].
package history

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/operations/observe"
)

// ErrOff says that a process keeps no history.
var ErrOff = errors.New("this flowd keeps no history (set service.history: {id: EXPRESSION} and restart it)")

// mostEvents bounds the events of a message: the first half and the last half are kept.
const mostEvents = 40

// mostText bounds the text of an id and of an error, in bytes.
const mostText = 512

// History observes the pipelines of a process. It keeps the ways of the last messages in memory, a few hundred bytes each. It
// is safe for concurrent use.
type History struct {
	id     expr.Expr
	shards [16]shard               // of the messages in flight, so that lanes seldom wait for each other
	ring   []atomic.Pointer[entry] // the last messages, in the order in which they were read
	next   atomic.Uint64           // how many were ever put into it
	spots  sync.Map                // of *engine.Spot: its *spot
}

// shard is a part of the messages in flight.
type shard struct {
	mu   sync.Mutex // guards the field below, and the entries of the shard
	open map[engine.Origin]*entry
}

// entry is a message. The mutex of its shard guards what changes.
type entry struct {
	origin       engine.Origin // only to be compared: it may have ended
	id, pipeline string
	input        string
	number       uint64
	read         time.Time
	events       []event
	left         int // events in the middle that are not kept
	ended        time.Time
	fate         engine.Fate
	err          *observe.Failure
}

// event is a passage.
type event struct {
	at   time.Duration // since the message was read
	spot *spot
	how  engine.Passage
	part int32
	more *more // nil: there is no more to say
}

// more is what few events have.
type more struct {
	err   *observe.Failure
	batch *observe.Batch
}

// spot is a copy of what events show of an engine.Spot.
type spot struct {
	kind            engine.SpotKind
	name, of, place string
}

// New makes a history of the last messages, by the value of an expression.
func New(id expr.Expr, messages int) *History {
	h := &History{id: id, ring: make([]atomic.Pointer[entry], messages)}
	for i := range h.shards {
		h.shards[i].open = map[engine.Origin]*entry{}
	}
	return h
}

var _ engine.Observer = (*History)(nil)

// shardOf returns the shard of a message.
func (h *History) shardOf(o engine.Origin) *shard { return &h.shards[o.Number()%uint64(len(h.shards))] }

// Wants asks for every message.
func (h *History) Wants(_ *engine.Spot, n int) int { return n }

// Before notes nothing.
func (h *History) Before(*engine.Spot, *engine.Message) any { return nil }

// After adds an event to the messages that m consists of.
func (h *History) After(at *engine.Spot, _ any, b *engine.Batch, m *engine.Message, how engine.Passage) {
	now := time.Now()
	if at.Kind == engine.InputSpot {
		h.begin(at, m, now)
	}
	e := event{spot: h.spotOf(at), how: how, part: int32(m.Part())}
	switch how {
	case engine.FailedThere:
		e.more = &more{err: failureOf(m.Err())}
	case engine.BatchedThere:
		e.more = &more{batch: &observe.Batch{Trigger: b.Trigger(), Size: b.Len(), Key: short(m.BatchKey())}}
	}
	var room [8]engine.Origin
	for _, o := range m.Origins(room[:0]) {
		s := h.shardOf(o)
		s.mu.Lock()
		if known := s.open[o]; known != nil {
			known.add(e, now)
		}
		s.mu.Unlock()
	}
}

// spotOf returns the copy of a spot.
func (h *History) spotOf(at *engine.Spot) *spot {
	if known, ok := h.spots.Load(at); ok {
		return known.(*spot)
	}
	s := &spot{kind: at.Kind, name: at.Name, of: at.Of}
	if at.Place.Pos.Line > 0 {
		s.place = at.Place.Pos.File + ":" + strconv.Itoa(at.Place.Pos.Line)
	}
	h.spots.Store(at, s)
	return s
}

// usualEvents is how many events a message has room for at first.
const usualEvents = 6

// begin adds a message that was read. One without an id is not kept.
func (h *History) begin(at *engine.Spot, m *engine.Message, now time.Time) {
	id, err := h.id.AppendBody(nil, m)
	if err != nil || string(id) == "null" {
		return
	}
	for _, o := range m.Origins(nil) {
		e := &entry{origin: o, id: short(string(id)), pipeline: at.Pipeline, input: o.Input(), number: o.Number(), read: now,
			events: make([]event, 0, usualEvents)}
		n := h.next.Add(1) - 1
		if old := h.ring[n%uint64(len(h.ring))].Swap(e); old != nil {
			h.forget(old)
		}
		s := h.shardOf(o)
		s.mu.Lock()
		s.open[o] = e
		s.mu.Unlock()
	}
}

// forget stops adding events to a message, which may never end: a reload reads unfinished messages again.
func (h *History) forget(old *entry) {
	s := &h.shards[old.number%uint64(len(h.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[old.origin] == old {
		delete(s.open, old.origin)
	}
}

// add adds an event.
func (e *entry) add(x event, now time.Time) {
	x.at = now.Sub(e.read)
	if len(e.events) == mostEvents {
		const half = mostEvents / 2
		copy(e.events[half:], e.events[half+1:])
		e.events = e.events[:mostEvents-1]
		e.left++
	}
	e.events = append(e.events, x)
}

// Ended notes how a message has ended.
func (h *History) Ended(o engine.Origin, f engine.Fate, err *engine.Error) {
	s := h.shardOf(o)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.open[o]
	if e == nil {
		return
	}
	delete(s.open, o)
	e.ended, e.fate = time.Now(), f
	if err != nil {
		e.err = failureOf(err)
	}
}

func failureOf(err *engine.Error) *observe.Failure {
	return &observe.Failure{Class: err.Class, Message: short(err.Error())}
}

func short(s string) string {
	if len(s) > mostText {
		return s[:mostText] + "…"
	}
	return s
}

// Trace is what the history knows of an id.
type Trace struct {
	Messages []Message `json:"messages"`       // the oldest first
	Kept     int       `json:"kept"`           // messages in the history
	Since    time.Time `json:"since,omitzero"` // when the oldest of them was read
}

// Message is the way of one message.
type Message struct {
	ID       string           `json:"id"`
	Pipeline string           `json:"pipeline"`
	Name     string           `json:"name"` // its input and its number there, such as "web 17"
	Read     time.Time        `json:"read"`
	Events   []Event          `json:"events"`
	Left     int              `json:"left_out,omitempty"` // events in the middle that were not kept
	Fate     string           `json:"fate"`               // in_flight: it has none yet
	Ended    time.Time        `json:"ended,omitzero"`
	Error    *observe.Failure `json:"error,omitempty"`
}

// Event is a passage of a message.
type Event struct {
	Seconds float64          `json:"seconds"` // since it was read
	Kind    engine.SpotKind  `json:"kind"`
	Name    string           `json:"name"`
	Of      string           `json:"of,omitempty"`
	Place   string           `json:"place,omitempty"`
	Passage engine.Passage   `json:"passage"`
	Part    int              `json:"part,omitempty"`
	Batch   *observe.Batch   `json:"batch,omitempty"`
	Error   *observe.Failure `json:"error,omitempty"`
}

// InFlight is the fate of a message that has not ended.
const InFlight = "in_flight"

// Find returns the messages with an id, as copies.
func (h *History) Find(id string) (t Trace) {
	id = short(id)
	t.Messages = []Message{}
	first, size := h.next.Load(), uint64(len(h.ring))
	for i := range size {
		e := h.ring[(first+i)%size].Load()
		if e == nil {
			continue
		}
		if t.Kept++; t.Since.IsZero() {
			t.Since = e.read
		}
		if e.id == id {
			s := &h.shards[e.number%uint64(len(h.shards))]
			s.mu.Lock()
			t.Messages = append(t.Messages, e.message())
			s.mu.Unlock()
		}
	}
	return t
}

// message copies what is known of a message. The mutex of its shard is held.
func (e *entry) message() Message {
	m := Message{ID: e.id, Pipeline: e.pipeline, Name: e.input + " " + strconv.FormatUint(e.number, 10), Read: e.read, Left: e.left,
		Fate: InFlight, Ended: e.ended, Events: []Event{}}
	if !e.ended.IsZero() {
		m.Fate = e.fate.String()
	}
	m.Error = e.err
	for _, x := range e.events {
		shown := Event{Seconds: x.at.Seconds(), Kind: x.spot.kind, Name: x.spot.name, Of: x.spot.of, Place: x.spot.place, Passage: x.how,
			Part: int(x.part)}
		if x.more != nil {
			shown.Batch, shown.Error = x.more.batch, x.more.err
		}
		m.Events = append(m.Events, shown)
	}
	return m
}
