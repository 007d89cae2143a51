package pipetest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/operations/observe"
	"github.com/flowd-io/flowd/schema"
)

// LeftOut counts the messages that a recorded test does not have, by reason.
type LeftOut struct {
	Unended  int // their end was not seen
	TooLarge int // the records have only a part of their payload
	Unsent   int // they failed at an output, and the outputs of a test don't fail
}

// recorded is a message with its records.
type recorded struct {
	input  observe.Record
	way    []observe.Record
	end    *observe.Record
	large  bool
	failed *observe.Record // where it failed last
	index  int             // in the test
}

// Recorded makes a test from records of messages that went through a pipeline, from their inputs to their ends. Steps that
// call other systems are mocked. A record whose payload has more than most bytes is not complete. The test has no name.
func Recorded(p *engine.Pipeline, records []observe.Record, most int) (t config.Test, left LeftOut) {
	var all []*recorded
	messages := map[string]*recorded{}
	for i := range records {
		r := &records[i]
		if r.Kind == engine.InputSpot {
			m := &recorded{input: *r}
			all, messages[r.Message] = append(all, m), m
		}
		for name := range strings.SplitSeq(r.Message, ", ") {
			m := messages[name]
			if m == nil {
				continue
			}
			m.large = m.large || len(r.Payload) > most
			switch {
			case r.Kind == engine.EndSpot:
				m.end = r
			case r.Kind != engine.InputSpot:
				m.way = append(m.way, *r)
			}
			if r.Passage == engine.FailedThere {
				m.failed = r
			}
		}
	}
	saved := map[string]*recorded{}
	for _, m := range all {
		switch {
		case m.end == nil:
			left.Unended++
		case m.large:
			left.TooLarge++
		case m.end.Error != nil && m.failed != nil && m.failed.Kind == engine.OutputSpot:
			left.Unsent++
		default:
			m.index = len(t.Input)
			saved[m.input.Message] = m
			t.Input = append(t.Input, m.testInput(p))
		}
	}
	all = slices.DeleteFunc(all, func(m *recorded) bool { return saved[m.input.Message] == nil })
	t.Mocks = mocksOf(p, all)
	t.Expect = expectedOf(p, records, saved)
	t.Fates = &config.Fates{}
	for _, m := range all {
		m.count(&t)
		if m.end.Error != nil {
			t.TakesBack = takenBack(p, m.input.Name)
		}
	}
	return t, left
}

func (m *recorded) testInput(p *engine.Pipeline) (in config.TestInput) {
	text := string(m.input.Payload)
	in.Text = &text
	if p.Inputs.Len() > 1 {
		in.Input = m.input.Name
	}
	in.Meta = metaValues(m.input.Meta, slices.Sorted(maps.Keys(m.input.Meta)))
	return in
}

// metaValues returns the metadata with these names as JSON.
func metaValues(meta map[string]any, names []string) schema.Map[config.JSON] {
	var fields []schema.Entry[config.JSON]
	for _, name := range names {
		if v, err := doc.Append(nil, meta[name]); err == nil {
			fields = append(fields, schema.Entry[config.JSON]{Key: name, Value: v})
		}
	}
	return schema.MapOf(fields...)
}

// takenBack returns what an input can redeliver, in the word of a test; "" for the default.
func takenBack(p *engine.Pipeline, input string) string {
	in, _ := p.Inputs.Get(input)
	for word, takes := range takesBack {
		if takes == engine.TraitsOf(in.Use.Config).TakesBack && word != "one" {
			return word
		}
	}
	return ""
}

// count adds the end of a message to what the test expects.
func (m *recorded) count(t *config.Test) {
	fate := m.end.Name
	for _, f := range []struct {
		fate  engine.Fate
		count *int64
	}{{engine.Delivered, &t.Fates.Delivered}, {engine.Filtered, &t.Fates.Filtered}, {engine.DeadLettered, &t.Fates.DeadLettered},
		{engine.Dropped, &t.Fates.Dropped}, {engine.Returned, &t.Fates.Returned}} {
		if fate == f.fate.String() {
			*f.count++
		}
	}
	if m.end.Error == nil {
		return
	}
	f := config.ExpectedFailure{Fate: fate, Count: 1, ExpectedError: config.ExpectedError{Class: string(m.end.Error.Class)}}
	if m.failed != nil {
		f.ExpectedError.Place = string(m.failed.Kind) + " " + m.failed.Name
	}
	same := slices.IndexFunc(t.Failures, func(o config.ExpectedFailure) bool {
		return o.ExpectedError == f.ExpectedError && o.Fate == f.Fate
	})
	if same >= 0 {
		t.Failures[same].Count++
		return
	}
	t.Failures = append(t.Failures, f)
}

