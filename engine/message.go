package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// Message is one payload on its way. It is in a slab: the pointer is valid until the call
// that passed it returns. Bytes and strings read from it never change and may be kept.
type Message struct {
	Key  []byte // order key; nil is unordered
	Ref  uint64 // the input's handle: delivery tag, offset, index
	Meta Meta

	Attempt int // the source's count of deliveries, from 1; 0 is unknown

	in Cell
}

// Document is the document whose fields expressions name: after a merge that of the
// merged payload.
func (m *Message) Document() *doc.Doc { return &m.in.Doc }

// Interrupted is why work on the message should end, or nil: the call that it is part
// of is over. Expressions ask.
func (m *Message) Interrupted() error {
	if a := m.in.Doc.Arena(); a != nil && a.Call != nil {
		return a.Call.Err()
	}
	return nil
}

// Bytes is the payload with all edits. It never changes and may be kept.
func (m *Message) Bytes() []byte { return m.in.Doc.Bytes() }

// Size is the length of the payload in bytes.
func (m *Message) Size() int { return len(m.in.Doc.Bytes()) }

// SetBytes replaces the payload; body must not change afterwards.
func (m *Message) SetBytes(body []byte) {
	a := m.in.Doc.Arena()
	a.Spend(len(body))
	m.in.Doc.Reset(body, a)
}

// Get is the value at a path of the document: nil when there is none. The error has class
// decode when the payload is not a document.
func (m *Message) Get(p doc.Path) (any, error) {
	v, err := m.in.Doc.Get(p)
	return v, decodeError(err)
}

// Set puts a value at a path; missing or null parents become objects.
func (m *Message) Set(p doc.Path, v any) error { return decodeError(m.in.Doc.Set(p, v)) }

// Unset removes what is at a path.
func (m *Message) Unset(p doc.Path) error { return decodeError(m.in.Doc.Unset(p)) }

// Value is the whole document, for reading.
func (m *Message) Value() (any, error) {
	v, err := m.in.Doc.Value()
	return v, decodeError(err)
}

// SetValue makes v the whole document.
func (m *Message) SetValue(v any) error {
	if err := m.in.Doc.SetValue(v); err != nil {
		return WithClass(Permanent, err)
	}
	return nil
}

// Doc is the document itself, for what Get and Set do not cover; its errors
// carry no class.
func (m *Message) Doc() *doc.Doc { return &m.in.Doc }

// Drop ends the message as filtered.
func (m *Message) Drop() { m.in.State = inside.Dropped }

// Fail ends the message as failed. A plain error is permanent in a step and
// transient in an output; [Errorf] and [WithClass] say otherwise.
func (m *Message) Fail(err error) {
	m.in.State = inside.Failed
	m.in.Err = ErrorOf(err, "")
}

// Done says, in an output's Write, that this message is safe whatever the write returns.
func (m *Message) Done() { m.in.State = inside.Done }

// EndAs ends the message with a fate that was decided elsewhere, for what hands
// messages to another pipeline.
func (m *Message) EndAs(f Fate) { m.in.State, m.in.Fate = inside.Ended, f }

// Err is why the message failed, or nil. A dead-letter output sees the reason
// of each message that it writes.
func (m *Message) Err() *Error { return m.in.Err }

// DeadLetter says whether the message is on its way to a dead-letter output.
func (m *Message) DeadLetter() bool { return m.in.Dead }

// Dropped says whether a step has dropped the message.
func (m *Message) Dropped() bool { return m.in.State == inside.Dropped }

// Part is the message's number among the parts of a split, from 1, or 0.
func (m *Message) Part() int { return int(m.in.Part) }

// BatchKey is a canonical text of the batcher's key: JSON, or "" without a key.
func (m *Message) BatchKey() string { return m.in.BatchKey }

// Serial is, in an Output's Write, a number that the message keeps at every attempt, and
// that no other of this process has within the next four billion, its own copies and
// parts included. Else it is 0.
func (m *Message) Serial() uint32 { return m.in.Serial }

// Input names the input that the message came from.
func (m *Message) Input() string {
	if o := m.in.First().Origin; o.read != nil {
		return o.read.Input()
	}
	return ""
}

// ReceivedAt is when the message was read.
func (m *Message) ReceivedAt() time.Time {
	if o := m.in.First().Origin; o.read != nil {
		return o.read.At()
	}
	return time.Time{}
}

// heir stands for the root and the order key of m.
func (m *Message) heir() Message {
	h := Message{Key: m.Key, Ref: m.Ref}
	h.in.Origin = m.in.Origin
	if m.in.Rare != nil {
		h.in.setRare(func(r *rare) { r.Claim = m.in.Rare.Claim })
	}
	return h
}

// heirs stand for the roots and order keys of a merge in each part of its split, with the Refs that Parts yields.
func (m *Message) heirs() (all []Message) {
	for i := range m.in.Of {
		p := &m.in.Of[i]
		from := p.heirs()
		if len(p.in.Of) == 0 {
			from = []Message{p.heir()}
		}
		for _, h := range from {
			h.Ref = cmp.Or(m.Ref, h.Ref)
			all = append(all, h)
		}
	}
	return all
}

