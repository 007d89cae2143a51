package pipetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
)

// Difference is one difference from what the test expects.
type Difference struct {
	At   string `json:"at"`             // "output errors, message 1"
	Path string `json:"path,omitempty"` // of the field
	Want string `json:"want,omitempty"` // "": nothing
	Got  string `json:"got,omitempty"`  // "": nothing
}

// compare returns all differences from what the test expects.
func (s *stage) compare(res *Result, err error) (all []Difference) {
	all = append(all, s.stops(err)...)
	if s.Test.Expect != nil {
		mocked := s.mocked()
		for name, out := range s.sinks {
			for _, w := range out.writes {
				for i := range w.Messages {
					w.Messages[i].mocked = mocked
				}
			}
			e, listed := s.Test.Expect.Get(name)
			if !listed {
				e = config.Expected{Messages: &[]config.ExpectedMessage{}}
			}
			all = append(all, output("output "+name, e, out.writes)...)
		}
		for name := range s.Test.Expect.All() {
			if s.sinks[name] == nil {
				all = append(all, Difference{At: "output " + name,
					Got: "it only passes messages on to other outputs: expect them there"})
			}
		}
		slices.SortStableFunc(all, func(a, b Difference) int { return strings.Compare(outputOf(a.At), outputOf(b.At)) })
	}
	all = append(all, s.fates(res)...)
	all = append(all, s.acks(res)...)
	all = append(all, s.failures(res)...)
	if s.Test.Within > 0 && res.Took > s.Test.Within {
		all = append(all, Difference{At: "time", Want: "at most " + s.Test.Within.String(), Got: res.Took.String()})
	}
	if !s.Test.Expects() && len(all) == 0 {
		all = append(all, Difference{At: "test", Got: "nothing is expected (--update writes what arrived)"})
	}
	return all
}

// outputOf returns the output that a difference is about. Outputs are in the order of their names; other differences
// stay before them.
func outputOf(at string) string {
	if !strings.HasPrefix(at, "output ") {
		return ""
	}
	name, _, _ := strings.Cut(at, ",")
	return name
}

func (s *stage) stops(err error) []Difference {
	switch want := s.Test.Stops; {
	case err == nil && want == "":
		return nil
	case err == nil:
		return []Difference{{At: "run", Want: "stops: " + want, Got: "it did not stop"}}
	case want == "" || !strings.Contains(err.Error(), want):
		d := Difference{At: "run", Got: "it stopped: " + err.Error()}
		if want != "" {
			d.Want = "stops: " + want
		}
		return []Difference{d}
	}
	return nil
}

// fates compares the fates of messages.
func (s *stage) fates(res *Result) (all []Difference) {
	if s.Test.Fates == nil {
		return nil
	}
	for _, fate := range []engine.Fate{engine.Delivered, engine.Filtered, engine.DeadLettered, engine.Dropped,
		engine.Returned} {
		want, got := s.Test.Fates.Of(fate), res.Fates.Of(fate)
		if want != got {
			all = append(all, Difference{At: "fates", Path: fate.String(), Want: strconv.FormatInt(want, 10),
				Got: strconv.FormatInt(got, 10) + s.endedAs(fate)})
		}
	}
	return all
}

// endedAs lists the input messages with a fate.
func (s *stage) endedAs(fate engine.Fate) string {
	var which []string
	for i := range s.Test.Input {
		if s.ackOf(i).Fate == fate.String() {
			which = append(which, strconv.Itoa(i+1))
		}
	}
	if len(which) == 0 {
		return ""
	}
	return " (input " + strings.Join(which, ", ") + ")"
}

// failures compares final failures. A test without such an expectation requires that no failure loses a message.
func (s *stage) failures(res *Result) (all []Difference) {
	if len(s.Test.Failures) == 0 {
		if s.Test.Fates != nil || s.Test.Acks != nil || s.Test.Stops != "" {
			return nil
		}
		for _, f := range res.Failures {
			if f.Fate != engine.DeadLettered.String() {
				all = append(all, Difference{At: "failures", Got: f.String()})
			}
		}
		return all
	}
	want := s.Test.Failures
	same := func(i, j int) bool { return len(failure("", want[i], res.Failures[j])) == 0 }
	for _, p := range assign(len(want), len(res.Failures), same) {
		switch {
		case p.Got < 0:
			all = append(all, Difference{At: "failures", Want: expectedFailure(want[p.Want])})
		case p.Want < 0:
			all = append(all, Difference{At: "failures", Got: res.Failures[p.Got].String()})
		default:
			all = append(all, failure(fmt.Sprintf("failures, %d", p.Want+1), want[p.Want], res.Failures[p.Got])...)
		}
	}
	return all
}

func failure(at string, want config.ExpectedFailure, got CameFailure) []Difference {
	all := reason(at, want.ExpectedError, &got.Failure)
	if want.Fate != "" && want.Fate != got.Fate {
		all = append(all, Difference{at, "fate", want.Fate, got.Fate})
	}
	if want.Count != got.Count {
		all = append(all, Difference{at, "count", strconv.FormatInt(want.Count, 10), strconv.FormatInt(got.Count, 10)})
	}
	return all
}

// reason compares why something failed.
func reason(at string, want config.ExpectedError, got *Failure) (all []Difference) {
	if got == nil {
		return []Difference{{at, "error", strings.Join(reasons(want), ", "), "it has not failed"}}
	}
	if want.Class != "" && want.Class != string(got.Class) {
		all = append(all, Difference{at, "class", want.Class, string(got.Class)})
	}
	if want.Place != "" && want.Place != got.Place {
		all = append(all, Difference{at, "place", want.Place, got.Place})
	}
	if !strings.Contains(got.Message, want.Message) {
		all = append(all, Difference{at, "message", "… " + want.Message + " …", got.Message})
	}
	return all
}

func reasons(want config.ExpectedError) (parts []string) {
	for _, p := range [][2]string{{"class", want.Class}, {"place", want.Place}, {"message", want.Message}} {
		if p[1] != "" {
			parts = append(parts, p[0]+": "+p[1])
		}
	}
	return parts
}

func expectedFailure(want config.ExpectedFailure) string {
	parts := reasons(want.ExpectedError)
	if want.Fate != "" {
		parts = append(parts, "fate: "+want.Fate)
	}
	return strings.Join(append(parts, "count: "+strconv.FormatInt(want.Count, 10)), ", ")
}

// String formats a failure on one line.
func (f CameFailure) String() string {
	text := fmt.Sprintf("%d %s: %s", f.Count, strings.ReplaceAll(f.Fate, "_", "-"), f.Class)
	if f.Place != "" {
		text += " in " + f.Place
	}
	return text + ": " + f.Message + " (first from " + f.From + ")"
}
