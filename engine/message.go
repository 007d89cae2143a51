package engine

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// Message is one payload on its way through a pipeline. A pointer to it is valid until the call that passed it returns,
// and one goroutine may use it at a time. Bytes and strings that were read from it never change and may be kept.
type Message struct {
	Key  []byte // order key; nil: the message has no order
	Ref  uint64 // the input's own handle, such as a delivery tag, an offset or an index
	Meta Meta

	Attempt int // how often the source has delivered it, from 1; 0: unknown

	in Cell
}

// Document is the document whose fields expressions name. That of a merge is the merged payload.
func (m *Message) Document() *doc.Doc { return &m.in.Doc }

// Interrupted returns an error if the call that works on the message is over, so that the work should end. Expressions
// ask it.
func (m *Message) Interrupted() error {
	if a := m.in.Doc.Arena(); a != nil && a.Call != nil {
		return a.Call.Err()
	}
	return nil
}

// Bytes returns the payload with all edits. The bytes never change and may be kept.
func (m *Message) Bytes() []byte { return m.in.Doc.Bytes() }

// Size is the length of the payload in bytes.
func (m *Message) Size() int { return len(m.in.Doc.Bytes()) }

// SetBytes replaces the payload. body must not change afterwards.
func (m *Message) SetBytes(body []byte) {
	a := m.in.Doc.Arena()
	a.Spend(len(body))
	m.in.Doc.Reset(body, a)
}

// Get returns the value at a path of the document, or nil if there is none. The error has class decode if the payload is
// not a document.
func (m *Message) Get(p doc.Path) (any, error) {
	v, err := m.in.Doc.Get(p)
	return v, decodeError(err)
}

// Set puts a value at a path. Parents that are missing or null become objects.
func (m *Message) Set(p doc.Path, v any) error { return decodeError(m.in.Doc.Set(p, v)) }

// Unset removes the value at a path.
func (m *Message) Unset(p doc.Path) error { return decodeError(m.in.Doc.Unset(p)) }

// Value returns the whole document, which the caller must not change.
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

// Doc is the document itself, for operations other than Get and Set. Its errors have no class.
func (m *Message) Doc() *doc.Doc { return &m.in.Doc }

// Drop ends the message with the fate Filtered.
func (m *Message) Drop() { m.in.State = inside.Dropped }

// Fail ends the message as failed. A plain error is permanent in a step and transient in an output. [Errorf] and
// [WithClass] make errors of other classes.
func (m *Message) Fail(err error) {
	m.in.State = inside.Failed
	m.in.Err = ErrorOf(err, "")
}

// Done says in an output's Write that the message is safe, even if the write returns an error.
func (m *Message) Done() { m.in.State = inside.Done }

// EndAs ends the message with a fate that was decided elsewhere, such as in the pipeline to which an output has handed it.
func (m *Message) EndAs(f Fate) { m.in.State, m.in.Fate = inside.Ended, f }

// Err returns why the message failed, or nil. In a dead-letter output it is the reason of the dead letter.
func (m *Message) Err() *Error { return m.in.Err }

// DeadLetter says whether the message is a dead letter.
func (m *Message) DeadLetter() bool { return m.in.Dead }

// Dropped says whether a step has dropped the message.
func (m *Message) Dropped() bool { return m.in.State == inside.Dropped }

// Part is the message's number among the parts of a split, from 1, or 0.
func (m *Message) Part() int { return int(m.in.Part) }

// BatchKey is the batcher's key of the message as canonical JSON, or "" if it has none.
func (m *Message) BatchKey() string { return m.in.BatchKey }

// Serial is a number that identifies the message in an Output's Write; elsewhere it is 0. A message keeps it at every
// attempt. No other message of this process, not even a copy or part, has it before four billion others.
func (m *Message) Serial() uint32 { return m.in.Serial }

// Input is the name of the input that has read the message, or "".
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

// Park takes the message out of the running call. It continues after this step, or ends if the call is an output's Write,
// when resume is called, once, from any goroutine. edit, which may be nil, is called with the message first. Its changes
// count as the work of this step, and its error fails the message.
func (m *Message) Park() (resume func(edit func(*Message) error)) {
	p := &Parking{}
	m.in.State, m.in.Parking = inside.Parked, p
	return p.resume
}

// ParkBehind is like Park, for a message that waits until others of its pipeline have ended. While it waits, those can
// get what they need, such as room for their parts.
func (m *Message) ParkBehind() (resume func(edit func(*Message) error)) {
	resume = m.Park()
	m.in.Parking.Behind = true
	return resume
}

