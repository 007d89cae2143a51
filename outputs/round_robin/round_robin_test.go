package roundrobin

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/flowd-io/flowd/batchers/batch"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	"github.com/flowd-io/flowd/schema"
)

func of(names ...string) engine.OutputSpec {
	return engine.OutputSpec{Use: engine.Plugin[engine.Output]{Name: "round_robin", Config: Config{Outputs: names}}}
}

func out(name string, o engine.OutputSpec) schema.Entry[engine.OutputSpec] {
	return schema.Entry[engine.OutputSpec]{Key: name, Value: o}
}

func named(name string, s *enginetest.Sink) schema.Entry[engine.OutputSpec] {
	return out(name, s.Output())
}

func run(t *testing.T, p *engine.Pipeline) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { enginetest.Run(t, p, nil) })
}

func TestMessagesGoInTurn(t *testing.T) {
	for _, perRead := range []int{0, 1, 3} {
		a, b := &enginetest.Sink{}, &enginetest.Sink{}
		src := &enginetest.Source{Payloads: []string{"1", "2", "3", "4"}, Takes: engine.TakesOne, PerRead: perRead}
		run(t, &engine.Pipeline{
			Inputs:  enginetest.Named("in", src.Input()),
			Outputs: schema.MapOf(out("both", of("a", "b")), named("a", a), named("b", b)),
			Engine:  engine.EngineSpec{Workers: 1},
		})
		if !slices.Equal(a.Bodies(), []string{"1", "3"}) || !slices.Equal(b.Bodies(), []string{"2", "4"}) {
			t.Errorf("%d a read: a got %q, b got %q", perRead, a.Bodies(), b.Bodies())
		}
	}
}

func TestAFailureStaysWhereItIs(t *testing.T) {
	a, b := &enginetest.Sink{Fail: func(string) error { return engine.Errorf(engine.Rejected, "no") }},
		&enginetest.Sink{}
	src := &enginetest.Source{Payloads: []string{"1", "2", "3", "4"}, Takes: engine.TakesOne}
	run(t, &engine.Pipeline{
		Inputs:  enginetest.Named("in", src.Input()),
		Outputs: schema.MapOf(out("both", of("a", "b")), named("a", a), named("b", b)),
		Engine:  engine.EngineSpec{Workers: 1},
	})
	got := ""
	for _, body := range src.Payloads {
		got += fmt.Sprint(body, " ", src.Results()[body].Fate, "; ")
	}
	if got != "1 returned; 2 delivered; 3 returned; 4 delivered; " {
		t.Error(got)
	}
}

func TestBatchesStayWhole(t *testing.T) {
	a, b := &enginetest.Sink{}, &enginetest.Sink{}
	src := &enginetest.Source{Payloads: []string{"1", "2", "3", "4", "5", "6", "7"}, Takes: engine.TakesOne}
	run(t, &engine.Pipeline{
		Inputs:  enginetest.Named("in", src.Input()),
		Outputs: schema.MapOf(out("both", of("a", "b")), named("a", a), named("b", b)),
		Engine:  engine.EngineSpec{Workers: 1},
		Batchers: enginetest.Named("all", engine.BatcherSpec{
			Use:    twos(t),
			Output: engine.Names{"both"},
		}),
	})
	for name, s := range map[string]*enginetest.Sink{"[[1 2] [5 6]]": a, "[[3 4] [7]]": b} {
		var batches [][]string
		for _, w := range s.Writes() {
			batches = append(batches, w.Bodies)
		}
		if got := fmt.Sprint(batches); got != name {
			t.Errorf("got %s, want %s", got, name)
		}
	}
}

// twos makes batches of two.
func twos(t *testing.T) engine.Plugin[engine.Batcher] {
	t.Helper()
	var b engine.BatcherSpec
	steptest.Decode(t, `{"batch": {"size": 2}, "output": "both"}`, &b)
	return b.Use
}

func TestADrainLosesNothing(t *testing.T) {
	var all []string
	for i := range 2000 {
		all = append(all, fmt.Sprint(i))
	}
	synctest.Test(t, func(t *testing.T) {
		a, b := &enginetest.Sink{Delay: time.Second}, &enginetest.Sink{}
		src := &enginetest.Source{Payloads: all, Takes: engine.TakesOne, Endless: true, PerRead: 100,
			Every: 10 * time.Millisecond}
		stop, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		enginetest.Run(t, &engine.Pipeline{
			Inputs:  enginetest.Named("in", src.Input()),
			Outputs: schema.MapOf(out("both", of("a", "b")), named("a", a), named("b", b)),
		}, stop)
		if n := len(a.Bodies()) + len(b.Bodies()); n != src.Taken() || len(src.Results()) != n {
			t.Errorf("%d written, %d acknowledged of %d", n, len(src.Results()), src.Taken())
		}
	})
}
