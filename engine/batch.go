package engine

import (
	"iter"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine/doc"
)

// Batch is a slab of messages that one goroutine works on, or a batch that a
// batcher made. What a plugin adds, splits and merges takes effect when its call
// returns.
type Batch struct {
	msgs  []Message
	sel   []int32    // what All yields, by index; nil: all
	arena *doc.Arena // of the goroutine that works on the batch, or nil
	room  int        // how many more messages Add takes
	fits  int        // bytes that Add should still be given; below zero: none. See Room

	restores bool // a ProcessorFunc is to leave what fails or parks as it was

	splits []pendingSplit
	merges []*Message // just made; they lie apart, for msgs must not move while plugins hold pointers
	order  []*Message // what Order asks for

	// Of a batch that a batcher made.
	trigger Trigger // why it left; "" before that, and where there is no batcher
	from    string  // the batcher; "": none
	size    int     // messages when it left
	text    []byte  // what Move copies into
	window  *Window
	copy    func(*Message) Message // makes what Copy does; nil outside of a batcher's Add

	bytes int   // payload as it was read or made
	stage stage // of all its messages
	way   way   // where it is on its way
	next  *Batch
}

// way is where a batch is on its way through a pipeline, in the words of its stages.
type way struct {
	batcher any  // that it goes through, or has gone through
	slot    any  // the batcher that may have only so many batches in flight; nil: no matter
	out     any  // the output or group where it waits for another try; nil: in a lane
	in      any  // the input in whose own steps its messages are
	turn    any  // it waits for others with its keys; nil: it has none
	detour  bool // it goes to the next output of a fallback
}

type pendingSplit struct {
	i     int
	parts iter.Seq2[[]byte, error]
}

// NewBatch makes a batch with room for n messages, for tests and for running
// inner steps.
func NewBatch(n int) *Batch {
	return &Batch{msgs: make([]Message, 0, n), room: n, fits: readBytes, arena: new(doc.Arena)}
}

// Add appends a message, for an Input; body must not change afterwards. No more may be
// added than Room was before the first.
func (b *Batch) Add(body []byte) *Message {
	if b.room <= 0 {
		panic("engine: a message was added beyond Batch.Room")
	}
	b.room--
	b.fits -= len(body)
	return b.append(body)
}

func (b *Batch) append(body []byte) *Message {
	n := len(b.msgs)
	if n == cap(b.msgs) {
		b.msgs = slices.Grow(b.msgs, 1)
	}
	b.msgs = b.msgs[:n+1] // what lies beyond the end is cleared, see recycle
	m := &b.msgs[n]
	m.doc.Reset(body, b.arena)
	return m
}

// Room is how many more messages Add takes. It is 0 as soon as those that were added have
// more bytes than one Read should bring: they are charged when it returns.
func (b *Batch) Room() int {
	if b.fits < 0 {
		return 0
	}
	return b.room
}

// Len is the number of messages that All yields if none has ended.
func (b *Batch) Len() int {
	if b.sel != nil {
		return len(b.sel)
	}
	return len(b.msgs)
}

// nth is one of the messages that the call is about, whatever its state.
func (b *Batch) nth(i int) *Message {
	if b.sel != nil {
		return &b.msgs[b.sel[i]]
	}
	return &b.msgs[i]
}

// All yields the messages that the call is about and that are still live.
func (b *Batch) All() iter.Seq[*Message] {
	return func(yield func(*Message) bool) {
		if b.sel == nil {
			for i := range b.msgs {
				if m := &b.msgs[i]; m.state == live && !yield(m) {
					return
				}
			}
			return
		}
		for _, i := range b.sel {
			if m := &b.msgs[i]; m.state == live && !yield(m) {
				return
			}
		}
	}
}

// Ended yields the messages that were dropped or have failed, after [Steps.Run].
func (b *Batch) Ended() iter.Seq[*Message] {
	return func(yield func(*Message) bool) {
		for i := range b.msgs {
			if m := &b.msgs[i]; (m.state == dropped || m.state == failed) && !yield(m) {
				return
			}
		}
	}
}

// Split replaces m by its parts, which are pulled when there is room for them
// and inherit metadata and order key. No part at all filters m; an error after
// some parts fails what is left of m.
func (b *Batch) Split(m *Message, parts iter.Seq2[[]byte, error]) {
	if m.state != live {
		return
	}
	b.splits = append(b.splits, pendingSplit{b.index(m), parts})
	m.state = consumed
}

