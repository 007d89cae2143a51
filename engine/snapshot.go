package engine

import "time"

// Snapshot describes a pipeline at one moment. Stats and DeadLettered count since the pipeline has started, regardless of
// reloads. So does Failed, unless a reload has started the pipeline again after it had ended. The counts of components are
// since the last reload.
type Snapshot struct {
	Pipeline string
	State    State
	Since    time.Time // since when it is in this state, regardless of reloads
	Err      string    // why a stopped pipeline has failed; "": it has not
	Stats    Stats
	Started  time.Time

	Edges    []Edge // the ways that messages can go
	Inputs   []InputState
	Steps    []StepState // of the pipeline's own list, in order; inputs, batchers and outputs have theirs
	Batchers []BatcherState
	Outputs  []OutputState
	Limits   []LimitState // of the pipeline; inputs and outputs have theirs
	Tables   []TableState // of the process, if pipelines use them

	Lanes, LanesBusy      int
	Messages, MaxMessages int           // in flight, and allowed
	Bytes, MaxBytes       int           // in flight, and allowed
	Waiting               int           // messages that wait outside the queues for a retry, a key or a limit
	Retries               int           // messages among them that wait for a retry
	OldestUnsettled       time.Duration // age of the oldest message in flight; 0: none
	OldestAt              string        // its place in its source: "input log, path access.log, line 17"; may show data
	Held                  *Held         // the oldest message that waits for a retry or a limit; nil: none does
	Latency               Histogram     // of messages, from read to settled; since the pipeline has started
	DeadLettered          int64
	Failed                map[Class]int64 // failures by class, including those that were repaired or tried again

	// Stuck are loops and calls of plugins that are past their deadline.
	Stuck []Stuck

	// Troubles are reported by plugins.
	Troubles []Trouble
}

// Trouble says what keeps a plugin from its work; see [Troubled].
type Trouble struct {
	Place     string // the plugin, such as "step score"; the engine sets it
	Indicator string // a word for programs, such as pool_stalled
	Impact    string // what does not work
	Cause     string // why
	Action    string // what a person can do
	Since     time.Time
}

// Edge is a way of messages from one component to another: "input web", "batcher archive", "output lake". Without batchers,
// inputs lead to outputs. An output that consists of others leads to them.
type Edge struct {
	From, To string
	Failed   bool // it is for messages that have failed, whose outputs dead letters go to
}

// Held is a message that waits outside the queues. Later messages with its order key wait for it.
type Held struct {
	At  string        // its place in its source; may show data
	For string        // what it waits for, such as "a retry of output lake" or "the limit of step check"
	Err string        // why it is tried again; may show data
	Age time.Duration // since it was read
	Due time.Duration // until it continues
}

// State is what a pipeline is doing.
type State string

// The states of a pipeline.
const (
	Starting State = "starting"
	Running  State = "running"
	Paused   State = "paused"
	Draining State = "draining"
	Stopped  State = "stopped"
)

// InputState describes an input.
type InputState struct {
	Name, Type string
	State      string // reading, waiting (for credits), limited, paused, restarting, ended
	Received   int64
	Bytes      int64
	Restarts   int64
	Unacked    int64 // results that the source has not been told
	Err        string
	AckErr     string    // why acknowledgements have been failing for some time; "": they have not
	AckSince   time.Time // when they began to fail
	Progress   *Progress // nil: it does not know the end of its source
	Due        time.Time // when it reads next, by its schedule; zero: it does not wait for a time

	Instances []InstanceState
	Sources   []SourceState // of an input that reads several; see [Sourced]

	// Behind is how old the last message was when it was read, by the source's timestamp; while the input does not read, how
	// old the message is now. Nil: the source has no timestamps, or nothing was read.
	Behind *time.Duration
	Limit  *LimitState
	Steps  []StepState
}

// InstanceState describes one instance of an input, in the words of [InputState].
type InstanceState struct {
	State    string
	Received int64
	Restarts int64
	Err      string // "": it works
}

// SourceState describes one source of an input that reads several.
type SourceState struct {
	Name     string
	State    string // reading, held (what it has read waits for room), empty, restarting, ended, failed
	Weight   int    // 0: they have no weights
	Received int64
	InFlight int
	Due      time.Time // not read before; zero: at any time
	Err      string    // why it failed last; "": it works
}

// Progress is how far an input has read a source whose end it knows; see [Positioned].
type Progress struct {
	Bytes     bool       // positions count bytes; otherwise they count messages
	Positions []Position // of the parts that this input reads now, sorted by name
	Revoked   int64      // parts of the source that have moved to other readers since the start
	TakenAway int64      // messages that were read here, and are read again by others
}

