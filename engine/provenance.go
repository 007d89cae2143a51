package engine

import (
	"iter"
	"time"
)

// Provenance is what expressions know of a message apart from its payload and metadata, for
// code that runs steps on it in another process.
type Provenance struct {
	Input      string
	ReceivedAt time.Time
	Attempt    int    // the source's count of deliveries; 0 is unknown
	BatchKey   string // see Message.BatchKey
	BatchIndex int    // its place in Batch
	Err        *Error // of a dead letter; else nil
	Vars       Vars
	Batch      *Likeness
}

// Likeness is what expressions know of a batch that a batcher made.
type Likeness struct {
	Batcher string
	Trigger Trigger
	Size    int // messages when it left its batcher
	Window  *Window
}

// Provenance says where m is from.
func (m *Message) Provenance() Provenance {
	o := Provenance{Input: m.Input(), ReceivedAt: m.ReceivedAt(), Attempt: m.Attempt, BatchKey: m.in.BatchKey, BatchIndex: int(m.in.Index),
		Err: m.in.Err, Vars: m.Vars()}
	if b := m.in.Batch; b != nil {
		o.Batch = &Likeness{Batcher: b.in.From, Trigger: b.in.Trigger, Size: b.in.Size, Window: b.in.Window}
	}
	return o
}

// AddFrom is Add for a message from elsewhere, to a batch for inner steps.
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
func (elsewhere) KeyWaits() KeyWaits                  { return nil }
func (elsewhere) Moved(uint32, []byte, []byte)        {}
func (elsewhere) Stake(uint32, Settler, uint64, Fate) {} // the other process has told nobody of the end
func (elsewhere) Taken(uint32) bool                   { return false }

// Parts yields the Refs of the messages of a batch for inner steps that m was made
// of, or its own: what the steps have merged has Ref 0, what was merged before them
// has not.
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
