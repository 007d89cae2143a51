package stage

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/internal/ledger"
	"github.com/flowd-io/flowd/engine/internal/order"
	"github.com/flowd-io/flowd/engine/internal/retry"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// Then is a value of on_failure.then: what becomes of a message that has failed for good. A new value is a variable and
// its place in thens; engine.OnFailure documents it.
type Then struct {
	name      string
	named     bool // it goes to the output that `dead_letter` names
	TakenBack bool // sources have to take back single messages, which Build checks
	end       func(*outcome, *engine.Message, *stage, Policy)
}

var (
	thenDeadLetter = &Then{name: "dead_letter", named: true, end: (*outcome).sendDeadLetter}
	thenReturn     = &Then{name: "return", TakenBack: true, end: (*outcome).returnFailed}
	thenDrop       = &Then{name: "drop", end: (*outcome).dropFailed}
	thenStop       = &Then{name: "stop", end: (*outcome).stop}

	thens = []*Then{thenDeadLetter, thenReturn, thenDrop, thenStop}

	// thenByDefault is what happens without a policy, depending on what the source of the message takes back.
	thenByDefault = [...]*Then{engine.TakesNothing: thenDrop, engine.TakesOne: thenReturn, engine.TakesPosition: thenStop}
)

// Policy is an on_failure: what becomes of a message that has failed for good.
type Policy struct {
	Then       *Then      // nil: choose decides or, if it can't, the source of the message
	choose     *expr.Expr // nil: none
	DeadLetter *OutputPlan
}

// sends says that failed messages go to an output.
func (p *Policy) sends() bool { return p.DeadLetter != nil && (p.Then == nil || p.Then.named) }

// NewPolicy makes the policy of an on_failure whose dead letter is to, or, if that is nil, engine.on_failure's.
func NewPolicy(then engine.Then, to, inherited *OutputPlan) (p Policy) {
	if p.DeadLetter = to; to == nil && then.May(thenDeadLetter.name) {
		p.DeadLetter = inherited
	}
	if !then.Choose.IsZero() {
		p.choose = &then.Choose
		return p
	}
	for _, t := range thens {
		if t.name == then.Word || then.Word == "" && t.named && to != nil {
			p.Then = t
		}
	}
	return p
}

// chosen evaluates the expression of then for a failed message. It returns nil if the result is not possible for the message.
func (p *Policy) chosen(m *engine.Message) *Then {
	word, err := p.choose.Eval(m)
	for _, t := range thens {
		switch {
		case err != nil || t.name != word:
		case t.named && p.DeadLetter == nil, t.TakenBack && ledger.FirstRoot(m).Led.Takes != engine.TakesOne:
		default:
			return t
		}
	}
	if p.DeadLetter != nil {
		return thenDeadLetter
	}
	return nil
}

// fail takes a failed message that is not to be tried again where it failed. From top to bottom: an on_error or a
// fallback may take it, a merge is undone, and what is left goes where on_failure says.
func (out *outcome) fail(m *engine.Message, at *stage) {
	if out.PassesOn() { // the next plan starts with the message as it was read
		return
	}
	c := msg(m)
	c.Err.Mask(out.layout.Secrets)
	switch {
	case steps.BlockOf(m) != nil && out.rescue(m, at), branchOf(m) != nil && out.fallBack(m, at):
		return
	case len(c.Of) > 0 && c.Part == 0: // the part of a merge that was split fails by itself
		out.undoMerge(m, func(p *engine.Message) { out.fail(p, at) })
		return
	}
	out.rollBack(m, at)
	if c.Dead {
		c.Err = refusedDeadLetter(m)
	}
	p := out.policy(m, at)
	p.Then.end(out, m, at, p)
}

// policy says where m goes, which has failed for good. A dead letter that was refused has no other dead letter.
func (out *outcome) policy(m *engine.Message, at *stage) (p Policy) {
	switch {
	case msg(m).Dead:
	case at != nil && at.failure != nil:
		p = *at.failure
	default:
		p = out.layout.Failure
	}
	switch {
	case out.Handing():
		p.Then = thenReturn
	case errors.Is(msg(m).Err, engine.ErrGone):
		p.Then = thenStop
	case p.choose != nil:
		p.Then = p.chosen(m)
	}
	if p.Then == nil {
		p.Then = thenByDefault[ledger.FirstRoot(m).Led.Takes]
	}
	return p
}

// sendDeadLetter is `then: dead_letter`.
func (out *outcome) sendDeadLetter(m *engine.Message, _ *stage, p Policy) {
	makeDeadLetter(m)
	err := msg(m).Err
	out.layout.EmitEvent(engine.Event{Kind: engine.EventDeadLetter, Name: cmp.Or(err.Output, err.Step), N: 1, Err: err})
	out.send(out.outputs[p.DeadLetter], m)
}

// returnFailed is `then: return`.
func (out *outcome) returnFailed(m *engine.Message, _ *stage, _ Policy) {
	out.giveBack(m, !out.Handing())
}

// dropFailed is `then: drop`.
func (out *outcome) dropFailed(m *engine.Message, _ *stage, _ Policy) {
	out.Failures.Add(m, engine.Dropped)
	out.endPiece(m, engine.Dropped)
}

// stop is `then: stop`. Later messages with a key of m wait until the run ends, and go back, too. The source then
// delivers all of them again, in order.
func (out *outcome) stop(m *engine.Message, at *stage, _ Policy) {
	err := msg(m).Err
	if out.layout.Ordered && !msg(m).Dead {
		out.holdKeys(m, at)
		order.EachLeafKey(m, func(leaf *engine.Message) { order.SetClaim(leaf, nil) }) // nobody frees them
	}
	out.giveBack(m, true)
	out.verdict.Fail(err)
}

// makeDeadLetter turns m into a dead letter: the payload as received or split, the metadata, and error_* beside it.
func makeDeadLetter(m *engine.Message) {
	if msg(m).Orig != nil {
		msg(m).Doc.Reset(msg(m).Orig, nil)
	}
	explain(m)
	msg(m).Redirect(&retry.Trial{Reason: msg(m).Err})
	msg(m).Dead = true
}

// refusedDeadLetter is the error of a message whose dead letter was refused: why it failed, and why its dead letter did.
func refusedDeadLetter(m *engine.Message) *engine.Error {
	if retry.TrialOf(m) == nil || retry.TrialOf(m).Reason == nil {
		return msg(m).Err
	}
	e := *retry.TrialOf(m).Reason
	e.Delay, e.Err = msg(m).Err.Delay, bothReasons(m)
	return &e
}

// bothReasons is the error of a write. For a dead letter, the reason why it is one comes first.
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

// explain adds the error of m to its metadata.
func explain(m *engine.Message) {
	m.Meta = m.Meta.
		With("error_class", string(msg(m).Err.Class)).
		With("error_message", msg(m).Err.Error()).
		With("error_step", msg(m).Err.Step).
		With("error_output", msg(m).Err.Output).
		With("error_attempt", msg(m).Err.Attempt).
		With("error_first_failed", msg(m).Err.FirstFailed.UTC())
	if detail := msg(m).Err.DetailText(); detail != "" {
		m.Meta = m.Meta.With("error_detail", detail)
	}
	if msg(m).Part > 0 {
		m.Meta = m.Meta.With("error_part", int(msg(m).Part))
	}
}
