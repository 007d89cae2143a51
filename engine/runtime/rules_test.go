package runtime_test

import (
	"context"
	"slices"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

// A pipeline that a program puts together is judged as one from a file.
func TestBuildJudgesPipelines(t *testing.T) {
	sink := func() engine.OutputSpec { return (&enginetest.Sink{}).Output() }
	pipeline := func(edit func(*engine.Pipeline)) *engine.Pipeline {
		p := &engine.Pipeline{
			Name: "test", Inputs: enginetest.Named("in", (&enginetest.Source{}).Input()),
			Outputs: schema.MapOf(schema.Entry[engine.OutputSpec]{Key: "a", Value: sink()},
				schema.Entry[engine.OutputSpec]{Key: "b", Value: sink()}),
		}
		p.Batchers = enginetest.Named("all", engine.BatcherSpec{Output: engine.Names{"a", "b"}})
		edit(p)
		return p
	}
	tests := []struct {
		name string
		edit func(*engine.Pipeline)
		want []string // codes
	}{
		{"all is well", func(*engine.Pipeline) {}, nil},
		{"an output gets nothing", func(p *engine.Pipeline) {
			p.Batchers = enginetest.Named("all", engine.BatcherSpec{Output: engine.Names{"a"}})
		}, []string{"unused-output"}},
		{"a batcher names what is not there", func(p *engine.Pipeline) {
			p.Batchers = enginetest.Named("all", engine.BatcherSpec{Output: engine.Names{"a", "b", "c"}})
		}, []string{"unknown-output"}},
		{"nothing says which output takes a message", func(p *engine.Pipeline) {
			p.Batchers = schema.Map[engine.BatcherSpec]{}
		}, []string{"no-batchers"}},
		{"a dead letter is not there", func(p *engine.Pipeline) { p.Engine.OnFailure.DeadLetter = "c" },
			[]string{"unknown-output"}},
		{"a dead letter is not named", func(p *engine.Pipeline) { p.Engine.OnFailure.Then = "dead_letter" },
			[]string{"no-dead-letter"}},
		{"a wrapper is not there", func(p *engine.Pipeline) { p.Engine.Middleware = []string{"none"} },
			[]string{"unknown-middleware"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			plan, problems := runtime.Build(pipeline(tt.edit), runtime.Options{})
			var codes []string
			for _, p := range problems {
				codes = append(codes, p.Code)
			}
			if !slices.Equal(codes, tt.want) || (plan != nil) != (tt.want == nil) {
				t.Errorf("plan %v and problems %v, want %v", plan, problems, tt.want)
			}
		})
	}
}

// What is known to be wrong is not built, for it would only be complained of again; the
// rest is.
func TestBuildLeavesOutWhatIsWrong(t *testing.T) {
	built := map[string]bool{}
	step := func(path string) engine.StepSpec {
		use := engine.Use(func(engine.Env) (engine.Processor, error) {
			built[path] = true
			return engine.ProcessorFunc(func(context.Context, *engine.Message) error { return nil }), nil
		})
		use.Place = schema.Place{Pos: schema.Pos{File: "f", Line: 1, Col: 1}, Path: path}
		return engine.StepSpec{Use: use}
	}
	p := &engine.Pipeline{
		Name: "test", Inputs: enginetest.Named("in", (&enginetest.Source{}).Input()),
		Outputs:    enginetest.Named("out", (&enginetest.Sink{}).Output()),
		Processors: engine.Steps{step("processors[0].map"), step("processors[1].map"), step("processors[2].map")},
	}
	known := schema.Problem{Pos: schema.Pos{File: "f", Line: 2, Col: 1}, Path: "processors[1].map.filed",
		Code: "unknown-field"}
	elsewhere := schema.Problem{Pos: schema.Pos{File: "g", Line: 2, Col: 1}, Path: "processors[2].map",
		Code: "unknown-field"}
	_, problems := runtime.Build(p, runtime.Options{Known: []schema.Problem{known, elsewhere}})
	if len(problems) > 0 || !built["processors[0].map"] || built["processors[1].map"] || !built["processors[2].map"] {
		t.Errorf("problems %v, built %v, want all but the step with a mistake", problems, built)
	}
	p.Place.Pos.File = "f"
	if plan, _ := runtime.Build(p, runtime.Options{Known: []schema.Problem{known}}); plan != nil {
		t.Error("there is a plan of a pipeline with a mistake")
	}
}
