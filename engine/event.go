package engine

import (
	"time"
)

// EventKind names what an [Event] is about.
type EventKind string

// The events of a pipeline.
const (
	EventStartup     EventKind = "startup"     // all inputs and outputs are open
	EventConnected   EventKind = "connected"   // an input was reopened after it failed, or an output is up again
	EventLost        EventKind = "lost"        // an input has failed and will be reopened, or an output is down
	EventDispatch    EventKind = "dispatch"    // an input has handed over N messages
	EventUtilization EventKind = "utilization" // N lanes have work
	EventStep        EventKind = "step"        // a step has had N messages, in a call of Took; Err is the first failure among them
	EventBatch       EventKind = "batch"       // a batcher has sent N messages; Reason is the trigger
	EventWrite       EventKind = "write"       // an output has had N messages, in a call of Took; Err is the first failure among them
	EventRetry       EventKind = "retry"       // N messages wait for a retry
	EventDeadLetter  EventKind = "dead_letter" // N messages go to the dead letters
	EventPaused      EventKind = "paused"      // reading is paused, or (Reason "resumed") continues
	EventQuiet       EventKind = "quiet"       // nothing is in flight
	EventDrain       EventKind = "drain"       // a drain has begun
	EventStopped     EventKind = "stopped"     // the pipeline has ended
)

// Event is something that happened in a pipeline.
type Event struct {
	Kind     EventKind
	Pipeline string
	Name     string    // of the input, step, batcher or output; "" is the pipeline
	At       time.Time // when it was over
	Took     time.Duration
	N        int
	Reason   string
	Err      error
}

// Hook receives the events of pipelines. It is called from the goroutine in which an event happens, at most once per batch,
// possibly from several goroutines at once, and must not block.
type Hook func(Event)
