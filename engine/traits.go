package engine

import (
	"time"

	"github.com/flowd-io/flowd/engine/expr"
)

// Traited is an optional ability of every kind: the plugin says what it is. Its
// configuration may be Traited as well, for what is asked before anything is built,
// and so may an Acker, for Withholds. Traits is called before Open, and does no I/O.
type Traited interface{ Traits() Traits }

// Traits is what a plugin says about itself. It follows from the configuration and
// never changes: it is read when a pipeline is built, not while it runs. The zero value
// claims nothing. A plugin that wraps another returns the other's traits and changes the
// fields that differ. The plugin itself is asked, but for fields of which lint or Build
// asks the configuration: a plugin without one can't claim those.
type Traits struct {
	// Of an input:

	// TakesBack is what the source of an input takes back. Build derives from it what
	// becomes of messages that failed, and refuses what the source can't do.
	TakesBack TakesBack
	// AcksEarly says that a source is told of a message at once when it is read, as of a
	// delivered one ("at most once"). The configuration says so as well, since lint warns.
	AcksEarly bool
	// Delays is the longest time after which the source of an input can deliver one
	// message again; 0: it can't delay one. Build refuses intervals that are longer.
	Delays time.Duration
	// Withholds says that a source holds messages back while earlier ones of their key are
	// under way, as a FIFO queue does. So when one goes back, the later ones of its order
	// key go back behind it, with [ErrBehind]; and a source that had nothing may have
	// something when one is settled. The input `poll` asks its sources; the engine asks
	// each Acker when it is first returned.
	Withholds bool
	// Follows names the link by which outputs of the same process feed an input, such as
	// a pipe; "" is none. A drain does not stop such an input, its writers' end does. The
	// inputs `poll` and `sequence` refuse it.
	Follows string
	// Pushed says that others push messages to an input, so that reading less often
	// only makes them wait: the input `poll` refuses it.
	Pushed bool
	// Ahead says that an input, whose source keeps many positions, bounds by itself how far
	// it reads ahead of what is settled: Env.MaxReplay says how far. The engine bounds
	// others. The input `poll` refuses it.
	Ahead bool
	// Exposed says that anybody on the network may send messages to an input, without
	// showing who they are. Lint asks the configuration, and warns.
	Exposed bool
	// Forgets says that the source of an input keeps no message: what arrives while nobody
	// reads, or is lost in a crash, is gone. Lint asks the configuration, and warns.
	Forgets bool
	// Unsettled is how many messages a source gives before the first of them are settled;
	// 0: there is no such bound. Lint asks the configuration, and warns of batches that
	// never fill.
	Unsettled int
	// DeliveryLimit is how often a source gives out a message, where it counts that, also
	// for what comes back unread; 0: without a limit. HandsBack is how many messages
	// a stop may hand back unread, 0 where the input sees to that itself. Build asks the
	// configuration, and warns where that is too many.
	DeliveryLimit, HandsBack int

	// Of an input or an output:

	// OrderBy is what to write as `order_by` so that a pipeline keeps the order that the
	// source, or the sink, keeps; "": it keeps none. Build warns where a pipeline has no
	// order.
	OrderBy string

	// Transacts names the transactions that an input and the outputs of its pipeline share
	// with `engine.exactly_once`, such as those of a cluster; "": there are none. Lint asks
	// the configuration.
	Transacts string

	// Of a processor:

	// Effects is what a step does that a transaction can't take back. Lint asks the
	// configuration.
	Effects Effects

	// Together is for a processor that waits for others rather than works, for several
	// messages at once: runs of the program get at least so many messages, where there are
	// as many. Else each lane would wait for one at a time, since runs of slow steps are
	// short.
	Together int
	// Keeps is for a processor that keeps values which other steps see. Messages with
	// equal order keys go through a pipeline's own steps one by one where one of these
	// reads what another writes, or which continue what another has left, and Build warns where they do not.
	Keeps Keeping
	// Undoes says that what a processor stakes can be taken back: its Settler is an [Undoer], and the steps that it is
	// inside of take back what it has staked when they fail.
	Undoes bool
	// TriesItself says that a processor tries what failed again by itself, with a timeout
	// for each try: engine.on_failure.retry and engine.timeout are not for it, only a retry
	// and a timeout that are written on the step. The configuration says so as well, for
	// those who show what a step inherits.
	TriesItself bool
	// WholeBatches says that a processor only makes sense where it gets whole batches.
	// Build refuses it elsewhere.
	WholeBatches bool
	// ManyLines says that a processor makes a text with a line for each message of a batch.
	// Lint asks the configuration; see OneLine.
	ManyLines bool

	// Of a batcher:

	// Size is how many messages a batch of a batcher is to have; 0: any number. Lint and
	// Build ask the configuration.
	Size int

	// Of an output:

	// Sequential says of an output that when one message of a write fails, it does not
	// write the later ones of the same Key in that write, or simply all later ones, but
	// fails them with [ErrBehind]. Else no write has two messages of one order key.
	Sequential bool
	// Bulk says that a write of an output costs about the same for many messages as for few, as where it waits for
	// the answer of a server: it gets up to 2,048 that wait, where others get 256.
	Bulk bool
	// OneLine says that an output writes each message as a line, and refuses text of several.
	// Lint asks the configuration, and warns of batches that become such text.
	OneLine bool
	// Members are the other outputs of which an output consists that writes nothing
	// itself. Lint and Build ask the configuration.
	Members Names
}

// Effects is what a step does beside changing messages.
type Effects uint8

// The effects of steps.
const (
	NoEffects         Effects = iota
	EffectsElsewhere          // another system is called: it may see a message more than once
	EffectsOnDelivery         // a state of its own changes with a message's end, which a transaction may undo
)

// Keeping is how a processor keeps values: it reads or writes those of a cache, by a key.
type Keeping struct {
	Name          string // of the cache; "": no other step sees it
	Key           *expr.Expr
	Reads, Writes bool
	// Folds says that a message continues what the one before it with the same key has left, so that their order
	// counts; the processor itself lets one see the other. Build warns where nothing orders them.
	Folds bool
	// Names are what state() reads of it, and Waits says that it is final when a message finds it. Lint asks the
	// configuration, and Build the processor for Names: two must not keep one name by one key without sharing it.
	Names []string
	Waits bool
}

// TraitsOf is what a plugin, its configuration or its Acker says about itself.
func TraitsOf(x any) (t Traits) {
	if x, ok := x.(Traited); ok {
		t = x.Traits()
	}
	return t
}
