// Package history remembers the last messages of a process by an id, and what became of each, for `flowd trace`. Start at
// [History.Find].
package history

import (
	"errors"
	"strconv"
	"sync"
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
	id expr.Expr

	mu   sync.Mutex // guards the fields below
	open map[engine.Origin]*entry
	ring []*entry // the last messages, in the order in which they were read
	next int
}

// entry is a message.
type entry struct {
	origin             engine.Origin
	id, pipeline, name string
	read               time.Time
	events             []event
	left               int // events in the middle that are not kept
	ended              time.Time
	fate               engine.Fate
	err                *observe.Failure
}

// event is a passage. Its spot is a copy, so that it keeps no old plan in memory.
type event struct {
	at    time.Duration // since the message was read
	spot  spot
	how   engine.Passage
	part  int
	err   *observe.Failure
	batch *observe.Batch
}

type spot struct {
	kind            engine.SpotKind
	name, of, place string
}

// New makes a history of the last messages, by the value of an expression.
func New(id expr.Expr, messages int) *History {
	return &History{id: id, open: map[engine.Origin]*entry{}, ring: make([]*entry, messages)}
}

var _ engine.Observer = (*History)(nil)

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
	e := event{spot: spot{at.Kind, at.Name, at.Of, placeOf(at)}, how: how, part: m.Part()}
	if how == engine.FailedThere {
		e.err = failureOf(m.Err())
	}
	if how == engine.BatchedThere {
		e.batch = &observe.Batch{Trigger: b.Trigger(), Size: b.Len(), Key: short(m.BatchKey())}
	}
	var room [8]engine.Origin
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range m.Origins(room[:0]) {
		if known := h.open[o]; known != nil {
			known.add(e, now)
		}
	}
}

// begin adds a message that was read. One without an id is not kept.
func (h *History) begin(at *engine.Spot, m *engine.Message, now time.Time) {
	id, err := h.id.AppendBody(nil, m)
	if err != nil || string(id) == "null" {
		return
	}
	for _, o := range m.Origins(nil) {
		e := &entry{origin: o, id: short(string(id)), pipeline: at.Pipeline, name: o.String(), read: now}
		h.mu.Lock()
		if old := h.ring[h.next]; old != nil && h.open[old.origin] == old {
			delete(h.open, old.origin) // it may never end: a reload reads unfinished messages again
		}
		h.open[o] = e
		h.ring[h.next] = e
		h.next = (h.next + 1) % len(h.ring)
		h.mu.Unlock()
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
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.open[o]
	if e == nil {
		return
	}
	delete(h.open, o)
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

func placeOf(at *engine.Spot) string {
	if at.Place.Pos.Line == 0 {
		return ""
	}
	return at.Place.Pos.File + ":" + strconv.Itoa(at.Place.Pos.Line)
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
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.ring {
		e := h.ring[(h.next+i)%len(h.ring)]
		if e == nil {
			continue
		}
		if t.Kept++; t.Since.IsZero() {
			t.Since = e.read
		}
		if e.id == id {
			t.Messages = append(t.Messages, e.message())
		}
	}
	return t
}

func (e *entry) message() Message {
	m := Message{ID: e.id, Pipeline: e.pipeline, Name: e.name, Read: e.read, Left: e.left, Fate: InFlight, Ended: e.ended,
		Events: []Event{}}
	if !e.ended.IsZero() {
		m.Fate = e.fate.String()
	}
	if e.err != nil {
		copied := *e.err
		m.Error = &copied
	}
	for _, x := range e.events {
		shown := Event{x.at.Seconds(), x.spot.kind, x.spot.name, x.spot.of, x.spot.place, x.how, x.part, x.batch, nil}
		if x.err != nil {
			copied := *x.err
			shown.Error = &copied
		}
		m.Events = append(m.Events, shown)
	}
	return m
}