// expectedOf returns what the outputs have written of the saved messages, in the order in which these were read.
func expectedOf(p *engine.Pipeline, records []observe.Record, saved map[string]*recorded) *schema.Map[config.Expected] {
	type arrival struct {
		index int
		body  string
	}
	came := map[string][]arrival{}
	for _, r := range records {
		out, _ := p.Outputs.Get(r.Name)
		if r.Kind != engine.OutputSpot || r.Passage != engine.WrittenThere || slices.Contains(config.Routes, out.Use.Name) {
			continue
		}
		index := -1
		for name := range strings.SplitSeq(r.Message, ", ") {
			m := saved[name]
			if m == nil {
				index = -1 // the test does not have all that it was merged from
				break
			}
			index = max(index, m.index)
		}
		if index >= 0 {
			came[r.Name] = append(came[r.Name], arrival{index, string(r.Payload)})
		}
	}
	batched := false // batches leave in another order if other messages fill them
	for _, b := range p.Batchers.All() {
		batched = batched || b.Use.Name != "" || !b.Key.IsZero()
	}
	var all []schema.Entry[config.Expected]
	for _, name := range slices.Sorted(maps.Keys(came)) {
		byIndex := func(a, b arrival) int { return a.index - b.index }
		e := config.Expected{AnyOrder: batched || !slices.IsSortedFunc(came[name], byIndex)}
		slices.SortStableFunc(came[name], byIndex)
		var messages []config.ExpectedMessage
		for _, a := range came[name] {
			messages = append(messages, config.ExpectedMessage{Body: config.Body{Text: &a.body}})
		}
		e.Messages = &messages
		all = append(all, schema.Entry[config.Expected]{Key: name, Value: e})
	}
	expect := schema.MapOf(all...)
	return &expect
}

// mocksOf returns answers of the steps that call other systems.
func mocksOf(p *engine.Pipeline, all []*recorded) schema.Map[config.Mock] {
	calls := map[string][]call{}
	config.EachStep(p, func(s *engine.StepSpec) {
		if engine.TraitsOf(s.Use.Config).Effects == engine.EffectsElsewhere {
			calls[config.StepName(s)] = nil
		}
	})
	for _, m := range all {
		last := map[int][]byte{0: m.input.Payload} // by part
		mine := map[string]call{}                  // by step and part: the last try counts
		for _, r := range m.way {
			if _, calling := calls[r.Name]; calling && r.Kind == engine.StepSpot && r.Passage != engine.SkippedStep {
				mine[r.Name+" "+strconv.Itoa(r.Part)] = newCall(r, last[r.Part])
			}
			last[r.Part] = r.Payload
		}
		for _, key := range slices.Sorted(maps.Keys(mine)) {
			c := mine[key]
			calls[c.record.Name] = append(calls[c.record.Name], c)
		}
	}
	var mocks []schema.Entry[config.Mock]
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		mocks = append(mocks, schema.Entry[config.Mock]{Key: name, Value: mockOf(calls[name])})
	}
	return schema.MapOf(mocks...)
}

// mockOf returns the answers to calls. Each has a condition, unless they are all the same.
func mockOf(calls []call) (mock config.Mock) {
	if len(calls) == 0 {
		return config.Mock{{}}
	}
	kinds := map[string]bool{}
	for _, c := range calls {
		kinds[c.kind] = true
	}
	if len(kinds) == 1 {
		return config.Mock{calls[0].answer}
	}
	field := deciding(calls)
	done := map[string]bool{}
	for _, c := range calls {
		cond, text := c.condition(field)
		if done[text] {
			continue
		}
		done[text] = true
		a := c.answer
		a.Match = cond
		mock = append(mock, a)
	}
	return mock
}

// deciding returns the field whose value decides the answer; "": there is none.
func deciding(calls []call) string {
	byLength := func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	}
	for _, path := range slices.SortedFunc(maps.Keys(calls[0].fields), byLength) {
		kinds := map[string]string{}
		ok := true
		for _, c := range calls {
			value, has := c.fields[path]
			if known, seen := kinds[value]; !has || seen && known != c.kind {
				ok = false
				break
			}
			kinds[value] = c.kind
		}
		if ok {
			return path
		}
	}
	return ""
}

// kindOf returns a text that two answers share if they are the same.
func kindOf(a config.Answer) string {
	text := func(j *config.JSON) string {
		if j == nil {
			return ""
		}
		return string(*j)
	}
	kind := fmt.Sprint(a.Drop, a.Error, a.Class, text(a.Set), "|", text(a.JSON), "|")
	if a.Text != nil {
		kind += *a.Text
	}
	for name, v := range a.Meta.All() {
		kind += "|" + name + string(v)
	}
	return kind
}
