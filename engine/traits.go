package engine

import (
	"time"

	"github.com/flowd-io/flowd/engine/expr"
)

// Traited is an optional ability of every kind of plugin: it declares its fixed properties. The configuration of a plugin
// may be Traited as well, for traits that are needed before anything is built, and so may an Acker, for Withholds. Traits
// is called before Open, and does no I/O.
type Traited interface{ Traits() Traits }

// Traits are the fixed properties of a plugin. They follow from its configuration, and are read when a pipeline is built,
// not while it runs. The zero value claims nothing. A plugin that wraps another returns the traits of the other, with the
// fields changed that differ. The plugin itself declares its traits, except those of which the comment says that the
// configuration is asked.
type Traits struct {
	// Of an input:

	// TakesBack says what the source of an input can take back. The default for failed messages follows from it, and Build
	// refuses an on_failure that the source can't carry out.
	TakesBack TakesBack
	// AcksEarly says that messages are acknowledged as soon as they are read, before they are delivered ("at most once").
	// The configuration must say so as well, since lint warns.
	AcksEarly bool
	// Delays is the longest time for which the source of an input can delay a message that it gets back; 0: it can't. Build
	// refuses intervals that are longer.
	Delays time.Duration
	// Withholds says that a source holds messages back while earlier messages with their key are in flight, as a FIFO queue
	// does. When a message is returned, the later ones with its order key are returned behind it, with [ErrBehind]. When one
	// is settled, a source that had no messages may have some again. The input `poll` asks its sources; the engine asks each
	// Acker when it is first returned.
	Withholds bool
	// Follows names the link through which outputs of the same process feed an input, such as a pipe; "": none do. Such an
	// input ends when its writers have ended; a drain does not stop it. The inputs `poll` and `sequence` refuse it.
	Follows string
	// Pushed says that clients push messages to an input, and wait if it reads less often. The input `poll` refuses it.
	Pushed bool
	// Ahead says that an input whose source keeps many positions itself limits how far it reads ahead of the settled
	// messages of each: to Env.MaxReplay. The engine limits other inputs. The input `poll` refuses it.
	Ahead bool
	// Exposed says that anyone on the network can send messages to an input without authentication. Lint asks the
	// configuration, and warns.
	Exposed bool
	// Forgets says that the source of an input keeps no messages: those that arrive while nobody reads, or that a crash
	// loses, are gone. Lint asks the configuration, and warns unless Lossy says that the user knows.
	Forgets, Lossy bool
	// Unsettled is how many unsettled messages a source allows before it delivers no more; 0: no limit. Lint asks the
	// configuration, and warns of batches that never fill.
	Unsettled int
	// DeliveryLimit is how often a source delivers one message, if it counts deliveries, including those that come back
	// unread; 0: no limit. HandsBack is how many messages a stop may hand back unread; 0 if the input avoids that itself.
	// Build asks the configuration, and warns if HandsBack is too large.
	DeliveryLimit, HandsBack int

	// Of an input or an output:

	// OrderBy is the `order_by` with which a pipeline keeps the order that the source or sink keeps; "": it keeps no order.
	// Build warns about a pipeline without order_by.
	OrderBy string

	// Transacts names the system, such as a Kafka cluster, in whose transactions the component can take part with
	// `engine.exactly_once`. An input and an output with the same name share transactions. "": it has no transactions. Lint
	// asks the configuration.
	Transacts string

	// Of a processor:

	// Effects are effects of a step that a transaction can't undo. Lint asks the configuration.
	Effects Effects

	// Together is how many messages a run of steps should have at least, if so many are there. It is for a processor that
	// can wait for several messages at once, such as for their answers. Otherwise, since runs of slow steps are kept short,
	// each lane would wait for one message at a time.
	Together int
	// Keeps is for a processor that keeps values which later messages read. If a step reads what another writes, or
	// continues what an earlier message has left, messages with equal order keys go through the pipeline's own steps one by
	// one. Build warns if they are not ordered.
	Keeps Keeping
	// Undoes says that the Settler of a processor is an [Undoer]: steps around the processor undo its stakes when they fail.
	Undoes bool
	// TriesItself says that a processor retries by itself, with a timeout for each attempt. It does not inherit
	// engine.on_failure.retry and engine.timeout; a retry or timeout on the step itself still applies. The configuration
	// must say so as well, for commands that show what a step inherits.
	TriesItself bool
	// WholeBatches says that a processor only works on whole batches. Build refuses it elsewhere.
	WholeBatches bool
	// ManyLines says that a processor turns a batch into a text with one line per message. Lint asks the configuration; see
	// OneLine.
	ManyLines bool

	// Of a batcher:

	// Size is how many messages a full batch has; 0: any number. Lint and Build ask the configuration.
	Size int

	// Of an output:

	// Sequential says that if a message of a write fails, the output does not write later messages with the same Key in
	// that write, or does not write any later message, and fails them with [ErrBehind]. Other outputs never get two messages
	// with the same order key in one write.
	Sequential bool
	// Bulk says that a write costs about as much for many messages as for few, for example because it waits for the answer
	// of a server. Such an output gets up to 2,048 messages per write, others 256.
	Bulk bool
	// OneLine says that an output writes each message as one line, and refuses messages with several lines. Lint asks the
	// configuration, and warns of steps with ManyLines.
	OneLine bool
	// Members are the names of other outputs, for an output that writes nothing itself but consists of those. Lint and Build
	// ask the configuration.
	Members Names
}

// Effects are what a step does besides changing messages.
type Effects uint8

// The effects of steps.
const (
	NoEffects         Effects = iota
	EffectsElsewhere          // it calls another system, which may see a message more than once
	EffectsOnDelivery         // it changes its own state when a message has been delivered, and a transaction may abort after that
)

// Keeping describes the values that a processor keeps, by a key, in a cache or in its own state.
type Keeping struct {
	Name          string // of the cache; "": no other step can read the values
	Key           *expr.Expr
	Reads, Writes bool
	// Folds says that a message continues what the message before it with the same key has left, so that their order
	// matters. The processor itself makes each message see the one before it. Build warns if nothing orders them.
	Folds bool
	// Names are the names that state() reads. Two steps must not keep the same name by the same key unless they share it.
	// Lint asks the configuration, and Build the processor.
	Names []string
	// Waits says that a value is final when a message reads it. Lint asks the configuration.
	Waits bool
}

// TraitsOf returns the traits of a plugin, its configuration or its Acker; the zero value if it is not [Traited].
func TraitsOf(x any) (t Traits) {
	if x, ok := x.(Traited); ok {
		t = x.Traits()
	}
	return t
}
