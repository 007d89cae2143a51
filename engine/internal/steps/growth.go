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

// Growth is the bytes that steps add to messages. Credits are charged for them as for bytes that are read: by a step
// before it adds many (Message.Grow), by the engine after each message that has become much larger, and for the rest of a
// slab when it moves on.
//
// A message for which there are not enough credits waits, but never inside a call: it is restored as it was before the
// step, and waits outside the queues, like a message that is retried, until the bytes that it lacks are free. Its lane or
// writer continues with the others. So a waiting message occupies no lane and no writer, and holds no more bytes than it
// was read with. The messages that wait form a line. It always moves on:
//
//   - Messages beyond the lanes give their bytes back when their output has written them. Open batches are sent early
//     under `pressure`, for which the line counts like a reader that waits.
//   - Messages that wait behind the order key of one in the line count neither as in the lanes nor as beyond them, and
//     neither does the line itself.
//   - If no other messages are in the lanes or beyond them, nobody can give bytes back. Then the first in the line, the
//     one to which steps have added most, continues and overdraws the credits. It counts as beyond the lanes from then on,
//     so the next one can't overdraw them before it has ended or waits again. Since it can't grow beyond
//     max_in_flight.bytes, at most twice those bytes are in flight, apart from the last read of each reader.
//   - A step may make messages wait for each other in ways that the engine does not see. So the first in the line also
//     continues if no bytes were given back for a while and the credits are not overdrawn: see flow.Credits.Stalls.
//
// A message that alone would be larger than max_in_flight.bytes fails with class too_large.

// Room charges credits for what the steps of a lane or a writer add to messages.
type Room struct {
	Credits *flow.Credits
	Limit   int // bytes that may be in flight at once: max_in_flight.bytes

	mu    sync.Mutex // guards the fields below, and messages: a step may use several goroutines
	inner int        // bytes charged for messages that the current step makes for its inner steps
	lent  int        // bytes that those use of the room for which the step's message has waited
}

// Grow charges n bytes that a step is about to add to m. The error is [inside.NoRoom] if they are not free now, and of
// class too_large if m can never have them.
func (x *Room) Grow(m *engine.Message, n int) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	n -= useRoom(retry.TrialOf(m), n) // m holds credits for it already
	n, err := x.charge(msg(m).Charge+x.inner, n)
	msg(m).Charge += n
	return err
}

// Most is how many bytes m can grow by at most.
func (x *Room) Most(m *engine.Message) int { return max(0, x.Limit-msg(m).Charge) }

// Settle charges m for the bytes that it has now, or gives credits back.
func (x *Room) Settle(m *engine.Message, _ int) error {
	x.leaveInside()
	now := flow.Bytes(m)
	if retry.TrialOf(m) != nil {
		retry.TrialOf(m).Room = 0
	}
	if msg(m).State == inside.Live && now > msg(m).Charge {
		n, err := x.charge(msg(m).Charge, now-msg(m).Charge)
		msg(m).Charge += n
		return err
	}
	x.Credits.Put(0, msg(m).Charge-now, 0)
	msg(m).Charge = now
	return nil
}

// Regain gives back credits that m no longer needs, unless it has just got room for its next step.
func (x *Room) Regain(m *engine.Message) {
	if retry.TrialOf(m) != nil && retry.TrialOf(m).Room > 0 {
		return // its next step is about to use the room
	}
	msg(m).Doc.Splice()
	_ = x.Settle(m, 0) // does not fail, since m has become smaller
}

// overdraw charges what a step has made of the messages of b together, even if there are not enough credits.
func (x *Room) overdraw(b *engine.Batch) {
	change := 0
	for m := range b.All() { // merges are not in b yet
		now := flow.Bytes(m)
		change += msg(m).Charge - now
		msg(m).Charge = now
	}
	x.Credits.Put(0, change, 0)
}

// Free does nothing: messages of lanes and writers give their credits back when they end.
func (x *Room) Free() {}

// Inside is the meter for messages that a step makes of another message for its inner steps.
func (x *Room) Inside(of *engine.Message) any {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := &inner{x: x, of: retry.TrialOf(of), outer: msg(of).Charge}
	if i.of != nil {
		i.outer -= i.of.Room + x.lent
	}
	return i
}

// leaveInside gives back the credits for messages of inner steps, when the step around them has ended.
func (x *Room) leaveInside() {
	if x.inner > 0 {
		x.Credits.Put(0, x.inner, 0)
	}
	x.inner, x.lent = 0, 0
}

// inner is the meter for messages that a step makes for its inner steps. Their credits are given back when that step has
// ended. One goroutine uses it.
type inner struct {
	x     *Room
	of    *retry.Trial // of the message outside
	outer int          // bytes of the message outside, without the room for which it has waited
	taken int          // bytes charged since the last Settle
	held  int          // bytes charged in all
	lent  int          // bytes used of the room for which the message outside has waited
}

// holds is how many bytes the message outside and the messages of inner steps hold together; x.mu is held.
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
	got, err := i.x.charge(i.holds(), n-lent)
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

// useRoom uses up to n bytes of the room for which a message has waited, and returns how many it used.
func useRoom(waited *retry.Trial, n int) (has int) {
	if waited != nil && waited.Room > 0 {
		has = min(n, waited.Room)
		waited.Room -= has
	}
	return has
}

// charge takes n bytes of credit for a message that holds some already, and returns how many it took: none for as few as
// [inside.Slack].
func (x *Room) charge(holds, n int) (more int, err error) {
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

// mostWaits is how often a message may wait for room before one step. It asks for twice as much each time, so it gets all
// the room that there is in fewer waits.
const mostWaits = 64

// waitForRoom makes m wait before a step until the bytes that it lacks are free.
func (x *Executor) waitForRoom(m *engine.Message, o *Op, lacks int) {
	held := msg(m).Charge
	msg(m).Charge = flow.Bytes(m) // it was restored
	x.Room.Credits.Put(0, held-msg(m).Charge, 0)
	tr := retry.TrialOf(m)
	if tr == nil {
		tr = &retry.Trial{Attempts: retry.Tried(m)}
		retry.SetTrial(m, tr)
	}
	need := max(held-msg(m).Charge+lacks, 2*tr.Lacked) // a step that asks piece by piece should not wait often
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

// ForRoom says whether a trial waits for room, not for another attempt.
func ForRoom(t *retry.Trial) bool { return t != nil && t.Err != nil && inside.Lacks(t.Err) > 0 }
