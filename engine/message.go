package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
)

// Message is one payload on its way. It lies in a slab: the pointer is valid
// until the call that showed it returns. Bytes and strings read from it never
// change and may be kept.
type Message struct {
	Key  []byte // order key; nil is unordered
	Ref  uint64 // the input's handle: delivery tag, offset, index
	Meta Meta

	Attempt int // the source's count of deliveries, from 1; 0 is unknown

	doc      doc.Doc
	orig     []byte // payload as received or split
	batchKey string // canonical text of the batcher's key; "": none
	root     root
	err      *Error
	of       []Message // a merge's parts, as they were before it
	parked   *parking
	trial    *trial // of one that is tried again
	block    *frame // that it is in; nil: none
	owns     *claim // where it holds its order key; nil: it does not
	via      *via   // how it came to the output, where that is a composite
	batch    *Batch // of a batch that a batcher made
	pc       int32  // the next instruction of the program
	back     int32  // in a group: where it goes on in the lane
	part     int32  // its number among the parts of a split, from 1; 0: not a part
	state    state
	stage    stage // where pc counts
	dead     bool  // a dead letter
	credits  int8  // messages of credit it holds
	groups   int8  // that it has left, or gone by
	fate     Fate  // of one that EndAs ended
	serial   uint32
	charge   int // bytes of credit it holds
}

// state is where a message is within the call that shows it.
type state uint8

const (
	live      state = iota
	dropped         // ended by a step on purpose: filtered
	discarded       // ended by `on_error: drop`
	failed          // ended by an error
	done            // an output: safe
	parked          // out of the slab, goes on later
	consumed        // split or merged: its successors carry on
	moved           // now lies in another slab
	vacant          // its place is for another: see Batch.Order
	ended           // its fate is known: see Message.fate
	waits           // to be tried again: see Message.trial
)

// stage is where a message that goes on takes up again.
type stage uint8

const (
	fresh    stage = iota // at the beginning, or, in a lane, at its pc
	inInput               // in its input's own steps, at its pc
	inBatch               // in its batcher's steps, at its pc
	inOutput              // in its output's own steps, at its pc
	atWrite               // behind all steps
)

// Document is the document whose fields expressions name: after a merge that of the
// merged payload.
func (m *Message) Document() *doc.Doc { return &m.doc }

// Interrupted is why work on the message should end, or nil: the call that it is part
// of is over. Expressions ask.
func (m *Message) Interrupted() error {
	if a := m.doc.Arena(); a != nil && a.Call != nil {
		return a.Call.Err()
	}
	return nil
}

// Bytes is the payload with all edits. It never changes and may be kept.
func (m *Message) Bytes() []byte { return m.doc.Bytes() }

// Size is the length of the payload in bytes.
func (m *Message) Size() int { return len(m.doc.Bytes()) }

// SetBytes replaces the payload; body must not change afterwards.
func (m *Message) SetBytes(body []byte) {
	a := m.doc.Arena()
	a.Spend(len(body))
	m.doc.Reset(body, a)
}

// Get is the value at a path of the document: nil when there is none. The error
// has class decode when the payload is no document.
func (m *Message) Get(p doc.Path) (any, error) {
	v, err := m.doc.Get(p)
	return v, decodeError(err)
}

// Set puts a value at a path; missing or null parents become objects.
func (m *Message) Set(p doc.Path, v any) error { return decodeError(m.doc.Set(p, v)) }

// Unset removes what is at a path.
func (m *Message) Unset(p doc.Path) error { return decodeError(m.doc.Unset(p)) }

// Value is the whole document, for reading.
func (m *Message) Value() (any, error) {
	v, err := m.doc.Value()
	return v, decodeError(err)
}

// SetValue makes v the whole document.
func (m *Message) SetValue(v any) error {
	if err := m.doc.SetValue(v); err != nil {
		return WithClass(Permanent, err)
	}
	return nil
}

// Doc is the document itself, for what Get and Set do not cover; its errors
// carry no class.
func (m *Message) Doc() *doc.Doc { return &m.doc }

// Drop ends the message as filtered.
func (m *Message) Drop() { m.state = dropped }

// Fail ends the message as failed. A plain error is permanent in a step and
// transient in an output; [Errorf] and [WithClass] say otherwise.
func (m *Message) Fail(err error) {
	m.state = failed
	m.err = classified(err, "")
}

// Done says, in an output's Write, that this message is safe whatever the write returns.
func (m *Message) Done() { m.state = done }

