package sequence

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	_ "github.com/flowd-io/flowd/inputs/file"
	_ "github.com/flowd-io/flowd/inputs/generate"
	_ "github.com/flowd-io/flowd/inputs/pipe"
)

func TestInput(t *testing.T) {
	enginetest.Input(t, func(t *testing.T) engine.Input {
		return enginetest.New(t, engine.Inputs, `{"sequence": [
			{"generate": {"count": 2, "body": "counter()"}},
			{"generate": {"count": 1, "body": "'x'"}}
		]}`)
	}, "1", "2", "x")
}

// fake records calls of its methods.
type fake struct {
	name  string
	n     int // messages
	takes engine.TakesBack
	fail  error
	cut   error // of the first Read
	log   *[]string
}

func (p *fake) note(what string)      { *p.log = append(*p.log, p.name+" "+what) }
func (p *fake) Traits() engine.Traits { return engine.Traits{TakesBack: p.takes} }

func (p *fake) Open(context.Context) error {
	p.note("open")
	return p.fail
}

func (p *fake) Stop(context.Context) error {
	p.note("stop")
	return nil
}

func (p *fake) Close(context.Context) error {
	p.note("close")
	return nil
}

func (p *fake) Ack(context.Context, []engine.Result) ([]engine.Result, error) { return nil, nil }

func (p *fake) Read(_ context.Context, b *engine.Batch) (engine.Acker, error) {
	if p.n == 0 {
		return p, engine.ErrEnd
	}
	if p.cut != nil {
		err := p.cut
		p.cut = nil
		return p, err
	}
	p.n--
	p.note("read")
	b.Add([]byte(p.name))
	return p, nil
}

func newSequence(parts ...*fake) (in *input, log *[]string) {
	in, log = &input{}, new([]string)
	for _, p := range parts {
		p.log = log
		if err := in.add(p.name, p); err != nil {
			panic(err)
		}
	}
	return in, log
}

func TestPartsAreOpenedInTurnAndClosedTogether(t *testing.T) {
	in, log := newSequence(&fake{name: "a", n: 1}, &fake{name: "b", n: 1}, &fake{name: "c", n: 1})
	for range 2 {
		acker, err := in.Read(t.Context(), engine.NewBatch(1))
		if err != nil || acker == nil {
			t.Fatal(acker, err)
		}
	}
	if err := errors.Join(in.Stop(t.Context()), in.Close(t.Context())); err != nil {
		t.Error(err)
	}
	want := []string{"a open", "a read", "b open", "b read", "b stop", "a close", "b close"}
	if !slices.Equal(*log, want) {
		t.Errorf("got %q, want %q", *log, want)
	}
}

func TestReopenedItContinuesWhereItWas(t *testing.T) {
	in, log := newSequence(&fake{name: "a", n: 1}, &fake{name: "b", n: 2})
	for range 2 {
		if _, err := in.Read(t.Context(), engine.NewBatch(1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(in.Close(t.Context()), in.Open(t.Context())); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Read(t.Context(), engine.NewBatch(1)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(in.Close(t.Context()), in.Close(t.Context())); err != nil {
		t.Error(err)
	}
	want := []string{"a open", "a read", "b open", "b read", "a close", "b close", "a open", "b open", "b read",
		"a close", "b close"}
	if !slices.Equal(*log, want) {
		t.Errorf("got %q, want %q", *log, want)
	}
}

func TestALostConnectionDoesNotEndAPart(t *testing.T) {
	in, log := newSequence(&fake{name: "a", n: 1, cut: io.EOF}, &fake{name: "b", n: 1})
	if _, err := in.Read(t.Context(), engine.NewBatch(1)); !errors.Is(err, io.EOF) {
		t.Fatalf("got %v, want the error of the connection", err)
	}
	for range 2 {
		if _, err := in.Read(t.Context(), engine.NewBatch(1)); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"a open", "a read", "b open", "b read"}; !slices.Equal(*log, want) {
		t.Errorf("got %q, want %q", *log, want)
	}
}

func (p *fake) Trouble() *engine.Trouble { return &engine.Trouble{Cause: p.name} }

func TestTroubleOfOpenedParts(t *testing.T) {
	in, _ := newSequence(&fake{name: "a", n: 1}, &fake{name: "b", n: 1})
	if tr := in.Trouble(); tr != nil {
		t.Errorf("before anything is open: %+v", tr)
	}
	if _, err := in.Read(t.Context(), engine.NewBatch(1)); err != nil {
		t.Fatal(err)
	}
	if tr := in.Trouble(); tr == nil || tr.Cause != "a" {
		t.Errorf("got %+v, want that of a", tr)
	}
}

func TestAPartThatDoesNotOpenIsNamed(t *testing.T) {
	in, _ := newSequence(&fake{name: "a"}, &fake{name: "b", fail: errors.New("no such thing")})
	if _, err := in.Read(t.Context(), engine.NewBatch(1)); err == nil || err.Error() != "b: no such thing" {
		t.Errorf("got %v", err)
	}
}

func TestTraits(t *testing.T) {
	one, other := &fake{takes: engine.TakesOne}, &fake{takes: engine.TakesPosition}
	if in, _ := newSequence(one, one); in.Traits().TakesBack != engine.TakesOne {
		t.Error("equal parts take back what each does")
	}
	if in, _ := newSequence(one, other); in.Traits().TakesBack != engine.TakesNothing {
		t.Error("unequal parts take back nothing")
	}
}

func TestConfiguration(t *testing.T) {
	for config, want := range map[string]string{
		`[]`:             "empty",
		`[{"nope": {}}]`: "nope",
		`[{"file": {"path": "x", "framing": "bad"}}]`:  "bad",
		`[{"generate": {"body": "1"}}, {"pipe": "x"}]`: "pipe, number 2: it only ends when the pipelines that write to it have ended",
	} {
		got := strings.Join(enginetest.Problems(t, engine.Inputs, `{"sequence": `+config+`}`), "\n")
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q in it", config, got, want)
		}
	}
}

// lister is an input whose queue is a pattern.
type lister struct{ fake }

func (*lister) List(context.Context) ([]string, error) { return nil, nil }
func (*lister) Only(string) (engine.Input, error)      { return &fake{}, nil }

func init() {
	engine.Register(engine.Inputs, "test_pattern", "For tests.", struct{}{},
		func(struct{}, engine.Env) (engine.Input, error) { return &lister{}, nil })
}

func TestAPatternOfQueuesCannotBeAPart(t *testing.T) {
	c := Config{Inputs: []part{{engine.Plugin[engine.Input]{Name: "test_pattern"}}}}
	_, err := newInput(c, enginetest.Env())
	if err == nil || !strings.Contains(err.Error(), "test_pattern, number 1: a pattern matches any number of queues") ||
		!strings.Contains(err.Error(), "input `poll`") {
		t.Errorf("got %v", err)
	}
}
