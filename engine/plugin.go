package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// Input reads messages from a source.
//
// One goroutine calls Read, with credits taken. Read waits for the first message only, adds
// up to b.Room() messages with b.Add, and returns at once when ctx ends. What was added
// counts even with an error. [ErrEnd] ends the input. After any other error, io.EOF included,
// the input is closed and opened again.
type Input interface {
	Read(ctx context.Context, b *Batch) (Acker, error)
}

// Acker gets the results of messages. There is one per connection (nil where the source
// takes nothing back); it gets the results of all Reads that returned it, those of one call
// in read order, each Ref once, one call at a time, until the input is closed. It returns
// the results worth sending again, and keeps no part of the slice. The engine sends those
// again until the pipeline ends.
type Acker interface {
	Ack(ctx context.Context, results []Result) (again []Result, err error)
}

// Result is how one message ended.
type Result struct {
	Ref   uint64        // what the input gave as Message.Ref
	Fate  Fate          // never in flight
	Err   *Error        // why, for DeadLettered, Dropped and Returned
	Delay time.Duration // of a Returned one: deliver again only after this, where the source can
}

// Stopper is an optional ability of an Input: no Read follows; it releases what was
// prefetched. Acks may still follow.
type Stopper interface {
	Stop(ctx context.Context) error
}

// Yielder is an ability of an Input that follows outputs ([Traits.Follows]): another plan takes
// its own plan's place, and so does that of what writes to it, which would never end. A Read under
// way and later ones return [ErrEnd], until resume is called: then the input, if the next plan
// continues with it, reads on where it was.
type Yielder interface {
	Yield() (resume func())
}

// Leaser is an optional ability of an Acker whose source leases messages: Renew extends the
// lease of refs, the handles of what has not ended, and returns which are lost, and when to
// call again. One goroutine calls it, concurrently with Read and Ack, from the first
// message to the last Ack, also when there are no refs. A lost message goes into no further
// step or write, ends as returned, and is not acked.
type Leaser interface {
	Renew(ctx context.Context, refs []uint64) (lost []uint64, next time.Duration, err error)
}

// Revoker is an optional ability of an Acker whose source may want messages back that are
// under way, as Kafka does when a partition moves. Holds is called before the first of its
// messages is, and again when another plan takes the pipeline's place.
type Revoker interface{ Holds(h Holding) }

// Holding is what a pipeline has under way of the messages of one Acker. Its methods are
// safe for concurrent use, and wait for nothing.
type Holding interface {
	// Hurry has open batches, windows and groups leave as soon as messages are in them,
	// with [ByRevoke], until calm is called.
	Hurry() (calm func())
	// Take takes messages away: what has not ended goes into no further step or write, ends
	// as returned, and is not acked. It says how many messages these are. Those that a Read
	// under way has added are asked for, and taken, when it has returned: they are not counted.
	Take(gone func(ref uint64) bool) int
	// Waits says whether the input reads less than it could, because messages before are
	// not settled. Meanwhile open batches may leave early, as when credits are short.
	Waits(yes bool)
}

// Settler learns how the roots ended on which a step had put a stake with
// [Message.Stake]. committed were delivered, filtered or dead-lettered; those of a
// [Message.StakeOnDelivery] delivered or filtered.
// It is called from any goroutine, possibly from several at once.
type Settler interface {
	Settle(ctx context.Context, committed, rolledBack []uint64)
}

// Saver is an optional ability of a Settler that saves what is committed: sources are told of messages in which it
// has a stake when that is safe, or given up. Save is called after a Settle, and calls then once, from any goroutine,
// when all that was committed before is.
type Saver interface {
	Save(then func())
}

// Processor edits messages.
//
// Process edits what b.All yields: the live messages for which `when` is true. One instance
// serves all lanes at once. A message that it does not mention continues; an error fails
// all of them.
type Processor interface {
	Process(ctx context.Context, b *Batch) error
}

// Middleware wraps every run of steps: of a pipeline, an input, a batcher or an output, the
// runs of resumed messages included. next carries out the steps; what it is not called for
// continues as it is.
type Middleware func(next Processor) Processor

// Batcher regroups messages.
//
// It has no clock and no goroutine: one loop calls it and passes the time. Add moves the
// messages of b into open batches with b.Move; Due is when the next one is due (zero:
// none). Flush emits the oldest batches until n messages have left, all of them when n < 0;
// with ByTimeout it emits those that are due. A Batcher serves one batcher of one pipeline.
type Batcher interface {
	Add(b *Batch, now time.Time, emit Emit)
	Due() time.Time
	Flush(now time.Time, why Trigger, n int, emit Emit)
}

// Emit sends a batch on. The batcher gives the batch away.
type Emit func(b *Batch, why Trigger)

// Output writes messages to a sink.
//
// Up to `concurrency` Writes run at once. After nil, all messages that the write did not
// fail are safe; an error fails those that are neither Done nor failed. A message may be
// written again.
type Output interface {
	Write(ctx context.Context, b *Batch) error
}

// Prober is an optional ability of an Output: Probe says whether a write has a chance now,
// without writing. It is called while the breaker is open and after credentials were
// refused; a Write may run concurrently. When it returns nil, one message is written before
// the others: only that proves that the output works.
type Prober interface {
	Probe(ctx context.Context) error
}

