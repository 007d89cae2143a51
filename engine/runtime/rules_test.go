package runtime_test

import (
	"context"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

// A component with a known mistake is not built, since building would report the mistake again. The rest is built.
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
