package engine

import (
	"iter"
	"time"
)

// Provenance is everything that expressions can read of a message besides its payload and metadata, for code that runs
// steps on the message in another process.
type Provenance struct {
	Input      string
	ReceivedAt time.Time
	Attempt    int    // how often the source has delivered it; 0: unknown
	BatchKey   string // see Message.BatchKey
	BatchIndex int    // its place in Batch
	Err        *Error // of a dead letter; else nil
	Vars       Vars
	Batch      *Likeness
}

// Likeness is everything that expressions can read of a batch.
type Likeness struct {
	Batcher string
	Trigger Trigger
	Size    int // messages when it left its batcher
	Window  *Window
}

// Provenance returns the provenance of m.
func (m *Message) Provenance() Provenance {
	o := Provenance{Input: m.Input(), ReceivedAt: m.ReceivedAt(), Attempt: m.Attempt, BatchKey: m.in.BatchKey, BatchIndex: int(m.in.Index),
		Err: m.in.Err, Vars: m.Vars()}
	if b := m.in.Batch; b != nil {
		o.Batch = &Likeness{Batcher: b.in.From, Trigger: b.in.Trigger, Size: b.in.Size, Window: b.in.Window}
	}
	return o
}

// AddFrom adds a message of another process to a batch for inner steps.
func (b *Batch) AddFrom(body []byte, o Provenance) *Message {
	m := b.Add(body)
	m.Attempt, m.in.BatchKey, m.in.Index, m.in.Err = o.Attempt, o.BatchKey, int32(o.BatchIndex), o.Err
	m.in.Origin.read = elsewhere{o.Input, o.ReceivedAt}
	m.SetVars(o.Vars)
	if l := o.Batch; l != nil {
		b.in.From, b.in.Trigger, b.in.Size, b.in.Window = l.Batcher, l.Trigger, l.Size, l.Window
		m.in.Batch = b
	}
	return m
}

// elsewhere is a Read of another process.
type elsewhere struct {
	input string
	at    time.Time
}

func (e elsewhere) Input() string                     { return e.input }
func (e elsewhere) At() time.Time                     { return e.at }
func (elsewhere) Counts() *Counters                   { return nil }
func (elsewhere) Number(i uint32) uint64              { return uint64(i) + 1 }
func (elsewhere) KeyWaits() KeyWaits                  { return nil }
func (elsewhere) Moved(uint32, []byte, []byte)        {}
func (elsewhere) Stake(uint32, Settler, uint64, Fate) {} // the process that has read the message reports its end
func (elsewhere) Taken(uint32) bool                   { return false }
func (elsewhere) Followed() bool                      { return false }
func (elsewhere) Trace(uint32) *Trace                 { return nil }
func (elsewhere) SetTrace(uint32, *Trace)             {}

// Parts yields the Refs of the messages of which inner steps have made m: those of the messages that the steps have
// merged, or its own. A merge made by the steps has Ref 0; a merge made before has the Ref that it was given.
func (m *Message) Parts() iter.Seq[uint64] {
	return func(yield func(uint64) bool) { m.eachPart(yield) }
}

func (m *Message) eachPart(yield func(uint64) bool) bool {
	if m.Ref != 0 || len(m.in.Of) == 0 {
		return yield(m.Ref)
	}
	for i := range m.in.Of {
		if !m.in.Of[i].eachPart(yield) {
			return false
		}
	}
	return true
}