// Delay parks the message for d. It then continues after this step.
func (m *Message) Delay(d time.Duration) {
	m.Park()
	m.in.Parking.Delay = d
}

// Stake makes s learn how the message's root ends: s.Settle is called with ref.
func (m *Message) Stake(s Settler, ref uint64) { m.stake(s, ref, DeadLettered) }

// StakeOnDelivery is like Stake, but a dead-lettered root counts as rolled back: it has failed, and may come again. s is
// told when the message fails, before its dead letter is written, unless the root has other pieces.
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

// Taken says whether the source has taken m away; see [Holding]. A merge is taken away when all of its parts are. Outputs
// ask if their writes are only valid while the source lends the message.
func (m *Message) Taken() bool {
	for i := range m.in.Of {
		if !m.in.Of[i].Taken() {
			return false
		}
	}
	return len(m.in.Of) > 0 || m.in.Origin.read != nil && m.in.Origin.read.Taken(m.in.Origin.i)
}

// Origin identifies a root: the parts and copies of a message have the origin of the message. Origins can be compared.
type Origin struct {
	read read // nil: no input has read it
	i    uint32
}

// OriginOf identifies a root by its Read and its number in it. It is for the engine.
func OriginOf(_ inside.Key, r read, i uint32) Origin { return Origin{r, i} }

// String returns the name of the input and the number of the message in the order in which the input's instance has read
// it, such as "web 17".
func (o Origin) String() string {
	if o.read == nil {
		return ""
	}
	return o.read.Input() + " " + strconv.FormatUint(o.Number(), 10)
}

// Input is the name of the input that has read the message, or "".
func (o Origin) Input() string {
	if o.read == nil {
		return ""
	}
	return o.read.Input()
}

// Number is the number of the message in the order in which the input's instance has read it, from 1; 0: no input has.
func (o Origin) Number() uint64 {
	if o.read == nil {
		return 0
	}
	return o.read.Number(o.i)
}

// KeyWaits knows which messages of a pipeline wait for others with the same order key.
type KeyWaits interface {
	// Each calls f for each message that waits and each message that it waits for, with their roots.
	Each(f func(waits, behind Origin))
}

// KeyWaits returns the KeyWaits of the pipeline that has read the message; nil: it keeps no order.
func (o Origin) KeyWaits() KeyWaits {
	if o.read == nil {
		return nil
	}
	return o.read.KeyWaits()
}

// read is the call of an Input's Read that brought a message.
type read interface {
	Input() string // by name
	At() time.Time
	Number(i uint32) uint64                            // of the i-th message among all that the instance has read, from 1
	Counts() *Counters                                 // of its pipeline; nil: it is that of another process
	Moved(i uint32, from, to []byte)                   // the payload of the i-th message, in memory
	Stake(i uint32, s Settler, ref uint64, worst Fate) // on the i-th message; worst still counts as committed
	Taken(i uint32) bool                               // its source has taken the i-th message away
	KeyWaits() KeyWaits                                // see Origin.KeyWaits
	Followed() bool                                    // a tracer follows at least one of the messages
	Trace(i uint32) *Trace                             // of the i-th message; nil: it is not followed
	SetTrace(i uint32, t *Trace)                       // of the i-th message, unless it has one
}

// Origins appends the origin of m, or those of a merge's parts, to dst. A message that no input has read has none. A
// stake on m gets one result per origin.
func (m *Message) Origins(dst []Origin) []Origin {
	for i := range m.in.Of {
		dst = m.in.Of[i].Origins(dst)
	}
	if len(m.in.Of) == 0 && m.in.Origin.read != nil {
		dst = append(dst, m.in.Origin)
	}
	return dst
}

// Within makes m, in a batch for inner steps, a part of outer. It gets the metadata, notes and vars of outer, and its
// stakes get the result of outer's root.
func (m *Message) Within(outer *Message) {
	if r := outer.in.Rare; r != nil && (r.Scope != nil || r.Notes != Notes{}) {
		m.in.setRare(func(x *rare) { x.Notes, x.Scope = r.Notes, r.Scope })
	}
	m.SetVars(outer.Vars())
	m.Meta, m.in.Origin, m.in.Of = outer.Meta, outer.in.Origin, outer.heirs()
	metered(m.in.Doc.Arena(), outer)
}

// decodeError gives an error of a document its class.
func decodeError(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Class: classOf(err, Permanent), Err: err}
}

// classOf is the class that follows from an error itself, or fallback.
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
