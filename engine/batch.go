package engine

import (
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// Batch is a set of messages that one goroutine works on: messages that were read together, or a batch that a batcher has
// made. Splits, merges and orders take effect when the call of the plugin returns.
type Batch struct{ in Slab }

// NewBatch makes a batch with room for n messages, for inner steps and for tests.
func NewBatch(n int) *Batch {
	return &Batch{in: Slab{Msgs: make([]Message, 0, n), Room: n, Fits: inside.ReadBytes, Arena: new(doc.Arena)}}
}

// Add appends a message, for an Input or inner steps. body must not change afterwards. Add panics if it is called more
// often than Room was before the first call.
func (b *Batch) Add(body []byte) *Message {
	if b.in.Room <= 0 {
		panic("engine: a message was added beyond Batch.Room")
	}
	b.in.Room--
	b.in.Fits -= len(body)
	return b.in.Append(body)
}

// Room is how many more messages Read should add. It is 0 as soon as the added messages have more bytes than one Read
// should bring, since bytes are only charged when Read returns.
func (b *Batch) Room() int {
	if b.in.Fits < 0 {
		return 0
	}
	return b.in.Room
}

// Len is the number of messages that the call is about, including those that have ended.
func (b *Batch) Len() int {
	if b.in.Sel != nil {
		return len(b.in.Sel)
	}
	return len(b.in.Msgs)
}

// All yields the messages that the call is about, except those that have ended, failed or been parked in the meantime.
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

// Ended yields the messages that were dropped or have failed, after [Runner.Run].
func (b *Batch) Ended() iter.Seq[*Message] {
	return func(yield func(*Message) bool) {
		for i := range b.in.Msgs {
			if m := &b.in.Msgs[i]; (m.in.State == inside.Dropped || m.in.State == inside.Failed) && !yield(m) {
				return
			}
		}
	}
}

// Split replaces m by its parts, which inherit its metadata and order key. The parts are pulled after the call has
// returned, when there is room for them. If there are none, m is filtered. An error fails the rest of m; the parts before
// it continue.
func (b *Batch) Split(m *Message, parts iter.Seq2[[]byte, error]) {
	if m.in.State != inside.Live {
		return
	}
	b.in.Splits = append(b.in.Splits, pendingSplit{b.index(m), parts})
	m.in.State = inside.Consumed
}

// Merge replaces the messages of by one message with the given body. They end as the merge ends: if it fails for good,
// each of them fails, as it was before the merge. A merge of no messages makes none.
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

// Order sorts messages that All yields into the order of in. They exchange the places that they have now; all others stay
// where they are. Only the last Order of a call counts.
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

// Take moves messages of another batch, from index at on, to the end of b, as far as there is room. It returns how many it
// has moved. It is for an Input that reads other inputs.
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

// Reset returns an empty batch as [NewBatch] does, reusing the memory of b if it is large enough. b may be nil. It is for
// an Input that reads other inputs; nothing may hold a message of b any more.
func (b *Batch) Reset(n int) *Batch {
	if b == nil || cap(b.in.Msgs) < n {
		return NewBatch(n)
	}
	clear(b.in.Msgs)
	b.in = Slab{Msgs: b.in.Msgs[:0], Room: n, Fits: inside.ReadBytes, Arena: new(doc.Arena)}
	return b
}

// Open makes an empty batch without a limit, into which a Batcher moves messages.
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

// Move takes m out of its batch and appends it to b. The bytes of a message with a batch key are copied, since it may wait
// for long, and would keep the whole block in memory with which it was read.
func (b *Batch) Move(m *Message) {
	b.in.Take(m)
	if in := &b.in.Msgs[len(b.in.Msgs)-1]; in.in.BatchKey != "" && len(in.in.Orig)+in.Size() < inside.BlockSize/2 {
		b.in.Text = in.in.CopyOut(b.in.Text)
	}
}

// Copy appends a copy of m to b, one more piece of its root. m stays where it is, to be copied again or moved. It is for a
// Batcher, within Add.
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

// Window is the time window of a batch, which the function window() returns.
type Window struct {
	Start, End time.Time
	Part       int // from 1; a window that leaves in several batches has several parts
}

// SetWindow sets the window of b.
func (b *Batch) SetWindow(w Window) { b.in.Window = &w }

// Window returns the window of b, or nil.
func (b *Batch) Window() *Window { return b.in.Window }

// Batcher is the name of the batcher that the batch goes or has gone through, or "".
func (b *Batch) Batcher() string { return b.in.From }

// Trigger says why a batch left its batcher; "": it has not, or there is none.
func (b *Batch) Trigger() Trigger { return b.in.Trigger }

// index finds m. It begins behind the last split, since plugins go through a batch in order.
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

// Parking is what the engine knows of a parked message.
type Parking struct {
	Edit   func(*Message) error // the argument of resume
	Delay  time.Duration        // after which the engine resumes it; 0: the code that parked it does
	Behind bool                 // it waits until others have ended, and gives no credits back before
	Step   any                  // the step that parked it; nil: a write
	Before *inside.Found[Meta]  // the message as the step found it, for its on_error

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

// Arm sets what resumes the message now that it has left the call. It returns true if resume was called before.
func (p *Parking) Arm(goOn func()) (resumed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.goOn = goOn
	return p.resumed
}

// Resume resumes the message unless it was resumed before.
func (p *Parking) Resume() { p.resume(nil) }
