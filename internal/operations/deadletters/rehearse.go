package deadletters

import (
	"errors"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/operations/pipetest"
)

// Outcome is what would become of a letter.
type Outcome struct {
	Passes bool
	Why    Cause // why it would not pass
}

// Rehearse runs a pipeline with letters, in virtual time, without inputs and outputs. Steps that call other systems do
// nothing, and are in skipped, unless live is true. input names the input whose steps the letters go through. target returns
// the output to which alone a letter goes; nil: letters go to all outputs. Like [pipetest.Run], it must be called once in a
// process.
func Rehearse(set *config.Set, p config.Loaded, input string, letters []Letter, target func(*Letter) (string, error),
	live bool) (outcomes []Outcome, skipped []string, err error) {
	at, err := entryOf(p.Spec, input)
	if err != nil {
		return nil, nil, err
	}
	outcomes = make([]Outcome, len(letters))
	targets := make([]string, len(letters))
	test := config.Test{Name: "dry run", TakesBack: "one", Seed: 1}
	var index []int // of each message of the test in letters
	for i := range letters {
		l := &letters[i]
		err := l.Broken
		if err == nil && target != nil {
			targets[i], err = target(l)
		}
		if err != nil {
			outcomes[i].Why.Message = err.Error()
			continue
		}
		index = append(index, i)
		test.Input = append(test.Input, inputOf(l, at.Key, targets[i]))
	}
	r := set.RehearseWith(p, test)
	gate(r.Pipeline, "")
	if !live {
		skipped, _ = r.LeaveOutCalls()
	}
	res, err := pipetest.Run(r)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range res.Problems {
		if !p.Warning {
			return nil, nil, errors.New(p.String())
		}
	}
	for k, ack := range res.Acks {
		outcomes[index[k]] = outcomeOf(ack, targets[index[k]])
	}
	return outcomes, skipped, nil
}

func outcomeOf(ack pipetest.Ack, target string) Outcome {
	switch {
	case ack.Fate == engine.Filtered.String() && target != "":
		return Outcome{Why: Cause{Message: elsewhere(target).Error()}}
	case ack.Fate == engine.Delivered.String(), ack.Fate == engine.Filtered.String():
		return Outcome{Passes: true}
	case ack.Err == nil:
		return Outcome{Why: Cause{Message: "it would be " + ack.Fate}}
	}
	return Outcome{Why: Cause{Class: string(ack.Err.Class), Step: placeOf(ack.Err.Place, "step "),
		Output: placeOf(ack.Err.Place, "output "), Message: ack.Err.Message}}
}

// placeOf returns the name in the place of a failure if it is of a kind.
func placeOf(place, kind string) string {
	if len(place) > len(kind) && place[:len(kind)] == kind {
		return place[len(kind):]
	}
	return ""
}

// inputOf returns the message of a letter as a message of a test.
func inputOf(l *Letter, input, target string) config.TestInput {
	meta := l.Original()
	if target != "" {
		meta = meta.With(targetName, target)
	}
	return config.InputOf(l.Payload, meta, input)
}
