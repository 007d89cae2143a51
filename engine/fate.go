package engine

// Fate is how a message ended: a root, or one of its pieces.
type Fate uint8

// The fates, best first: a root ends with the worst fate among its pieces.
const (
	Filtered     Fate = iota // a step dropped it on purpose
	Delivered                // an output has written it
	DeadLettered             // a dead-letter output has written it
	Dropped                  // it failed, and on_error or on_failure.then is drop
	Returned                 // it was handed back to its source
	fates                    // how many there are
)

var fateNames = [fates]string{"filtered", "delivered", "dead_lettered", "dropped", "returned"}

// String is the name of the fate in configuration and metrics.
func (f Fate) String() string {
	if f < fates {
		return fateNames[f]
	}
	return "in_flight"
}

// TakesBack says what a source can take back.
type TakesBack uint8

// What a source takes back decides what `on_failure.then` is by default.
const (
	TakesNothing  TakesBack = iota // nothing, as stdin: a failed message is dropped and reported
	TakesOne                       // single messages, as RabbitMQ, SQS and HTTP
	TakesPosition                  // a position, as Kafka and a file with a checkpoint: all messages behind it come again
)

// Trigger is why a batch left its batcher.
type Trigger string

// The triggers of a batch.
const (
	BySize     Trigger = "size"
	ByBytes    Trigger = "bytes"
	ByTimeout  Trigger = "timeout"
	ByFlush    Trigger = "flush"
	ByEnd      Trigger = "end"
	ByDrain    Trigger = "drain"
	ByEvicted  Trigger = "evicted"
	ByPressure Trigger = "pressure"
	ByRevoke   Trigger = "revoke" // see [Holding]
	ByKey      Trigger = "key"    // nothing is collected: a batcher with a key and no type
)
