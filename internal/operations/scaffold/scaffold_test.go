package scaffold

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	_ "github.com/flowd-io/flowd/batchers"
	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	_ "github.com/flowd-io/flowd/inputs"
	"github.com/flowd-io/flowd/internal/operations/pipetest"
	_ "github.com/flowd-io/flowd/outputs"
	_ "github.com/flowd-io/flowd/processors"
)

// TestEveryComponentIsWritten writes a pipeline for each component, and lints it.
func TestEveryComponentIsWritten(t *testing.T) {
	for _, name := range engine.Inputs.Names() {
		check(t, Parts{[]string{name}, []string{"filter"}, []string{"stdout"}})
	}
	for _, name := range engine.Processors.Names() {
		check(t, Parts{[]string{"stdin"}, []string{name}, []string{"stdout"}})
	}
	for _, name := range engine.Outputs.Names() {
		in := "stdin"
		if name == "reply" {
			in = "http_server"
		}
		check(t, Parts{[]string{in}, nil, []string{name}})
	}
	check(t, Parts{[]string{"rabbitmq", "stdin"}, []string{"filter", "set", "set", "archive"}, []string{"s3", "file", "file"}})
}

// runTest runs the first test of a file.
func runTest(t *testing.T, path string) {
	t.Helper()
	set, _ := config.Load([]string{path}, config.Options{Testing: true})
	if len(set.Pipelines) != 1 || len(set.Pipelines[0].Tests()) != 1 {
		t.Fatal("it has no test")
	}
	res, err := pipetest.Run(set.Rehearse(set.Pipelines[0], 0))
	if err != nil || len(res.Differences)+len(res.Problems) > 0 {
		t.Errorf("its test fails: %v %v %v", err, res.Differences, res.Problems)
	}
}

func check(t *testing.T, p Parts) {
	t.Helper()
	t.Run(p.Inputs[0]+slices.Concat([]string{""}, p.Steps)[len(p.Steps)]+p.Outputs[0], func(t *testing.T) {
		text, err := Write(p)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "new.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, problems := config.Load([]string{path}, config.Options{})
		for _, p := range problems {
			if !p.Warning && p.Code != "open-pipe" { // the other end is in another file
				t.Error(p)
			}
		}
		if p.Inputs[0] != "pipe" && p.Outputs[0] != "pipe" {
			runTest(t, path)
		}
		if f, problems := config.FormatText("new.yaml", []byte(text)); len(problems) > 0 || f.Changed() {
			t.Errorf("it is not formatted: %v", problems)
		}
		if t.Failed() {
			t.Log(text)
		}
	})
}
