package engine

// Fate is how a piece, or a root, ended.
type Fate uint8

// The fates, best first: a root ends with the worst fate among its pieces.
const (
	Filtered     Fate = iota // a step dropped it on purpose
	Delivered                // an output confirmed it
	DeadLettered             // a dead-letter output confirmed it
	Dropped                  // `drop`, of a step or of on_failure.then
	Returned                 // handed back to its source
	fates                    // how many there are
)

var fateNames = [fates]string{"filtered", "delivered", "dead_lettered", "dropped", "returned"}

// String is the fate as configuration and metrics spell it.
func (f Fate) String() string {
	if f < fates {
		return fateNames[f]
	}
	return "in_flight"
}

// TakesBack is what a source takes back of a message.
type TakesBack uint8

// What a source takes back decides what `on_failure.then` is by default.
const (
	TakesNothing  TakesBack = iota // stdin, generate: a failed message is dropped and reported
	TakesOne                       // RabbitMQ, SQS, HTTP: each message individually
	TakesPosition                  // Kafka, a checkpointed file: all up to a place
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
