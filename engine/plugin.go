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
// One goroutine calls Read. Read waits for a first message only, adds up to b.Room() messages with b.Add, and returns at
// once when ctx ends. Messages that were added count even if Read returns an error. [ErrEnd] ends the input. After any
// other error, including io.EOF, the input is closed and opened again.
type Input interface {
	Read(ctx context.Context, b *Batch) (Acker, error)
}

// Acker gets the results of messages. An input has one per connection, or nil if its source takes nothing back.
//
// Ack gets the results of all Reads that returned this Acker: each Ref once, and those of one call in the order of
// reading. It is called by one goroutine at a time, until the input is closed. It returns the results that should be
// sent again; the engine repeats those until the pipeline ends. It must not keep the slice.
type Acker interface {
	Ack(ctx context.Context, results []Result) (again []Result, err error)
}

// Result is how one message ended.
type Result struct {
	Ref   uint64        // the Message.Ref that the input gave it
	Fate  Fate          // how it ended
	Err   *Error        // why, if Fate is DeadLettered, Dropped or Returned
	Delay time.Duration // of a Returned message: the source should not deliver it again before this, if it can delay
}

// Stopper is an optional ability of an Input. Stop is called when no Read follows: the input gives prefetched messages
// back to the source. Acks may still follow.
type Stopper interface {
	Stop(ctx context.Context) error
}

// Yielder is an ability of an Input that follows outputs ([Traits.Follows]). Yield is called when a reload replaces the
// plan of the input, and the plans of its writers, so that their end does not end it. A Read under way and later ones
// return [ErrEnd] until resume is called. If the next plan keeps the input, it then reads on where it was.
type Yielder interface {
	Yield() (resume func())
}

// Leaser is an optional ability of an Acker whose source leases messages for a time. Renew extends the leases of refs,
// the Refs of messages that have not ended. It returns the refs whose lease is lost, and when to call it again. One
// goroutine calls it, concurrently with Read and Ack, from the first message to the last Ack, even with no refs. A
// message whose lease is lost enters no further step or write, ends as returned, and is not acknowledged.
type Leaser interface {
	Renew(ctx context.Context, refs []uint64) (lost []uint64, next time.Duration, err error)
}

// Revoker is an optional ability of an Acker whose source may take back messages that are in flight, as Kafka does when
// a partition moves. Holds is called before the first message of the Acker moves on, and again when a reload puts
// another plan in the pipeline's place.
type Revoker interface{ Holds(h Holding) }

// Holding is the messages of one Acker that a pipeline has in flight. Its methods are safe for concurrent use and never
// block.
type Holding interface {
	// Hurry makes batches, windows and groups leave as soon as they have messages, with trigger [ByRevoke], until calm is
	// called.
	Hurry() (calm func())
	// Take takes away the messages for which gone returns true. Those that have not ended enter no further step or write,
	// end as returned, and are not acknowledged. Take returns how many these are. It also asks about messages that a Read
	// under way has added, when that Read has returned; it does not count those.
	Take(gone func(ref uint64) bool) int
	// Waits says whether the input reads less than it could, because earlier messages are not settled. Meanwhile open
	// batches may leave early, as when credits are short.
	Waits(yes bool)
}

// Settler learns how messages ended on which a step had put a stake, with [Message.Stake] or [Message.StakeOnDelivery].
// Stakes are committed if their messages were delivered, filtered or dead-lettered, except that a StakeOnDelivery is
// rolled back by a dead letter. Settle is called from any goroutine, possibly from several at once.
type Settler interface {
	Settle(ctx context.Context, committed, rolledBack []uint64)
}

// Saver is an optional ability of a Settler that saves committed stakes. Sources learn of messages with such a stake
// only when the stake is saved, or saving is given up. Save is called after a Settle. It calls then once, from any
// goroutine, when all stakes that were committed before are saved or given up.
type Saver interface {
	Save(then func())
}

// Processor edits messages.
//
// Process works on the messages that b.All yields: those that have not ended and for which `when` is true. It may be
// called from several goroutines at once, since one instance serves all lanes. Messages that it leaves alone continue;
// an error fails all of them.
type Processor interface {
	Process(ctx context.Context, b *Batch) error
}

// Middleware wraps every run of steps of a pipeline, an input, a batcher or an output, including runs of messages that
// are resumed. next runs the steps. If it is not called, the messages continue as they are.
type Middleware func(next Processor) Processor

// Batcher regroups messages.
//
// It has no clock and no goroutine: one goroutine calls it and passes the time. Add moves the messages of b into open
// batches with b.Move. Due returns when the next open batch is due, or the zero time. Flush emits the oldest batches
// until n messages have left, or all batches if n < 0; with [ByTimeout] it emits those that are due. A Batcher serves one
// batcher of one pipeline.
type Batcher interface {
	Add(b *Batch, now time.Time, emit Emit)
	Due() time.Time
	Flush(now time.Time, why Trigger, n int, emit Emit)
}

// Emit sends a batch on. The batcher must not use the batch afterwards.
type Emit func(b *Batch, why Trigger)

