// Package steptest runs tables of processor tests. Start at [Run].
package steptest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/google/go-cmp/cmp"
)

// Case is a step, its input, and its outcome.
type Case struct {
	Name string
	Step string   // the component as JSON: {"filter": "status >= 500"}
	In   []string // payloads
	// Want are the outcomes, live messages first: the body, "dropped", or
	// "failed CLASS: TEXT", where the error contains TEXT.
	Want []string
}

// Run runs each case as one batch.
func Run(t *testing.T, cases []Case) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			p := enginetest.New(t, engine.Processors, c.Step)
			var got []string
			for i, o := range enginetest.Apply(t, p, c.In...) {
				want := ""
				if i < len(c.Want) {
					want = c.Want[i]
				}
				got = append(got, describe(o, want))
			}
			if diff := cmp.Diff(c.Want, got); diff != "" {
				t.Errorf("%s of %q (-want +got):\n%s", c.Step, c.In, diff)
			}
		})
	}
}

// describe is an outcome in the form of Case.Want, and want itself where an
// error contains the text that it asks for.
func describe(o enginetest.Outcome, want string) string {
	switch o.Fate {
	case "live":
		return o.Body
	case "failed":
		class := fmt.Sprintf("failed %s: ", o.Err.Class)
		if text, ok := strings.CutPrefix(want, class); ok && strings.Contains(o.Err.Error(), text) {
			return want
		}
		return class + o.Err.Error()
	}
	return o.Fate
}

// Refused is a configuration that is not accepted.
type Refused struct {
	Name string
	Step string
	Want string // part of the complaint
}

// RunRefused checks that each configuration is refused for its reason.
func RunRefused(t *testing.T, cases []Refused) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			got := strings.Join(enginetest.Problems(t, engine.Processors, c.Step), "\n")
			if got == "" || !strings.Contains(got, c.Want) {
				t.Errorf("problems of %s: %q, want %q among them", c.Step, got, c.Want)
			}
		})
	}
}

// Conforms runs the conformance suite of processors on a step.
func Conforms(t *testing.T, step string, payloads ...string) {
	t.Helper()
	enginetest.Processor(t, func(t *testing.T) engine.Processor {
		t.Helper()
		return enginetest.New(t, engine.Processors, step)
	}, payloads...)
}