// Staller is an optional ability of an Output: Stalled says why the system behind it
// accepts nothing at present, in that system's words, or "". It is called at any time, from
// any goroutine, and must not wait for anything.
type Staller interface{ Stalled() (why string) }

// Opener is an optional ability of every kind: called once before the first use, outputs
// before inputs. Build does no I/O; this is where it starts.
//
// An input or output whose Open fails for a cause that may pass ([Passes]) is opened again
// until that works: nothing is read or written before. Any other error ends the start. Close
// is only called after an Open that returned nil.
//
// An input that has failed is closed and opened again; it continues where it was. It counts
// as recovered when Read has not failed for a second after Open: Open should fail if there is
// no connection, so that Read need not. The error of a Read that has tried for a while gives
// the start, in FirstFailed.
type Opener interface {
	Open(ctx context.Context) error
}

// Closer is an optional ability of every kind: called after the last use, once
// per Open.
type Closer interface {
	Close(ctx context.Context) error
}

// Reopener is an optional ability of every kind: Reopen closes what the plugin has open by a
// path, such as a file, and opens what the path names now. It is called when a reload leaves
// the plugin as it is, before the next Read or Write; calls that were abandoned may still be
// under way. What can't be opened is opened by the next call that needs it, which reports why.
type Reopener interface{ Reopen(ctx context.Context) }

// Troubled is an optional ability of every kind: Trouble says what keeps the plugin from
// its work although no call of it fails, such as a system behind it that takes work and
// does not do it; nil means nothing. The pipeline is then not ready. It is called from any
// goroutine, once the plugin is open, also during and after Close, and returns at once.
type Troubled interface{ Trouble() *Trouble }

// Tabled is an ability of what holds a table of `resources.tables`: Table is its state, but for
// its name. It is called from any goroutine, and must not wait for anything.
type Tabled interface{ Table() TableState }

// Positioned is an optional ability of an Input that reads a source of which it knows the
// end. Progress is called from any goroutine, once the input is open, also during and after
// Close, and must not wait for anything. The caller owns the answer.
type Positioned interface{ Progress() Progress }

// Limited is an optional ability of an Input that is pushed to: the goroutine that calls
// Read says until when it waits for a rate limit, so that the input can refuse what arrives
// meanwhile, and the zero time when the wait is over.
type Limited interface{ Limited(until time.Time) }

// Lister is an ability of an Input that names its queues by a pattern: its
// Read and Open are never called, for each queue the input poll reads one that Only makes.
type Lister interface {
	// List gives the names of the queues that there are now.
	List(ctx context.Context) ([]string, error)
	// Only makes an input for one of them, without I/O.
	Only(queue string) (Input, error)
}

// ProcessorFunc makes a Processor of a function that edits one message; its
// error, and its panic, fail that message alone.
type ProcessorFunc func(ctx context.Context, m *Message) error

// Edit is a ProcessorFunc that looks at nothing but its message, changes nothing else, and never waits. Several messages
// of one order key may go through such steps at once: they leave them in their order.
type Edit struct {
	ProcessorFunc
	Calls expr.Calls // those in its expressions
}

// Process calls f for each message.
func (f ProcessorFunc) Process(ctx context.Context, b *Batch) error {
	for at := 0; at < b.Len(); {
		at = f.each(ctx, b, at)
	}
	return nil
}

// each calls f for the messages from a place on, until it panics, and returns the
// place behind them. Who works on one message at a time needs to remember only one.
func (f ProcessorFunc) each(ctx context.Context, b *Batch, at int) (next int) {
	var m *Message
	var before inside.Mark[Meta]
	own := ownerOf(b.in.Arena)
	defer func() {
		if r := recover(); r != nil {
			if b.in.Restores {
				before.Restore(&m.in.Doc, &m.Meta)
			}
			m.Fail(panicked(r))
			next = at + 1
		}
	}()
	for ; at < b.Len(); at++ {
		if m = b.in.Nth(at); m.in.State != inside.Live {
			continue
		}
		if own != nil && m.in.Charge > len(m.in.Orig)+inside.Slack {
			own.Regain(m)
		}
		if b.in.Restores || own != nil {
			before = inside.MarkOf(&m.in.Doc, m.Meta)
		}
		spent := b.in.Arena.Spent()
		if err := f(ctx, m); err != nil {
			m.Fail(err)
		}
		if spent = b.in.Arena.Spent() - spent; spent > inside.Slack && own != nil && m.in.State == inside.Live {
			if err := own.Settle(m, spent); err != nil {
				m.Fail(err)
			}
		}
		if m.in.State != inside.Live && (b.in.Restores || m.in.State == inside.Failed && inside.Lacks(m.in.Err) > 0) {
			ends(m, &before)
		}
	}
	return at
}

// ends is told that a message, which it was as before says, has failed, waits or has ended.
func ends(m *Message, before *inside.Mark[Meta]) {
	switch m.in.State {
	case inside.Failed:
		before.Restore(&m.in.Doc, &m.Meta)
	case inside.Parked:
		m.in.Parking.Before = before.Kept(&m.in.Doc)
	}
}

func panicked(r any) *Error {
	return &Error{Class: Panicked, Err: fmt.Errorf("panic: %v\n%s", r, debug.Stack())}
}

// Recovered, deferred around a plugin's call, makes an error of its panic.
func Recovered(err *error) {
	if r := recover(); r != nil {
		*err = panicked(r)
	}
}
