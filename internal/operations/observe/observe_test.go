package observe

import (
	"encoding/json"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestPayloadsKeepTheirKind(t *testing.T) {
	for payload, want := range map[string]string{
		`{"b": 1.50}`: `{"json":{"b":1.50}}`,
		"plain":       `{"text":"plain"}`,
		"\xff\x00":    `{"base64":"/wA="}`,
		"":            `{"text":""}`,
	} {
		text, err := json.Marshal(Payload(payload))
		if err != nil || string(text) != want {
			t.Errorf("%q: got %s, %v, want %s", payload, text, err, want)
		}
		var back Payload
		if err := json.Unmarshal(text, &back); err != nil || len(back) != len(payload) && want[2] != 'j' {
			t.Errorf("%s: read back as %q, %v", text, back, err)
		}
	}
}

func TestAStepShowsWhatItChanged(t *testing.T) {
	m := engine.NewBatch(1).Add([]byte(`{"a":1,"b":2}`))
	m.Meta = m.Meta.With("topic", "x")
	before := Before(m)
	m.SetBytes([]byte(`{"a":3,"c":4}`))
	m.Meta = m.Meta.With("topic", "y").With("n", 5)
	r := After(&engine.Spot{Kind: engine.StepSpot, Name: "set"}, before, nil, m, engine.PassedOn)
	want := []Change{{"a", "1", "3"}, {"b", "2", ""}, {"c", "", "4"}, {`meta("n")`, "", "5"}, {`meta("topic")`, `"x"`, `"y"`}}
	if d := cmp.Diff(want, r.Changes); d != "" {
		t.Error(d)
	}
}

func TestAFilterShowsWhyItDropped(t *testing.T) {
	m := engine.NewBatch(1).Add([]byte(`{"user":{"age":17}}`))
	at := &engine.Spot{Kind: engine.StepSpot, Name: "filter", Config: expr.MustCond("user.age >= 18 and plan == nil")}
	r := After(at, Before(m), nil, m, engine.FilteredOut)
	want := &Condition{"user.age >= 18 and plan == nil", []Setting{{Name: "user.age", Value: "17"}, {Name: "plan", Value: "null"}}}
	if d := cmp.Diff(want, r.Condition, cmpopts.IgnoreUnexported(Setting{})); d != "" {
		t.Error(d)
	}
}

func TestAnOutputShowsWhereItSends(t *testing.T) {
	type inner struct {
		Key expr.Expr `yaml:"key"`
	}
	type config struct {
		inner `yaml:",inline"`
		Topic expr.Template `yaml:"topic,main"`
		Body  expr.Body     `yaml:"body"`
		Group expr.Template `yaml:"group"`
	}
	m := engine.NewBatch(1).Add([]byte(`{"id":7}`))
	c := config{Topic: expr.MustTemplate("orders.$(id)"), Group: expr.MustTemplate("$(none)")}
	at := &engine.Spot{Kind: engine.OutputSpot, Name: "lake", Config: c}
	r := After(at, Before(m), nil, m, engine.WrittenThere)
	if len(r.To) != 2 || r.To[0].Value != `"orders.7"` || r.To[1].Error == "" {
		t.Errorf("got %+v", r.To)
	}
	if err := Refuses(c, m); err == nil {
		t.Error("a template without a value is no reason to fail")
	}
}