// Merge replaces the messages of by one with the given body. It ends as they
// end: if it fails for good, each of them fails, as it was before the merge. A
// merge of nothing makes nothing.
func (b *Batch) Merge(body []byte, of iter.Seq[*Message]) *Message {
	all := slices.Collect(of) // of may panic: then nothing has happened
	var parts []Message
	for _, m := range all {
		if m.state != live {
			continue
		}
		m.doc.Detach()
		parts = append(parts, *m)
		m.state = consumed
	}
	m := &Message{of: parts}
	m.doc.Reset(body, b.arena)
	if len(parts) == 0 {
		return m
	}
	m.inherit(&parts[0])
	m.origin, m.pc, m.stage = Origin{}, parts[0].pc, fresh
	b.merges = append(b.merges, m)
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
	b.order = b.order[:0]
	for m := range in {
		first, known := own[m]
		if !known {
			panic("engine: Batch.Order is given a message that All does not yield")
		}
		if own[m] = false; first {
			b.order = append(b.order, m)
		}
	}
}

// reorder does what Order has asked for, of what is still live.
func (b *Batch) reorder() {
	sorted := make([]Message, 0, len(b.order))
	for _, m := range b.order {
		if m.state == live {
			sorted = append(sorted, *m)
			m.state = vacant
		}
	}
	b.order = nil
	for i := range b.msgs {
		if b.msgs[i].state == vacant {
			b.msgs[i], sorted = sorted[0], sorted[1:]
		}
	}
}

// Take moves messages of another batch, from a place on, behind those of b, as many
// as there is room for, and says how many. It is for an Input that reads others.
func (b *Batch) Take(from *Batch, at int) int {
	n := min(b.room, len(from.msgs)-at)
	for i := range n {
		m := &from.msgs[at+i]
		m.doc.Detach()
		b.msgs = append(b.msgs, *m)
		b.msgs[len(b.msgs)-1].doc.Attach(b.arena)
		m.state = moved
	}
	b.room -= n
	return n
}

// Reset makes b what [NewBatch] gives, for an Input that reads others: nothing may
// hold one of its messages any more. It uses the same memory where that suffices.
func (b *Batch) Reset(n int) *Batch {
	if b == nil || cap(b.msgs) < n {
		return NewBatch(n)
	}
	clear(b.msgs)
	*b = Batch{msgs: b.msgs[:0], room: n, fits: readBytes, arena: new(doc.Arena)}
	return b
}

// Open makes an empty batch that grows, for a Batcher to move messages into.
func (b *Batch) Open() *Batch {
	o := fews.Get().(*Batch)
	o.unscribble()
	o.from, o.way, o.copy = b.from, way{batcher: b.way.batcher}, b.copy
	return o
}

// Move takes m out of the batch in which it lies and appends it to b. What has a
// batch key may wait beside few of its neighbours, so its bytes are copied out
// of the block in which they were read.
func (b *Batch) Move(m *Message) {
	b.take(m)
	if in := &b.msgs[len(b.msgs)-1]; in.batchKey != "" && len(in.orig)+in.Size() < blockSize/2 {
		b.text = copyOut(in, b.text)
	}
}

// Copy appends a copy of m to b: one more piece of its root. m stays where it is,
// to be copied or moved on. It is for a Batcher, within Add.
func (b *Batch) Copy(m *Message) {
	metered(b.arena, m)
	c := *m
	if b.copy != nil {
		c = b.copy(m)
	} else {
		c.doc = m.doc.Fork()
	}
	b.Move(&c)
}

// Window is the window that a batch stands for, as window() tells it.
type Window struct {
	Start, End time.Time
	Part       int // from 1; more than 1 when parts of it left before
}

// SetWindow says what window b stands for.
func (b *Batch) SetWindow(w Window) { b.window = &w }

// Window is what SetWindow said, or nil.
func (b *Batch) Window() *Window { return b.window }

// take is Move without the copy.
func (b *Batch) take(m *Message) {
	m.doc.Detach()
	b.msgs = append(b.msgs, *m)
	b.msgs[len(b.msgs)-1].doc.Attach(b.arena)
	b.bytes += m.charge
	m.state = moved
}

// like makes an empty batch for messages of b.
func (b *Batch) like() *Batch {
	return &Batch{arena: b.arena, trigger: b.trigger, from: b.from, size: b.size, window: b.window, stage: b.stage, way: way{batcher: b.way.batcher, in: b.way.in}}
}

// Trigger is why a batch left its batcher, or "".
func (b *Batch) Trigger() Trigger { return b.trigger }

// index finds m, from the last split on: plugins go through a batch in order.
func (b *Batch) index(m *Message) int {
	from := 0
	if n := len(b.splits); n > 0 {
		from = b.splits[n-1].i + 1
	}
	for n := range b.msgs {
		if i := (from + n) % len(b.msgs); &b.msgs[i] == m {
			return i
		}
	}
	panic("engine: the message is of another batch")
}

// WriteFates says what a Write that returned err made of each message: "safe",
// "failed" or "parked". It is for tests of outputs.
func WriteFates(b *Batch, err error) []string {
	fates := make([]string, len(b.msgs))
	for i := range b.msgs {
		switch s := b.msgs[i].state; {
		case s == parked:
			fates[i] = "parked"
		case s == failed || s == live && err != nil:
			fates[i] = "failed"
		default:
			fates[i] = "safe"
		}
	}
	return fates
}
