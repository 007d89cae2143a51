package engine

import (
	"iter"
	"slices"
	"time"

	"sync"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// Batch is a slab of messages that one goroutine works on, or a batch that a
// batcher made. What a plugin adds, splits and merges takes effect when its call
// returns.
type Batch struct{ in Slab }

// NewBatch makes a batch with room for n messages, for tests and for running
// inner steps.
func NewBatch(n int) *Batch {
	return &Batch{in: Slab{Msgs: make([]Message, 0, n), Room: n, Fits: inside.ReadBytes, Arena: new(doc.Arena)}}
}

// Add appends a message, for an Input; body must not change afterwards. No more may be
// added than Room was before the first.
func (b *Batch) Add(body []byte) *Message {
	if b.in.Room <= 0 {
		panic("engine: a message was added beyond Batch.Room")
	}
	b.in.Room--
	b.in.Fits -= len(body)
	return b.in.Append(body)
}

// Room is how many more messages Add takes. It is 0 as soon as those that were added have
// more bytes than one Read should bring: they are charged when it returns.
func (b *Batch) Room() int {
	if b.in.Fits < 0 {
		return 0
	}
	return b.in.Room
}

// Len is the number of messages that All yields if none has ended.
func (b *Batch) Len() int {
	if b.in.Sel != nil {
		return len(b.in.Sel)
	}
	return len(b.in.Msgs)
}

// All yields the messages that the call is about and that are still live.
func (b *Batch) All() iter.Seq[*Message] {
	return func(yield func(*Message) bool) {
		if b.in.Sel == nil {
			for i := range b.in.Msgs {
				if m := &b.in.Msgs[i]; m.in.State == inside.Live && !yield(m) {
					return
				}
			}
			return
		}
		for _, i := range b.in.Sel {
			if m := &b.in.Msgs[i]; m.in.State == inside.Live && !yield(m) {
				return
			}
		}
	}
}

// Ended yields the messages that were dropped or have failed, after [Steps.Run].
func (b *Batch) Ended() iter.Seq[*Message] {
	return func(yield func(*Message) bool) {
		for i := range b.in.Msgs {
			if m := &b.in.Msgs[i]; (m.in.State == inside.Dropped || m.in.State == inside.Failed) && !yield(m) {
				return
			}
		}
	}
}

// Split replaces m by its parts, which are pulled when there is room for them
// and inherit metadata and order key. No part at all filters m; an error after
// some parts fails what is left of m.
func (b *Batch) Split(m *Message, parts iter.Seq2[[]byte, error]) {
	if m.in.State != inside.Live {
		return
	}
	b.in.Splits = append(b.in.Splits, pendingSplit{b.index(m), parts})
	m.in.State = inside.Consumed
}

// Merge replaces the messages of by one with the given body. It ends as they
// end: if it fails for good, each of them fails, as it was before the merge. A
// merge of nothing makes nothing.
func (b *Batch) Merge(body []byte, of iter.Seq[*Message]) *Message {
	all := slices.Collect(of) // of may panic: then nothing has happened
	var parts []Message
	for _, m := range all {
		if m.in.State != inside.Live {
			continue
		}
		m.in.Doc.Detach()
		parts = append(parts, *m)
		m.in.State = inside.Consumed
	}
	m := &Message{in: Cell{Of: parts}}
	m.in.Doc.Reset(body, b.in.Arena)
	if len(parts) == 0 {
		return m
	}
	m.Meta = parts[0].Meta
	m.in.inherit(&parts[0].in)
	m.in.Origin, m.in.PC, m.in.Stage = Origin{}, parts[0].in.PC, inside.Fresh
	b.in.Merges = append(b.in.Merges, m)
	return m
}

// Order puts messages that All yields into the order of in: they share out the
// places that they have now, all others stay where they are. It takes effect when
// the call returns; the last Order of a call counts.
func (b *Batch) Order(in iter.Seq[*Message]) {
	own := make(map[*Message]bool, b.Len())
	for m := range b.All() {
		own[m] = true
	}
	b.in.Order = b.in.Order[:0]
	for m := range in {
		first, known := own[m]
		if !known {
			panic("engine: Batch.Order is given a message that All does not yield")
		}
		if own[m] = false; first {
			b.in.Order = append(b.in.Order, m)
		}
	}
}

// Take moves messages of another batch, from a place on, to the end of b, as many as there
// is room for, and returns how many. It is for an Input that reads others.
func (b *Batch) Take(from *Batch, at int) int {
	n := min(b.in.Room, len(from.in.Msgs)-at)
	for i := range n {
		m := &from.in.Msgs[at+i]
		m.in.Doc.Detach()
		b.in.Msgs = append(b.in.Msgs, *m)
		b.in.Msgs[len(b.in.Msgs)-1].in.Doc.Attach(b.in.Arena)
		m.in.State = inside.Moved
	}
	b.in.Room -= n
	return n
}

// Reset makes b what [NewBatch] gives, for an Input that reads others: nothing may
// hold one of its messages any more. It uses the same memory where that suffices.
func (b *Batch) Reset(n int) *Batch {
	if b == nil || cap(b.in.Msgs) < n {
		return NewBatch(n)
	}
	clear(b.in.Msgs)
	b.in = Slab{Msgs: b.in.Msgs[:0], Room: n, Fits: inside.ReadBytes, Arena: new(doc.Arena)}
	return b
}

// Open makes an empty batch that grows, for a Batcher to move messages into.
func (b *Batch) Open() *Batch {
	var o *Batch
	if b.in.Open != nil {
		o = b.in.Open()
	} else {
		o = new(Batch)
	}
	o.in.From, o.in.Way.Batcher, o.in.Open, o.in.Copy = b.in.From, b.in.Way.Batcher, b.in.Open, b.in.Copy
	return o
}

// Move takes m out of its batch and appends it to b. A message with a batch key may wait
// with few of its neighbours, so its bytes are copied out of the block in which they were
// read.
func (b *Batch) Move(m *Message) {
	b.in.Take(m)
	if in := &b.in.Msgs[len(b.in.Msgs)-1]; in.in.BatchKey != "" && len(in.in.Orig)+in.Size() < inside.BlockSize/2 {
		b.in.Text = in.in.CopyOut(b.in.Text)
	}
}

// Copy appends a copy of m to b: one more piece of its root. m stays where it is,
// to be copied or moved on. It is for a Batcher, within Add.
func (b *Batch) Copy(m *Message) {
	metered(b.in.Arena, m)
	c := *m
	if b.in.Copy != nil {
		c = b.in.Copy(m)
	} else {
		c.in.Doc = m.in.Doc.Fork()
	}
	b.Move(&c)
}

// Window is the window of a batch, as window() returns it.
type Window struct {
	Start, End time.Time
	Part       int // from 1; more than 1 when parts of it left before
}

// SetWindow sets the window of b.
func (b *Batch) SetWindow(w Window) { b.in.Window = &w }

// Window is what SetWindow said, or nil.
func (b *Batch) Window() *Window { return b.in.Window }

// Trigger is why a batch left its batcher, or "".
func (b *Batch) Trigger() Trigger { return b.in.Trigger }

// index finds m, from the last split on: plugins go through a batch in order.
func (b *Batch) index(m *Message) int {
	from := 0
	if n := len(b.in.Splits); n > 0 {
		from = b.in.Splits[n-1].I + 1
	}
	for n := range b.in.Msgs {
		if i := (from + n) % len(b.in.Msgs); &b.in.Msgs[i] == m {
			return i
		}
	}
	panic("engine: the message belongs to another batch")
}

// Parking is where a message waits that has left the running call to go on later.
type Parking struct {
	Edit   func(*Message) error // that resume was given
	Delay  time.Duration        // resumed by the engine after this; 0: by the code that parked it
	Behind bool                 // it waits for others to end, and gives no credits back before
	Step   any                  // that parked it; nil: a write
	Before *inside.Found[Meta]  // what the step's on_error may restore

	mu      sync.Mutex // guards the fields below, and Edit
	resumed bool
	goOn    func() // nil: the message is still in the call
}

// resume is what Message.Park returns.
func (p *Parking) resume(edit func(*Message) error) {
	p.mu.Lock()
	first, goOn := !p.resumed, p.goOn
	if first {
		p.resumed, p.Edit = true, edit
	}
	p.mu.Unlock()
	if first && goOn != nil {
		goOn()
	}
}

// Arm says how the message goes on, now that it has left the call; true: it has been resumed already.
func (p *Parking) Arm(goOn func()) (resumed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.goOn = goOn
	return p.resumed
}

// Resume resumes the message, unless that has been done.
func (p *Parking) Resume() { p.resume(nil) }
