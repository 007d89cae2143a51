package engine

import (
	"bytes"
	"time"
)

// Frozen is a copy of m on which expressions can be evaluated whenever that is, also when m has ended. It shares no
// memory with m but its metadata, notes and vars; nothing else can be done with it.
func (m *Message) Frozen() *Message {
	c := &Message{Key: m.Key, Ref: m.Ref, Meta: m.Meta, Attempt: m.Attempt}
	c.in.Doc.Reset(bytes.Clone(m.Bytes()), nil)
	c.in.Err, c.in.Part, c.in.BatchKey = m.in.Err, m.in.Part, m.in.BatchKey
	then := &past{input: m.Input(), at: m.ReceivedAt()}
	if o := m.in.First().Origin; o.read != nil {
		then.counts = o.read.Counts()
	}
	c.in.Origin = Origin{read: then}
	c.SetNotes(m.Notes())
	c.SetVars(m.Vars())
	return c
}

// past is a call of Read that may be over.
type past struct {
	input  string
	at     time.Time
	counts *Counters
}

func (p *past) Input() string                     { return p.input }
func (p *past) At() time.Time                     { return p.at }
func (p *past) Counts() *Counters                 { return p.counts }
func (*past) KeyWaits() KeyWaits                  { return nil }
func (*past) Moved(uint32, []byte, []byte)        {}
func (*past) Stake(uint32, Settler, uint64, Fate) {}
func (*past) Taken(uint32) bool                   { return false }
