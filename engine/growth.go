package engine

import (
	"errors"
	"sync"
	"time"
)

// Growth is what steps add to messages. It is charged to the credits like what was
// read: by each step before it makes much (see Message.Grow), by the engine behind each
// message that a step has made much larger, and the rest of a slab when it moves on.
//
// What does not fit waits, and never in a call: the message is put back as the step
// found it and waits beside the queues, like one that is tried again, until the bytes
// that it lacked are free. Its lane or writer goes on with the others. So who waits
// holds no more than it was read with, no lane and no writer, and the circles that could
// close are those of a retry:
//
//   - Bytes that messages beyond the lanes hold come back by themselves, however long
//     an output takes; those in open batches by `pressure`, for which the line counts as
//     a reader that waits.
//   - What can't move before a message in the line does waits behind its order key. It
//     counts neither as beyond the lanes nor as in them (holds.keep). So does the line.
//   - When nothing else is left in the lanes or beyond them, nobody can give bytes back,
//     and the first in the line goes on, on account: the one to which steps have added
//     most. It counts as beyond the lanes from then on, so no other does before it has ended
//     or waits again, and then it is still the first, or has given bytes back. As it may not
//     grow beyond max_in_flight.bytes, no more than twice those bytes are under way, beside
//     what each reader has read last.
//   - A step may make messages wait for others in ways that the engine does not see. So the
//     first in the line also goes on account when nothing was given back for a while and
//     nothing is on account: see credits.stalls.
//
// A message that alone would be larger than max_in_flight.bytes fails, with class too_large.

// room is the meter of a lane or writer.
type room struct {
	credits *credits
	most    int // bytes that may be under way at once

	mu    sync.Mutex // guards the field below, and messages: a step may use several goroutines
	inner int        // bytes for what the step at hand makes for steps of its own
}

func (x *room) Grow(m *Message, n int) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	n, err := x.take(m.in.Charge, n, trialOf(m))
	m.in.Charge += n
	return err
}

func (x *room) Most(m *Message) int { return max(0, x.most-m.in.Charge) }

func (x *room) Settle(m *Message, _ int) error {
	x.leaveInside()
	now := m.bytes()
	if trialOf(m) != nil {
		trialOf(m).room = 0
	}
	if m.in.State == live && now > m.in.Charge {
		n, err := x.take(m.in.Charge, now-m.in.Charge, nil)
		m.in.Charge += n
		return err
	}
	x.credits.put(0, m.in.Charge-now, 0)
	m.in.Charge = now
	return nil
}

func (x *room) Regain(m *Message) {
	if trialOf(m) != nil && trialOf(m).room > 0 {
		return // it is to be used now
	}
	m.in.Doc.Splice()
	_ = x.Settle(m, 0) // m holds credits for more than it is
}

// account is settle, on account, for what a step has made of messages of b together.
func (x *room) account(b *Batch) {
	change := 0
	for m := range b.All() { // what is merged lies elsewhere
		now := m.bytes()
		change += m.in.Charge - now
		m.in.Charge = now
	}
	x.credits.put(0, change, 0)
}

// Free does nothing: what lanes and writers hold, messages hold.
func (x *room) Free() {}

func (x *room) Inside(of *Message) Meter { return &inner{x: x, of: trialOf(of)} }

// leaveInside gives back what inner steps took: the step has made of it what it made.
func (x *room) leaveInside() {
	if x.inner > 0 {
		x.credits.put(0, x.inner, 0)
		x.inner = 0
	}
}

// inner is the meter for messages that a step makes for steps of its own. What they take
// is given back when that step has ended. One goroutine uses it.
type inner struct {
	x     *room
	of    *trial // of the message that they are made of
	taken int    // since settle
	held  int    // in all
}

func (i *inner) Most(*Message) int {
	i.x.mu.Lock()
	defer i.x.mu.Unlock()
	return max(0, i.x.most-i.x.inner)
}

func (i *inner) Free() {
	i.x.mu.Lock()
	defer i.x.mu.Unlock()
	i.x.credits.put(0, i.held, 0)
	i.x.inner -= i.held
	i.held = 0
}

func (i *inner) Grow(_ *Message, n int) error {
	i.x.mu.Lock()
	defer i.x.mu.Unlock()
	i.taken += n
	got, err := i.x.take(i.x.inner, n, i.of)
	i.x.inner += got
	i.held += got
	var short *noRoom
	if errors.As(err, &short) {
		short.bytes += i.x.inner
	}
	return err
}

func (i *inner) Settle(m *Message, spent int) error {
	n := spent - i.taken
	i.taken = 0
	if n <= slack || m.in.State != live {
		return nil
	}
	err := i.Grow(m, n)
	i.taken = 0
	return err
}

func (i *inner) Regain(*Message) {}

func (i *inner) Inside(*Message) Meter { return &inner{x: i.x, of: i.of} }

// take takes n bytes for what holds so many already, and says how many more it holds
// then. What has waited for some has them.
func (x *room) take(holds, n int, waited *trial) (more int, err error) {
	if waited != nil && waited.room > 0 {
		has := min(n, waited.room)
		waited.room -= has
		n -= has
	}
	switch {
	case n <= slack:
		return 0, nil
	case holds+n > x.most:
		return 0, Errorf(TooLarge, "the message grows beyond %d bytes, all that may be under way at once (raise `engine.max_in_flight.bytes`)", x.most)
	case !x.credits.take(n):
		return 0, &Error{Class: TooLarge, Err: &noRoom{n}}
	}
	return n, nil
}

// waitsForRoom makes m wait before a step until the bytes are free that it lacks there.
func (x *executor) waitsForRoom(m *Message, o *op, lacks int) {
	held := m.in.Charge
	m.in.Charge = m.bytes() // it is as the step found it
	x.room.credits.put(0, held-m.in.Charge, 0)
	tr := trialOf(m)
	if tr == nil {
		tr = &trial{attempts: m.tried()}
		setTrial(m, tr)
	}
	need := max(held-m.in.Charge+lacks, 2*tr.lacked) // who learns only as it goes should not come often
	tr.lacked = min(need, max(x.room.most-m.in.Charge, lacks))
	stepError(m.in.Err, o)
	tr.cause, tr.err, tr.due, tr.room = o, m.in.Err, time.Time{}, 0
	m.in.State = waits
}

// forRoom says that it is bytes that a message waits for.
func (t *trial) forRoom() bool { return t != nil && t.err != nil && lacks(t.err) > 0 }
