package runtime

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/ledger"
	"github.com/flowd-io/flowd/engine/internal/stage"
)

// Report is the result of a run.
type Report struct {
	Pipeline   string
	Stats      engine.Stats
	Failures   []FailureGroup // failed messages, in order of first appearance
	HandedBack int64          // roots that were handed back unfinished
	Early      []Early        // batchers and groups whose batches left before they were complete
	Untold     int64          // roots that have ended but could not be acknowledged: their sources will deliver them again
	Drained    bool           // the run was asked to stop; it did not end by itself
	Err        error          // why the run itself failed, such as an output that did not open
}

// Code is the exit code: 0 clean; 1 failed; 3 drained with messages handed back, or not acknowledged.
func (r Report) Code() int {
	failed := r.Err != nil
	for _, f := range r.Failures {
		failed = failed || f.Fate == engine.Dropped || f.Fate == engine.Returned && !r.Drained
	}
	switch {
	case failed:
		return 1
	case r.HandedBack+r.Untold > 0:
		return 3
	}
	return 0
}

// Early counts the batches of a batcher or group, and those that left before they were complete.
type Early = stage.Early

// EarlyRemedy says how to avoid batches that leave early.
const EarlyRemedy = stage.EarlyRemedy

// FailureGroup counts failures of one class and fate at one place, for the same reason.
type FailureGroup = ledger.FailureGroup

// Failure describes a failed message.
type Failure = ledger.Failure
