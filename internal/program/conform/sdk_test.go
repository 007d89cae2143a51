package conform

import (
	"os/exec"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/flowd-io/flowd/internal/components/programs"
	"github.com/flowd-io/flowd/internal/program/frame"
)

// The modules for programs do it right: with plain functions, with functions that run concurrently, and with those for batches.
func TestTheModules(t *testing.T) {
	tests := []struct{ name, interpreter, suffix, newEnough string }{
		{"python", "python3", ".py", "import sys; sys.exit(sys.version_info < (3, 9))"},
		{"node", "node", ".mjs", "process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)"},
		{"ruby", "ruby", ".rb", "exit RUBY_VERSION >= '3.0'"},
	}
	few := []string{"a failed message among others", "a canceled batch", "it drains"}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			option := "-e"
			if tt.name == "python" {
				option = "-c"
			}
			if err := exec.CommandContext(t.Context(), tt.interpreter, option, tt.newEnough).Run(); err != nil {
				t.Skipf("SKIPPED: there is no %s that is new enough: %v", tt.interpreter, err)
			}
			module := func(name string) programs.Program {
				return programs.Program{Command: []string{tt.interpreter, "testdata/" + name + tt.suffix},
					Env: []string{"PYTHONPATH=../../../sdk/python", "PYTHONDONTWRITEBYTECODE=1"}}
			}
			var all errgroup.Group
			for _, o := range []Options{
				{Kind: frame.Step, Program: module("sync")},
				{Kind: frame.Step, Program: module("async"), Cases: append(work(), "SIGTERM", "it drains, and its pipe is closed at once")},
				{Kind: frame.Step, Program: module("batch"), Cases: few},
				{Kind: frame.Output, Program: module("sync"), Cases: few},
				{Kind: frame.Output, Program: module("async"), Cases: few},
				{Kind: frame.Output, Program: module("batch"), Cases: few},
				{Kind: frame.Input, Program: module("sync")},
				{Kind: frame.Input, Program: module("async"), Cases: ends},
				{Kind: frame.Input, Program: module("batch"), Cases: ends},
			} {
				all.Go(func() error {
					wantRight(t, o)
					return nil
				})
			}
			_ = all.Wait() // none fails
		})
	}
}
