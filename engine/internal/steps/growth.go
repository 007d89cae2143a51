package steps

import (
	"errors"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/retry"
)

// Growth is what steps add to messages. It is charged to the credits like what was read: by
// each step before it makes much (see Message.Grow), by the engine after each message that
// a step has made much larger, and the rest of a slab when it moves on.
//
// What does not fit waits, and never in a call: the message is put back as it was before
// the step and waits outside the queues, like one that is retried, until the bytes that it
// lacked are free. Its lane or writer continues with the others. So a waiting message holds
// no more than it was read with, no lane and no writer, and the circles that could close
// are those of a retry:
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

// Room is the meter of a lane or writer.
type Room struct {
	Credits *flow.Credits
	Limit   int // bytes that may be under way at once

	mu    sync.Mutex // guards the fields below, and messages: a step may use several goroutines
	inner int        // bytes taken for what the current step makes for its inner steps
	lent  int        // bytes that they use of those for which the step's message has waited
}

// Grow takes credits for n bytes that a step is about to add to m.
func (x *Room) Grow(m *engine.Message, n int) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	n -= useRoom(retry.TrialOf(m), n) // m holds credits for it already
	n, err := x.take(msg(m).Charge+x.inner, n)
	msg(m).Charge += n
	return err
}

// Most is how many bytes m can grow by at all.
func (x *Room) Most(m *engine.Message) int { return max(0, x.Limit-msg(m).Charge) }

// Settle makes m hold credits for what it keeps.
func (x *Room) Settle(m *engine.Message, _ int) error {
	x.leaveInside()
	now := flow.Bytes(m)
	if retry.TrialOf(m) != nil {
		retry.TrialOf(m).Room = 0
	}
	if msg(m).State == inside.Live && now > msg(m).Charge {
		n, err := x.take(msg(m).Charge, now-msg(m).Charge)
		msg(m).Charge += n
		return err
	}
	x.Credits.Put(0, msg(m).Charge-now, 0)
	msg(m).Charge = now
	return nil
}

// Regain gives back what m no longer needs, unless it has just been given room.
func (x *Room) Regain(m *engine.Message) {
	if retry.TrialOf(m) != nil && retry.TrialOf(m).Room > 0 {
		return // it is to be used now
	}
	msg(m).Doc.Splice()
	_ = x.Settle(m, 0) // m holds credits for more than it is
}

// account is settle, on account, for what a step has made of messages of b together.
func (x *Room) account(b *engine.Batch) {
	change := 0
	for m := range b.All() { // what is merged lies elsewhere
		now := flow.Bytes(m)
		change += msg(m).Charge - now
		msg(m).Charge = now
	}
	x.Credits.Put(0, change, 0)
}

// Free does nothing: what lanes and writers hold, messages hold.
func (x *Room) Free() {}

// Inside is the meter for messages that a step makes of another for steps of its own.
func (x *Room) Inside(of *engine.Message) any {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := &inner{x: x, of: retry.TrialOf(of), outer: msg(of).Charge}
	if i.of != nil {
		i.outer -= i.of.Room + x.lent
	}
	return i
}

// leaveInside gives back what inner steps took: the step has made of it what it made.
func (x *Room) leaveInside() {
	if x.inner > 0 {
		x.Credits.Put(0, x.inner, 0)
	}
	x.inner, x.lent = 0, 0
}

// inner is the meter for messages that a step makes for steps of its own. What they take
// is given back when that step has ended. One goroutine uses it.
type inner struct {
	x     *Room
	of    *retry.Trial // of the message that they are made of
	outer int          // bytes of that message, but for those for which it has waited
	taken int          // since settle
	held  int          // in all
	lent  int          // in all, of the bytes for which that message has waited
}

// holds is how many bytes the message holds with what its step makes for inner steps; x.mu is held.
func (i *inner) holds() int { return i.outer + i.x.inner + i.x.lent }

func (i *inner) Most(*engine.Message) int {
	i.x.mu.Lock()
	defer i.x.mu.Unlock()
	return max(0, i.x.Limit-i.holds())
}

func (i *inner) Free() {
	i.x.mu.Lock()
	defer i.x.mu.Unlock()
	i.x.Credits.Put(0, i.held, 0)
	i.x.inner -= i.held
	if i.lent > 0 {
		i.of.Room += i.lent
		i.x.lent -= i.lent
	}
	i.held, i.lent = 0, 0
}

func (i *inner) Grow(_ *engine.Message, n int) error {
	i.x.mu.Lock()
	defer i.x.mu.Unlock()
	i.taken += n
	lent := useRoom(i.of, n)
	i.lent += lent
	i.x.lent += lent
	got, err := i.x.take(i.holds(), n-lent)
	i.x.inner += got
	i.held += got
	var short *inside.NoRoom
	if errors.As(err, &short) {
		short.Bytes += i.x.inner
	}
	return err
}

func (i *inner) Settle(m *engine.Message, spent int) error {
	n := spent - i.taken
	i.taken = 0
	if n <= inside.Slack || msg(m).State != inside.Live {
		return nil
	}
	err := i.Grow(m, n)
	i.taken = 0
	return err
}

func (i *inner) Regain(*engine.Message) {}

func (i *inner) Inside(*engine.Message) any { return &inner{x: i.x, of: i.of, outer: i.outer} }

// useRoom is how many of n bytes a message has that has waited for room.
func useRoom(waited *retry.Trial, n int) (has int) {
	if waited != nil && waited.Room > 0 {
		has = min(n, waited.Room)
		waited.Room -= has
	}
	return has
}

// take takes n bytes for a message that already holds some, and returns how many more it
// then holds.
func (x *Room) take(holds, n int) (more int, err error) {
	switch {
	case n <= inside.Slack:
		return 0, nil
	case holds+n > x.Limit:
		return 0, engine.Errorf(engine.TooLarge,
			"the message grows beyond %d bytes, all that may be in flight at once (raise `engine.max_in_flight.bytes`)", x.Limit)
	case !x.Credits.Take(n):
		return 0, &engine.Error{Class: engine.TooLarge, Err: &inside.NoRoom{Bytes: n}}
	}
	return n, nil
}

// mostWaits is how often a message may wait for room before one step. It asks for twice as much each time, so it needs
// fewer to get all that there is.
const mostWaits = 64

// waitsForRoom makes m wait before a step until the bytes are free that it lacks there.
func (x *Executor) waitsForRoom(m *engine.Message, o *Op, lacks int) {
	held := msg(m).Charge
	msg(m).Charge = flow.Bytes(m) // it is as the step found it
	x.Room.Credits.Put(0, held-msg(m).Charge, 0)
	tr := retry.TrialOf(m)
	if tr == nil {
		tr = &retry.Trial{Attempts: retry.Tried(m)}
		retry.SetTrial(m, tr)
	}
	need := max(held-msg(m).Charge+lacks, 2*tr.Lacked) // a caller that learns the size as it goes should not call often
	if tr.Waits++; tr.Waits > mostWaits {
		o.Failed(m, engine.Errorf(engine.TooLarge,
			"the step needs more and more room for this message (raise `engine.max_in_flight.bytes`)"))
		return
	}
	tr.Lacked = min(need, max(x.Room.Limit-msg(m).Charge, lacks))
	stepError(msg(m).Err, o)
	tr.Cause, tr.Err, tr.Due, tr.Room = o, msg(m).Err, time.Time{}, 0
	msg(m).State = inside.Waits
}

// ForRoom says that it is bytes that a message waits for.
func ForRoom(t *retry.Trial) bool { return t != nil && t.Err != nil && inside.Lacks(t.Err) > 0 }
