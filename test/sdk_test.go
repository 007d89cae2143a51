package test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// interpreters are commands that fail if the interpreter is missing or too old.
var interpreters = map[string][]string{
	"python": {"python3", "-c", "import sys; sys.exit(sys.version_info < (3, 9))"},
	"node":   {"node", "-e", "process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)"},
	"ruby":   {"ruby", "-e", "require 'minitest'; exit RUBY_VERSION >= '3.0'"},
}

// needsInterpreter skips a test if the interpreter of a language is missing or too old.
func needsInterpreter(t *testing.T, language string) {
	t.Helper()
	command := interpreters[language]
	if err := exec.CommandContext(t.Context(), command[0], command[1:]...).Run(); err != nil {
		skip(t, "programs in "+language+": no interpreter that is new enough", err)
	}
}

// TestSDKs runs the tests of the modules for programs, each with the runner of its language.
func TestSDKs(t *testing.T) {
	tests := []struct {
		sdk     string
		command []string
	}{
		{"python", []string{"python3", "-m", "unittest", "discover", "-s", "tests"}},
		{"node", []string{"node", "--test"}},
		{"ruby", []string{"ruby", "test/test_flowd.rb"}},
	}
	for _, test := range tests {
		t.Run(test.sdk, func(t *testing.T) {
			t.Parallel()
			needsInterpreter(t, test.sdk)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			suite := exec.CommandContext(ctx, test.command[0], test.command[1:]...)
			suite.Dir, suite.Env = filepath.Join(repo, "sdk", test.sdk), append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
			suite.WaitDelay = time.Second // programs that a suite has left behind hold its pipes
			if out, err := suite.CombinedOutput(); err != nil {
				t.Errorf("%v: %v\n%s", test.command, err, out)
			}
		})
	}
}
