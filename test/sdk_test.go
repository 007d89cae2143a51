package test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestSDKs runs the tests of the modules for programs, each with the runner of its language.
func TestSDKs(t *testing.T) {
	tests := []struct {
		sdk     string
		version []string // a command that fails if the interpreter is missing or too old
		command []string
	}{
		{"python", []string{"python3", "-c", "import sys; sys.exit(sys.version_info < (3, 9))"},
			[]string{"python3", "-m", "unittest", "discover", "-s", "tests"}},
		{"node", []string{"node", "-e", "process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)"}, []string{"node", "--test"}},
		{"ruby", []string{"ruby", "-e", "require 'minitest'; exit RUBY_VERSION >= '3.0'"}, []string{"ruby", "test/test_flowd.rb"}},
	}
	for _, test := range tests {
		t.Run(test.sdk, func(t *testing.T) {
			t.Parallel()
			if err := exec.CommandContext(t.Context(), test.version[0], test.version[1:]...).Run(); err != nil {
				skip(t, "the module for "+test.sdk+": no interpreter that is new enough", err)
			}
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
