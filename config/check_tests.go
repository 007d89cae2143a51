package config

import (
	"fmt"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// checkTests checks the names in the tests of all files.
func (l *loader) checkTests() {
	for _, f := range l.files {
		c := testChecker{loader: l, inputs: names(f.spec.Inputs), outputs: names(f.spec.Outputs),
			tables: names(l.resourcesOf(f).spec.Resources.Tables), composite: map[string]bool{}}
		learn := func(s *engine.StepSpec) {
			c.steps = append(c.steps, StepName(s))
			c.composite[StepName(s)] = s.Use.Name == "switch" || s.Use.Name == "steps"
		}
		eachStep(f.spec.Pipeline, learn)
		slices.Sort(c.steps)
		c.steps = slices.Compact(c.steps)
		first := map[string]schema.Pos{}
		for i := range f.spec.Tests {
			t := &f.spec.Tests[i]
			if t.Place.Node == nil || t.Place.Node.Kind != schema.MapNode {
				continue // the decoder reports it
			}
			c.test(t)
			if at, twice := first[t.Name]; twice && t.Name != "" {
				l.complain(t.Place.At("name"), schema.Problem{Code: "duplicate-test",
					Message: fmt.Sprintf("two tests are called %q, the first at %d:%d", t.Name, at.Line, at.Col),
					Remedy:  "give one of them another name"})
			} else {
				first[t.Name] = t.Place.Pos
			}
		}
	}
}

// names returns the keys of a section, in order.
func names[V any](section schema.Map[V]) (names []string) {
	for name := range section.All() {
		names = append(names, name)
	}
	return names
}

// testChecker checks the tests of one file.
type testChecker struct {
	*loader
	inputs, outputs, steps, tables []string
	composite                      map[string]bool // steps that only hold other steps
}

func (c *testChecker) test(t *Test) {
	for _, in := range t.Input {
		c.input(t, in)
	}
	for name := range t.Mocks.All() {
		if !slices.Contains(c.steps, name) {
			c.complain(t.Place.Key("mocks", name), unknownStep(name, c.steps, c.steps))
		}
	}
	for name := range t.Tables.All() {
		if !slices.Contains(c.tables, name) {
			c.complain(t.Place.Key("tables", name), unknownTable(name, c.tables))
		}
	}
	for name := range t.Fail.All() {
		known := append(slices.Clone(c.outputs), c.steps...)
		at := t.Place.Key("fail", name)
		switch {
		case slices.Contains(c.outputs, name) && slices.Contains(c.steps, name):
			c.complain(at, schema.Problem{Code: "unknown-step",
				Message: fmt.Sprintf("both an output and a step are called %q", name),
				Remedy:  "give one of them another name"})
		case c.composite[name]:
			c.complain(at, schema.Problem{Code: "unknown-step",
				Message: "this step only holds others: it can't fail by itself", Remedy: "name a step inside it"})
		case !slices.Contains(known, name):
			c.complain(at, unknownStep(name, c.outputs, known))
		}
	}
	if t.Expect != nil {
		for name := range t.Expect.All() {
			if !slices.Contains(c.outputs, name) {
				c.complain(t.Place.Key("expect", name), schema.Problem{Code: "unknown-output",
					Message: fmt.Sprintf("there is no output %q", name),
					Remedy:  schema.Suggest(name, c.outputs, fmt.Sprintf("add %q to `outputs`", name))})
			}
		}
	}
	if n := len(t.Input); t.Acks != nil && len(t.Acks) != n {
		c.complain(t.Place.At("acks"), schema.Problem{Code: schema.BadValue,
			Message: fmt.Sprintf("the number of acks (%d) differs from the number of input messages (%d)", len(t.Acks), n),
			Remedy:  "write one for each message of `input`; {} stands for any acknowledgement"})
	}
	if !t.Expects() {
		at := t.Place.At("name")
		at.Path = t.Place.Path
		c.complain(at, schema.Problem{Code: "test-expects-nothing", Warning: true,
			Message: "the test expects nothing",
			Remedy:  "add `expect: {OUTPUT: [{json: …}]}`; `flowd test --update` fills it in"})
	}
}

// Expects reports whether the test expects anything.
func (t *Test) Expects() bool {
	return t.Expect != nil || t.Fates != nil || t.Acks != nil || len(t.Failures) > 0 || t.Stops != ""
}

func (c *testChecker) input(t *Test, in TestInput) {
	if in.Place.Node == nil || in.Place.Node.Kind != schema.MapNode {
		return
	}
	switch {
	case in.Input == "" && len(c.inputs) > 1:
		c.complain(in.Place, schema.Problem{Code: "unknown-input",
			Message: "there are several inputs, and the test does not say which one reads this",
			Remedy:  "add `input: NAME`: " + schema.AnyOfNames(c.inputs)})
	case in.Input != "" && !slices.Contains(c.inputs, in.Input):
		c.complain(in.Place.At("input"), schema.Problem{Code: "unknown-input",
			Message: fmt.Sprintf("there is no input %q", in.Input),
			Remedy:  schema.Suggest(in.Input, c.inputs, fmt.Sprintf("add %q to `inputs`", in.Input))})
	}
	if t.Until > 0 && in.At > t.Until {
		c.complain(in.Place.At("at"), schema.Problem{Code: schema.BadValue,
			Message: fmt.Sprintf("the inputs end before this, at %v", t.Until), Remedy: "increase `until`"})
	}
}

// unknownStep returns the problem of a name that is not in known. few are the names worth listing.
func unknownStep(name string, few, known []string) schema.Problem {
	what := "step"
	if len(few) < len(known) {
		what = "output or step"
	}
	return schema.Problem{Code: "unknown-step", Message: fmt.Sprintf("there is no %s %q", what, name),
		Remedy: schema.Suggest(name, known, fmt.Sprintf("add `name: %s` to a step", name))}
}
