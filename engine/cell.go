package engine

import (
	"cmp"
	"iter"
	"slices"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// Cell is the engine's own part of a message.
type Cell struct {
	lineage
	Doc     doc.Doc
	Orig    []byte // payload as received or split
	Err     *Error
	Of      []Message // a merge's parts, as they were before it
	Rare    *rare     // nil: nothing
	Parking *Parking
	PC      int32 // the next instruction of the program
	Part    int32 // its number among the parts of a split, from 1; 0: not a part
	State   inside.State
	Early   bool // it is in the lanes before it has its order key, or with one of a payload that is not checked
	Credits int8 // messages of credit it holds
	Fate    Fate // of one that EndAs ended
	Serial  uint32
	Charge  int // bytes of credit it holds
}

// lineage is what the parts of a message, and a merge of several, have from it: see [Message.Inherit].
type lineage struct {
	Origin   Origin
	Batch    *Batch       // of a batch that a batcher made
	BatchKey string       // canonical text of the batcher's key; "": none
	Index    int32        // in Batch, as it came
	Back     int32        // in a group: where it continues in the lane
	Groups   int8         // that it has left, or gone by
	Stage    inside.Stage // where PC counts
	Dead     bool         // a dead letter
}

// Inside is what the engine's rooms keep in a message: only they have a key. It is exported for them.
func (m *Message) Inside(inside.Key) *Cell { return &m.in }

// rare is what few messages carry. It never changes, so that copies of a message share it.
type rare struct {
	Trial inside.Trial
	Block inside.Block
	Claim inside.Claim
	Via   inside.Branch
	Notes Notes
	Scope *Scope // of the innermost step that it is inside of; nil: none that keeps one
	Vars  Vars
}

// setRare changes what m carries.
func (m *Cell) setRare(change func(*rare)) {
	r := rare{}
	if m.Rare != nil {
		r = *m.Rare
	}
	change(&r)
	switch {
	case r == rare{}:
		m.Rare = nil
	case m.Rare == nil || *m.Rare != r:
		m.Rare = &r
	}
}

// SetTrial, SetBlock, SetClaim and SetVia set what Rare has; nil takes it away.
func (m *Cell) SetTrial(x inside.Trial) { m.setRare(func(r *rare) { r.Trial = x }) }
func (m *Cell) SetBlock(x inside.Block) { m.setRare(func(r *rare) { r.Block = x }) }
func (m *Cell) SetClaim(x inside.Claim) { m.setRare(func(r *rare) { r.Claim = x }) }
func (m *Cell) SetVia(x inside.Branch)  { m.setRare(func(r *rare) { r.Via = x }) }

// Redirect sends the message to another output: as a new one, with nothing of where it has been but x.
func (m *Cell) Redirect(x inside.Trial) {
	m.BatchKey, m.Batch, m.State, m.Stage = "", nil, inside.Live, inside.Fresh
	m.setRare(func(r *rare) { r.Trial, r.Block, r.Via = x, nil, nil })
}

// Root is the call that the message was read with, and its number in it.
func (m *Cell) Root() (read, uint32) { return m.Origin.read, m.Origin.i }

// SetRoot makes the message the i-th of a call.
func (m *Cell) SetRoot(r read, i uint32) { m.Origin = Origin{r, i} }

// First is the message itself, or the first part of a merge.
func (m *Cell) First() *Cell {
	for m.Origin.read == nil && len(m.Of) > 0 {
		m = &m.Of[0].in
	}
	return m
}

// inherit makes a message, new in a batch, the successor of another in all but its payload and metadata.
func (m *Cell) inherit(from *Cell) {
	if m.lineage = from.lineage; m.Dead {
		m.Err = from.Err
	}
	if r := from.Rare; r != nil {
		m.setRare(func(x *rare) {
			x.Block, x.Via, x.Notes, x.Scope, x.Vars = r.Block, r.Via, r.Notes, r.Scope, r.Vars
		})
	}
}

// SetPart makes a message, new in a batch, the n-th part of another.
func (m *Cell) SetPart(of *Message, n int) {
	m.inherit(&of.in)
	m.Part, m.Of = int32(n), of.heirs()
}

// Slab is the engine's own part of a batch.
type Slab struct {
	Msgs  []Message
	Sel   []int32    // what All yields, by index; nil: all
	Arena *doc.Arena // of the goroutine that works on the batch, or nil
	Room  int        // how many more messages Add takes
	Fits  int        // bytes that Add should still be given; below zero: none. See Batch.Room

	Restores bool // a ProcessorFunc is to leave what fails or parks as it was

	Splits []pendingSplit
	Merges []*Message // just made; they lie apart, for Msgs must not move while plugins hold pointers
	Order  []*Message // what Batch.Order asks for

	// Of a batch that a batcher made.
	Trigger Trigger // why it left; "" before that, and where there is no batcher
	From    string  // the batcher; "": none
	Size    int     // messages when it left
	Text    []byte  // what Batch.Move copies into
	Window  *Window
	Open    func() *Batch          // makes what Batch.Open does; nil: a plain one
	Copy    func(*Message) Message // makes what Batch.Copy does; nil outside of a batcher's Add

	Bytes int          // payload as it was read or made
	Stage inside.Stage // of all its messages
	Way   way          // where it is on its way
	Next  *Batch
}

// Inside is what the engine's rooms keep in a batch. It is exported for them.
func (b *Batch) Inside(inside.Key) *Slab { return &b.in }

// way is where a batch is on its way through a pipeline.
type way struct {
	Batcher inside.Batcher
	Counted bool         // it is one of the batches that its batcher may have in flight, the number of which is limited
	Out     inside.Place // nil: it is to be tried again in a lane
	In      inside.Input
	Turn    inside.Turn
	Detour  bool // it goes to the next output of a fallback
}

// pendingSplit is the split of the I-th message.
type pendingSplit struct {
	I     int
	Parts iter.Seq2[[]byte, error]
}

// SortedSplits are the splits in the order of their messages.
func (b *Slab) SortedSplits() []pendingSplit {
	slices.SortFunc(b.Splits, func(x, y pendingSplit) int { return cmp.Compare(x.I, y.I) })
	return b.Splits
}

// IsSplit says whether the i-th message is to be split.
func (b *Slab) IsSplit(i int) bool {
	return slices.ContainsFunc(b.Splits, func(s pendingSplit) bool { return s.I == i })
}

// Append adds a message.
func (b *Slab) Append(body []byte) *Message {
	n := len(b.Msgs)
	if n == cap(b.Msgs) {
		b.Msgs = slices.Grow(b.Msgs, 1)
	}
	b.Msgs = b.Msgs[:n+1] // what is beyond the end is cleared, see recycle
	m := &b.Msgs[n]
	m.in.Doc.Reset(body, b.Arena)
	return m
}

// Take is Move without the copy.
func (b *Slab) Take(m *Message) {
	m.in.Doc.Detach()
	b.Msgs = append(b.Msgs, *m)
	b.Msgs[len(b.Msgs)-1].in.Doc.Attach(b.Arena)
	b.Bytes += m.in.Charge
	m.in.State = inside.Moved
}

// Like makes an empty batch for messages of b.
func (b *Slab) Like() *Batch {
	like := new(Batch)
	like.in = Slab{Arena: b.Arena, Trigger: b.Trigger, From: b.From, Size: b.Size, Window: b.Window, Stage: b.Stage,
		Way: way{Batcher: b.Way.Batcher, In: b.Way.In}}
	return like
}

// Reorder does what Order has asked for, of what is still live.
func (b *Slab) Reorder() {
	sorted := make([]Message, 0, len(b.Order))
	for _, m := range b.Order {
		if m.in.State == inside.Live {
			sorted = append(sorted, *m)
			m.in.State = inside.Vacant
		}
	}
	b.Order = nil
	for i := range b.Msgs {
		if b.Msgs[i].in.State == inside.Vacant {
			b.Msgs[i], sorted = sorted[0], sorted[1:]
		}
	}
}

// Nth is one of the messages that the call is about, whatever its state.
func (b *Slab) Nth(i int) *Message {
	if b.Sel != nil {
		return &b.Msgs[b.Sel[i]]
	}
	return &b.Msgs[i]
}

// CopyOut moves the bytes of m to the end of text, or to a new chunk when it is
// full, so that m no longer keeps the block in which it was read.
func (c *Cell) CopyOut(text []byte) []byte {
	body, orig := c.Doc.Bytes(), c.Orig
	same := len(body) == len(orig) && (len(body) == 0 || &body[0] == &orig[0])
	need := len(body)
	if !same {
		need += len(orig)
	}
	if cap(text)-len(text) < need {
		text = make([]byte, 0, max(need, min(2*cap(text), inside.BlockSize/4)))
	}
	at := len(text)
	text = append(text, body...)
	body = text[at:len(text):len(text)]
	c.Doc.Reset(body, nil)
	defer c.moved(orig)
	switch {
	case same:
		c.Orig = body
	case orig != nil:
		at = len(text)
		text = append(text, orig...)
		c.Orig = text[at:len(text):len(text)]
	}
	return text
}

// moved tells the read that the payload which it may keep has moved with m.
func (c *Cell) moved(was []byte) {
	if o := c.Origin; o.read != nil && c.Part == 0 && len(c.Orig) > 0 && len(was) > 0 {
		o.read.Moved(o.i, was, c.Orig)
	}
}
