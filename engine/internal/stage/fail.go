package stage

import (
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/ledger"
	"github.com/flowd-io/flowd/engine/internal/retry"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// lostWith is why a message is lost that had not ended when the pipeline stopped;
// cause is what interrupted it or what it waited for, or nil.
func lostWith(cause *engine.Error) *engine.Error {
	const why = "the pipeline stopped before this message was finished, and its source takes nothing back"
	if cause == nil {
		e := engine.Errorf(engine.Transient, why)
		e.HandedBack()
		return e
	}
	return (&engine.Error{Class: cause.Class, Step: cause.Step, Output: cause.Output, Err: fmt.Errorf(why+": %w", cause)}).HandedBack()
}

// returnable says whether a source takes back something of m.
func returnable(m *engine.Message) (yes bool) {
	ledger.EachRoot(m, func(r ledger.Root) { yes = yes || r.Led.Takes != engine.TakesNothing })
	return yes
}

// bury makes a dead letter of m: the payload as received or split, the metadata,
// and error_* beside it.
func bury(m *engine.Message) {
	if msg(m).Orig != nil {
		msg(m).Doc.Reset(msg(m).Orig, nil)
	}
	explain(m)
	msg(m).BatchKey, msg(m).Batch = "", nil
	retry.SetTrial(m, &retry.Trial{Reason: msg(m).Err})
	setVia(m, nil)
	steps.SetBlock(m, nil)
	msg(m).State, msg(m).Stage, msg(m).Dead = inside.Live, inside.Fresh, true
}

// unburied is why a message failed whose dead letter was refused.
func unburied(m *engine.Message) *engine.Error {
	if retry.TrialOf(m) == nil || retry.TrialOf(m).Reason == nil {
		return msg(m).Err
	}
	e := *retry.TrialOf(m).Reason
	e.Delay, e.Err = msg(m).Err.Delay, bothReasons(m)
	return &e
}

// bothReasons is what the write of m failed with. For a dead letter it says first why
// m is one.
func bothReasons(m *engine.Message) error {
	if !msg(m).Dead || retry.TrialOf(m) == nil || retry.TrialOf(m).Reason == nil {
		return msg(m).Err
	}
	what := "its dead letter can't be written"
	if place := msg(m).Err.Place(); place != "" {
		what += ": " + place
	}
	return fmt.Errorf("%w; %s: %w", retry.TrialOf(m).Reason, what, msg(m).Err)
}

// explain adds to the metadata of m why it failed.
func explain(m *engine.Message) {
	m.Meta = m.Meta.
		With("error_class", string(msg(m).Err.Class)).
		With("error_message", msg(m).Err.Error()).
		With("error_step", msg(m).Err.Step).
		With("error_output", msg(m).Err.Output).
		With("error_attempt", msg(m).Err.Attempt).
		With("error_first_failed", msg(m).Err.FirstFailed.UTC())
	if msg(m).Part > 0 {
		m.Meta = m.Meta.With("error_part", int(msg(m).Part))
	}
}
