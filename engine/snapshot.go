package engine

import "time"

// Snapshot is a pipeline as seen from outside, at one moment. Stats and DeadLettered
// count since the pipeline started, reloads or not; so does Failed, unless the pipeline
// had ended by itself. What components count is since the last reload.
type Snapshot struct {
	Pipeline string
	State    State
	Since    time.Time // since when it is in this state, reloads or not
	Err      string    // why it has failed, of a stopped one; "" otherwise
	Stats    Stats
	Started  time.Time

	Inputs   []InputState
	Steps    []StepState // of the pipeline's own list, in order; inputs', batchers' and outputs' steps lie there
	Batchers []BatcherState
	Outputs  []OutputState
	Limits   []LimitState // of the pipeline; those of inputs and outputs lie there
	Tables   []TableState // of the process, as far as pipelines use them

	Lanes, LanesBusy      int
	Messages, MaxMessages int           // in flight, and allowed
	Bytes, MaxBytes       int           // in flight, and allowed
	Waiting               int           // messages that wait outside the queues for a retry, a key or a limit
	Retries               int           // messages among them that wait for a retry
	OldestUnsettled       time.Duration // age of the oldest message in flight; 0: none
	OldestAt              string        // where that one is, in its source's own terms: "input log, path access.log, line 17"; may show data
	Held                  *Held         // the oldest message that waits for a retry or a limit; nil: none does
	DeadLettered          int64
	Failed                map[Class]int64 // failures by class, those repaired or tried again included

	// Stuck are loops, steps and writes that are past their own deadline.
	Stuck []Stuck

	// Troubles are what plugins say of themselves.
	Troubles []Trouble
}

// Trouble is what keeps a plugin from its work; see [Troubled].
type Trouble struct {
	Place     string // whose it is: "step score"; the engine sets it
	Indicator string // a word for machines: pool_stalled
	Impact    string // what does not happen
	Cause     string // why
	Action    string // what a person can do
	Since     time.Time
}

// Held is a message that waits outside the queues; later ones of its order key wait for it.
type Held struct {
	At  string        // where it is, in its source's own terms; may show data
	For string        // what it waits for: "a retry of output lake", "the limit of step check"
	Err string        // why it is to be tried again; may show data
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

// InputState is an input as seen from outside.
type InputState struct {
	Name, Type string
	State      string // reading, waiting (for credits), limited, paused, restarting, ended
	Received   int64
	Bytes      int64
	Restarts   int64
	Unacked    int64 // results that have not been reported to the source
	Err        string
	AckErr     string    // why acknowledgements have failed for some time; "": they have not
	AckSince   time.Time // when they began to fail
	Progress   *Progress // nil: it does not know where its source ends
	Limit      *LimitState
	Steps      []StepState
}

// Progress is how far an input has come, of a source whose end it knows; see [Positioned].
type Progress struct {
	Positions []Position // of the parts that this input reads now, sorted by name
	Revoked   int64      // parts that have moved to other readers since the start
	TakenAway int64      // messages that were read here, and that others read again
}

// Lag is how much is not settled in all parts.
func (p *Progress) Lag() (lag int64) {
	for _, at := range p.Positions {
		lag += at.Lag()
	}
	return lag
}

// Position is a place in one part of a source, counted in what the source counts: offsets of Kafka.
type Position struct {
	Name    string // of the part: "orders/3"; never data of messages
	Settled int64  // all before is settled; -1: it is not known where reading begins
	Read    int64  // all before was read
	End     int64  // there is nothing from here on, as far as was heard
}

// Lag is how much lies between what is settled and the end; 0 where that is not known.
func (p Position) Lag() int64 {
	if p.Settled < 0 {
		return 0
	}
	return max(0, p.End-p.Settled)
}

// StepState is a step as seen from outside.
type StepState struct {
	Name, Type string
	In, Failed int64 // messages
	Retries    int64
	Latency    Histogram // of its calls
}

// BatcherState is a batcher as seen from outside.
type BatcherState struct {
	Name    string
	Open    int               // messages in open batches
	Batches map[Trigger]int64 // sent, by trigger
	Fill    Histogram         // messages in them; the bounds are counts, not seconds
	Steps   []StepState
}

// OutputState is an output as seen from outside.
type OutputState struct {
	Name, Type   string
	DeadLetter   bool // takes only dead letters
	Queued       int  // messages that wait to be written
	QueuedBytes  int
	Writing      int // writes in flight
	Concurrency  int // writes allowed at once
	Written      int64
	Failed       int64 // messages that a write failed, those tried again included
	Retries      int64 // messages that were tried again
	Abandoned    int64 // writes that did not return
	Latency      Histogram
	Breaker      string // closed, open, probing, auth
	Err          string // of the last attempt or probe that failed; "" when the last one worked
	FailingSince time.Time
	Refused      int64  // messages in a row that it has failed for good, with none written between
	Refusal      string // why it failed the last of them; may show data
	Stalled      string // why the system behind it accepts nothing at present, as it reports itself; "": it does
	Limit        *LimitState
	Steps        []StepState
}

// LimitState is a rate limit as seen from outside.
type LimitState struct {
	Name     string // of a shared one; else "engine", "input orders", "output lake", "step check"
	Messages int
	Per      time.Duration
	Keys     int   // keys that have a bucket, of a keyed one
	Limited  int64 // waits: of reads, of messages in steps, of what is left of writes
}

// TableState is a table of `resources.tables` as seen from outside.
type TableState struct {
	Name, Format string
	Rows         int   // 0 where that is not known
	Bytes        int64 // of memory, about
	Read         time.Time
	Reloads      int64  // versions that were read after the first
	Failed       int64  // versions that could not be used
	Err          string // why the newest version is not in use; "": it is
}

// Stuck is a call or a loop past its own deadline.
type Stuck struct {
	Place string // "output lake", "step check", "batcher archive", "input orders"
	What  string // write, step, batcher, ack
	Since time.Time
}

// Histogram counts observations by upper bound, in seconds unless it says otherwise.
type Histogram struct {
	Bounds []float64
	Counts []uint64 // one more than Bounds: the last is beyond all of them
	Sum    float64
	Count  uint64
}

// Stats counts messages. Roots are what was read; pieces what became of them.
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
	InFlight                 int64        // counted by itself, never the difference
}

// Balanced says whether the law holds. It may not while messages move.
func (c Counts) Balanced() bool {
	sum := c.Consumed + c.InFlight
	for _, n := range c.Ended {
		sum += n
	}
	return c.Received+c.Made == sum
}