// Output writes messages to a sink.
//
// Up to `concurrency` Writes run at once. If Write returns nil, all messages that it did not fail are safe. An error fails
// the messages that are neither Done nor failed. A message may be written more than once.
type Output interface {
	Write(ctx context.Context, b *Batch) error
}

// Prober is an optional ability of an Output. Probe finds out without writing whether a write may succeed now. It is
// called while the breaker is open, and after credentials were refused; a Write may run concurrently. If it returns nil,
// one message is written before all others, since only that proves that the output works.
type Prober interface {
	Probe(ctx context.Context) error
}

// Staller is an optional ability of an Output. Stalled returns why the system behind the output accepts nothing at
// present, in the words of that system, or "". It is called at any time, from any goroutine, and must not block.
type Staller interface{ Stalled() (why string) }

// Opener is an optional ability of every kind of plugin. Open is called before the first use, for outputs before inputs.
// Building does no I/O; I/O starts here.
//
// If Open of an input or output fails for a cause that may pass ([Passes]), it is called again, after a back-off, until
// it succeeds. Nothing is read or written before. Any other error ends the start of the pipeline. Close is only called
// after an Open that returned nil.
//
// An input that has failed is closed and opened again, and continues where it was. It counts as recovered when Read has
// not failed for a second after Open. Open should therefore fail if there is no connection, so that Read need not. If a
// Read fails after it has tried for a while, its error says since when, in FirstFailed.
type Opener interface {
	Open(ctx context.Context) error
}

// Closer is an optional ability of every kind of plugin. Close is called after the last use, once per Open.
type Closer interface {
	Close(ctx context.Context) error
}

// Reopener is an optional ability of every kind of plugin. Reopen closes what the plugin has opened by a path, such as a
// file, and opens what the path names now. It is called before the next Read or Write when a reload keeps the plugin;
// calls that were abandoned may still be running. If something can't be opened, the next call that needs it tries again
// and reports the error.
type Reopener interface{ Reopen(ctx context.Context) }

// Troubled is an optional ability of every kind of plugin. Trouble says what keeps the plugin from its work although no
// call fails, such as a system that accepts work and does not do it. nil means that all is well; otherwise the pipeline
// is not ready. It is called from any goroutine once the plugin is open, also during and after Close, and must not block.
type Troubled interface{ Trouble() *Trouble }

// Tabled is an ability of a resource that is a table of `resources.tables`. Table returns its state without the name. It
// is called from any goroutine, and must not block.
type Tabled interface{ Table() TableState }

// Positioned is an optional ability of an Input that knows the end of its source. Progress is called from any goroutine
// once the input is open, also during and after Close, and must not block. The caller owns the result.
type Positioned interface{ Progress() Progress }

// Scheduled is an optional ability of an Input that reads at certain times. Due returns for which time a Read waits; zero: it
// does not wait for a time. It is called from any goroutine once the input is open, also during and after Close, and must
// not block.
type Scheduled interface{ Due() time.Time }

// Sourced is an optional ability of an Input that reads several sources. Sources returns their states, up to a thousand,
// those that fail first. It is called like Due of [Scheduled]. The caller owns the result.
type Sourced interface{ Sources() []SourceState }

// Pooled is an optional ability of a Processor that has workers do its work. Pool returns their state. It is called like
// Trouble of [Troubled]. The caller owns the result.
type Pooled interface{ Pool() PoolState }

// Limited is an optional ability of an Input to which others push messages. The goroutine that calls Read calls Limited
// with the time until which it waits for a rate limit, so that the input can refuse messages meanwhile, and with the
// zero time when the wait is over.
type Limited interface{ Limited(until time.Time) }

// Lister is an ability of an Input whose configuration names its queues by a pattern. Its Read and Open are never called.
// Instead, the input `poll` reads each queue from an input that Only makes.
type Lister interface {
	// List returns the names of the present queues.
	List(ctx context.Context) ([]string, error)
	// Only makes an input for one queue, without I/O.
	Only(queue string) (Input, error)
}

// ProcessorFunc is a Processor made of a function that edits one message. Its error, or its panic, fails that message
// alone. It may be called from several goroutines at once.
type ProcessorFunc func(ctx context.Context, m *Message) error

// Edit is a ProcessorFunc that reads and changes nothing but its message, and never waits. Several messages with the same
// order key may be in such steps at once; they still leave the lanes in order.
type Edit struct {
	ProcessorFunc
	Calls expr.Calls // the calls in its expressions
}

// Process calls f for each message.
func (f ProcessorFunc) Process(ctx context.Context, b *Batch) error {
	for at := 0; at < b.Len(); {
		at = f.processFrom(ctx, b, at)
	}
	return nil
}

// processFrom calls f for the messages from an index on, until f panics. It returns the index behind the last message.
func (f ProcessorFunc) processFrom(ctx context.Context, b *Batch, at int) (next int) {
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
			restoreAfter(m, &before)
		}
	}
	return at
}

// restoreAfter handles a message that did not stay live in a call, and was as before says: a failed one is restored, and
// a parked one keeps how it was.
func restoreAfter(m *Message, before *inside.Mark[Meta]) {
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

// Recovered is deferred around a call of a plugin. It turns a panic into an error of class panic.
func Recovered(err *error) {
	if r := recover(); r != nil {
		*err = panicked(r)
	}
}