// Lag is the sum of the lags of all parts.
func (p *Progress) Lag() (lag int64) {
	for _, at := range p.Positions {
		lag += at.Lag()
	}
	return lag
}

// Position is how far one part of a source was read, in the units of the source, such as Kafka's offsets.
type Position struct {
	Name    string // of the part, such as "orders/3" or the path of a file; never data of messages
	Settled int64  // the first position that is not settled; -1: it is not known where reading begins
	Read    int64  // the first position that was not read
	End     int64  // behind the last message, as far as the source has told
}

// Lag is the distance from Settled to End; 0 if it is not known.
func (p Position) Lag() int64 {
	if p.Settled < 0 {
		return 0
	}
	return max(0, p.End-p.Settled)
}

// StepState describes a step.
type StepState struct {
	Name, Type string
	In, Failed int64 // messages
	Retries    int64
	Latency    Histogram  // of its calls
	Pool       *PoolState // nil: it has no workers
}

// PoolState describes the workers of a step.
type PoolState struct {
	Waiting  int           // jobs that no worker has taken
	InFlight int           // jobs that workers have
	Slots    int           // of all workers
	Workers  []WorkerState // in other processes, sorted by name; none: the slots are in this process
}

// WorkerState describes a worker in another process.
type WorkerState struct {
	Name, Version string
	Slots, Busy   int
	Heard         time.Duration // since its last heartbeat
	Refused       string        // why it takes no jobs; "": it does
}

// BatcherState describes a batcher.
type BatcherState struct {
	Name    string
	Open    int               // messages in open batches
	Batches map[Trigger]int64 // sent, by trigger
	Fill    Histogram         // messages per batch; the bounds are counts, not seconds
	Steps   []StepState
}

// OutputState describes an output.
type OutputState struct {
	Name, Type   string
	DeadLetter   bool // it gets only dead letters
	Queued       int  // messages that wait to be written
	QueuedBytes  int
	Writing      int // writes in flight
	Concurrency  int // writes allowed at once
	Written      int64
	Failed       int64     // messages that a write failed, including those that were tried again
	Retries      int64     // messages that were tried again
	Abandoned    int64     // writes that did not return
	Latency      Histogram // of writes
	Delivery     Histogram // of messages, from read to written
	Breaker      string    // closed, open, probing, auth
	Err          string    // of the last attempt or probe; "": it succeeded
	FailingSince time.Time
	Refused      int64  // messages that it has failed for good since it last wrote one
	Refusal      string // why it failed the last of them; may show data
	Stalled      string // why the system behind it accepts nothing at present, in its own words; "": it does
	Limit        *LimitState
	Steps        []StepState
}

// LimitState describes a rate limit.
type LimitState struct {
	Name     string // of a shared limit; otherwise where it is: "engine", "input orders", "output lake", "step check"
	Messages int
	Per      time.Duration
	Keys     int   // of a limit by key: how many keys have a bucket
	Limited  int64 // how often reads, messages in steps, and the rest of a write have waited
}

// TableState describes a table of `resources.tables`.
type TableState struct {
	Name, Format string
	Rows         int   // 0: not known
	Bytes        int64 // of memory, roughly
	Read         time.Time
	Reloads      int64  // versions in use after the first
	Failed       int64  // versions that could not be used
	Err          string // why the newest version is not in use; "": it is in use
}

// Stuck is a call or a loop that is past its deadline.
type Stuck struct {
	Place string // "output lake", "step check", "batcher archive", "input orders"
	What  string // write, step, batcher, ack
	Since time.Time
}

// Histogram counts observations by upper bound. Its unit is seconds unless its field says otherwise.
type Histogram struct {
	Bounds []float64
	Counts []uint64 // one more than Bounds: the last one counts what is beyond all bounds
	Sum    float64
	Count  uint64

	// Native has the same counts by bucket of Prometheus' native histograms in the schema [NativeSchema]: bucket i is for
	// values above 2^((i-1)/8), up to 2^(i/8), and the first one for all that are smaller, too. Nil: they are not counted.
	Native map[int]int64
}

// NativeSchema is the schema of native histograms: eight buckets per power of two.
const NativeSchema = 3

// Stats counts messages. Roots are messages as they were read, pieces are what became of them.
type Stats struct {
	Roots  Counts
	Pieces Counts
}

// Counts are the numbers of the conservation law:
//
//	Received + Made = Consumed + all that Ended + InFlight
type Counts struct {
	Received, Made, Consumed int64
	Ended                    [fates]int64 // by Fate
	InFlight                 int64        // counted directly, not computed from the others
}

// Balanced says whether the law holds. While messages move it may not.
func (c Counts) Balanced() bool {
	sum := c.Consumed + c.InFlight
	for _, n := range c.Ended {
		sum += n
	}
	return c.Received+c.Made == sum
}