// Park takes the message out of the running call: it continues after this step (or ends, in
// an output) when resume is called, once, from any goroutine. edit, which may be nil, sees
// the message first: what it does counts as this step's work, and its error fails the
// message.
func (m *Message) Park() (resume func(edit func(*Message) error)) {
	p := &Parking{}
	m.in.State, m.in.Parking = inside.Parked, p
	return p.resume
}

// ParkBehind is Park for a message that waits until others of its pipeline have ended. What they need to get there, such
// as room for their parts, does not wait for this one.
func (m *Message) ParkBehind() (resume func(edit func(*Message) error)) {
	resume = m.Park()
	m.in.Parking.Behind = true
	return resume
}

// Delay takes the message out of the running call: after d it continues after this step. It
// is Park with the engine's own clock, for limits that reserve.
func (m *Message) Delay(d time.Duration) {
	m.Park()
	m.in.Parking.Delay = d
}

// Stake asks that s learn how the message's root ended, under the number ref.
func (m *Message) Stake(s Settler, ref uint64) { m.stake(s, ref, DeadLettered) }

// StakeOnDelivery is Stake that counts a dead-lettered root among those rolled back: it
// has failed, and may come again. s is told when it fails, not when its dead letter is
// written, unless it has other pieces.
func (m *Message) StakeOnDelivery(s Settler, ref uint64) {
	m.stake(s, ref, Delivered)
	if scope := m.scope(); scope != nil {
		if by, ok := s.(Undoer); ok {
			scope.add(scoped{by, ref})
		}
	}
}

func (m *Message) stake(s Settler, ref uint64, worst Fate) {
	for i := range m.in.Of {
		m.in.Of[i].stake(s, ref, worst)
	}
	if m.in.Origin.read != nil {
		m.in.Origin.read.Stake(m.in.Origin.i, s, ref, worst)
	}
}

// Taken says that the source has taken m away, all of it, since the call began: see [Holding]. An output asks whose
// writes depend on what a source still lends.
func (m *Message) Taken() bool {
	for i := range m.in.Of {
		if !m.in.Of[i].Taken() {
			return false
		}
	}
	return len(m.in.Of) > 0 || m.in.Origin.read != nil && m.in.Origin.read.Taken(m.in.Origin.i)
}

// Origin distinguishes the messages of one root from those of others: all parts of a split
// have the same.
type Origin struct {
	read read // nil: no input has read it
	i    uint32
}

// KeyWaits knows which messages of a pipeline wait for others because they have the same order key.
type KeyWaits interface {
	// Each calls f with the root of a message that waits and that of one which it waits for, for all of them.
	Each(f func(waits, behind Origin))
}

// KeyWaits are those of the pipeline that has read the message; nil: it keeps no order.
func (o Origin) KeyWaits() KeyWaits {
	if o.read == nil {
		return nil
	}
	return o.read.KeyWaits()
}

// read is a call of an Input's Read, to its messages.
type read interface {
	Input() string // by name
	At() time.Time
	Counts() *Counters                                 // of its pipeline; nil: it is that of another process
	Moved(i uint32, from, to []byte)                   // the payload of the i-th message, in memory
	Stake(i uint32, s Settler, ref uint64, worst Fate) // on the i-th message; worst still counts as committed
	Taken(i uint32) bool                               // its source has taken the i-th message away
	KeyWaits() KeyWaits                                // see Origin.KeyWaits
}

// Origins appends the origin of m, or those of a merge's parts, to dst; nothing for a
// message that no input has read. A stake on m gets the result once for each.
func (m *Message) Origins(dst []Origin) []Origin {
	for i := range m.in.Of {
		dst = m.in.Of[i].Origins(dst)
	}
	if len(m.in.Of) == 0 && m.in.Origin.read != nil {
		dst = append(dst, m.in.Origin)
	}
	return dst
}

// Within makes m, in a batch for inner steps, a part of outer: it has its metadata, notes and vars, and
// the result of outer's root is reported to its stakes.
func (m *Message) Within(outer *Message) {
	if r := outer.in.Rare; r != nil && (r.Scope != nil || r.Notes != Notes{}) {
		m.in.setRare(func(x *rare) { x.Notes, x.Scope = r.Notes, r.Scope })
	}
	m.SetVars(outer.Vars())
	m.Meta, m.in.Origin, m.in.Of = outer.Meta, outer.in.Origin, outer.heirs()
	metered(m.in.Doc.Arena(), outer)
}

// decodeError gives the errors of documents their class.
func decodeError(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Class: classOf(err, Permanent), Err: err}
}

// classOf is the class that an error itself has.
func classOf(err error, fallback Class) Class {
	var syntax *doc.SyntaxError
	var value *doc.ValueError
	var failed *expr.Error
	switch {
	case errors.As(err, &syntax):
		return Decode
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.As(err, &failed):
		return Expression
	case errors.As(err, &value):
		return Permanent
	}
	return fallback
}