// EndAs ends the message with a fate that was decided elsewhere, for what hands
// messages to another pipeline.
func (m *Message) EndAs(f Fate) { m.state, m.fate = ended, f }

// Err is why the message failed, or nil. A dead-letter output sees the reason
// of each message that it writes.
func (m *Message) Err() *Error { return m.err }

// Dropped says whether a step has dropped the message.
func (m *Message) Dropped() bool { return m.state == dropped }

// Part is the message's number among the parts of a split, from 1, or 0.
func (m *Message) Part() int { return int(m.part) }

// BatchKey is a canonical text of the batcher's key: JSON, or "" without a key.
func (m *Message) BatchKey() string { return m.batchKey }

// Serial is, in an Output's Write, a number that the message keeps at every attempt, and
// that no other of this process has within the next four billion, its own copies and
// parts included. Else it is 0.
func (m *Message) Serial() uint32 { return m.serial }

// Input names the input that the message came from.
func (m *Message) Input() string {
	if r := m.firstRoot(); r.led != nil {
		return r.led.input
	}
	return ""
}

// ReceivedAt is when the message was read.
func (m *Message) ReceivedAt() time.Time {
	if r := m.firstRoot(); r.led != nil {
		return r.led.at
	}
	return time.Time{}
}

// heirs stand for the roots and order keys of a merge in each part of its split, with
// the Refs that Parts yields.
func (m *Message) heirs() (all []Message) {
	for i := range m.of {
		p := &m.of[i]
		from := p.heirs()
		if len(p.of) == 0 {
			from = []Message{{root: p.root, Key: p.Key, owns: p.owns, Ref: p.Ref}}
		}
		for _, h := range from {
			h.Ref = cmp.Or(m.Ref, h.Ref)
			all = append(all, h)
		}
	}
	return all
}

func (m *Message) firstRoot() root {
	if m.root.led == nil && len(m.of) > 0 {
		return m.of[0].firstRoot()
	}
	return m.root
}

// Park takes the message out of the running call: it goes on behind this step
// (or ends, in an output) when resume is called, once, from any goroutine. edit,
// which may be nil, sees the message first: what it does counts as this step's
// work, and its error fails the message.
func (m *Message) Park() (resume func(edit func(*Message) error)) {
	p := &parking{}
	m.state, m.parked = parked, p
	return p.resume
}

// Delay takes the message out of the running call: it goes on behind this step
// after d. It is Park with the engine's own clock, for limits that reserve.
func (m *Message) Delay(d time.Duration) {
	m.Park()
	m.parked.delay = d
}

// Stake asks that s learn how the message's root ended, under the number ref.
func (m *Message) Stake(s Settler, ref uint64) { m.stake(s, ref, DeadLettered) }

// StakeOnDelivery is Stake that counts a dead-lettered root among those rolled back: it
// has failed, and may come again. s is told when it fails, not when its dead letter is
// written, unless it has other pieces.
func (m *Message) StakeOnDelivery(s Settler, ref uint64) { m.stake(s, ref, Delivered) }

func (m *Message) stake(s Settler, ref uint64, worst Fate) {
	for i := range m.of {
		m.of[i].stake(s, ref, worst)
	}
	if m.root.led != nil {
		m.root.led.stake(m.root.i, s, ref, worst)
	}
}

// Origin tells the messages of one root from those of others: all parts of a
// split have the same.
type Origin struct{ root root }

// Origins appends the origin of m, or those of a merge's parts, to dst; nothing
// for a message that no input has read. A stake on m is told once for each.
func (m *Message) Origins(dst []Origin) []Origin {
	for i := range m.of {
		dst = m.of[i].Origins(dst)
	}
	if len(m.of) == 0 && m.root.led != nil {
		dst = append(dst, Origin{m.root})
	}
	return dst
}

// Within makes m, in a batch for inner steps, a part of outer: it has its
// metadata, and its stakes are told how outer's root ended.
func (m *Message) Within(outer *Message) {
	m.Meta, m.root, m.of = outer.Meta, outer.root, outer.heirs()
	metered(m.doc.Arena(), outer)
}

// decodeError gives the errors of documents their class.
func decodeError(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Class: classOf(err, Permanent), Err: err}
}

// classOf is the class that an error has by itself.
func classOf(err error, fallback Class) Class {
	var syntax *doc.SyntaxError
	var failed *expr.Error
	switch {
	case errors.As(err, &syntax):
		return Decode
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.As(err, &failed):
		return Expression
	}
	return fallback
}
