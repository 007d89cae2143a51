package engine

import (
	"bytes"
	"time"
)

// Frozen is a copy of m for evaluating expressions at any time, even after m has ended. It can be used for nothing else.
// Of the memory of m it shares only metadata, notes and vars, which never change.
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

// past stands for a Read that may have ended.
type past struct {
	input  string
	at     time.Time
	counts *Counters
}

func (p *past) Input() string                     { return p.input }
func (p *past) At() time.Time                     { return p.at }
func (*past) Number(i uint32) uint64              { return uint64(i) + 1 }
func (p *past) Counts() *Counters                 { return p.counts }
func (*past) KeyWaits() KeyWaits                  { return nil }
func (*past) Moved(uint32, []byte, []byte)        {}
func (*past) Stake(uint32, Settler, uint64, Fate) {}
func (*past) Taken(uint32) bool                   { return false }
func (*past) Followed() bool                      { return false }
func (*past) Trace(uint32) *Trace                 { return nil }
func (*past) SetTrace(uint32, *Trace)             {}
