//go:build !no_top && (!slim || top)

package cli

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/operations/service"
	"github.com/flowd-io/flowd/internal/operations/top"
)

// topOf starts a listener, and returns what runs flowd top on it.
func topOf(t *testing.T, p service.Process) func(args ...string) (stdout, stderr string, code int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	s, err := service.Start(t.Context(), service.Config{Listen: "127.0.0.1:0", TokenFile: file}, p, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return func(args ...string) (string, string, int) {
		return flowd(t.Context(), append([]string{"top", "--addr", s.Addr(), "--token-file", file, "--interval", "100ms"}, args...)...)
	}
}

func TestTopPrintsOneFrameWithoutATerminal(t *testing.T) {
	all := []engine.Snapshot{{Pipeline: "or\x1b[2Jders", State: engine.Running,
		Inputs:  []engine.InputState{{Name: "web", State: "waiting"}},
		Outputs: []engine.OutputState{{Name: "lake", Breaker: "open", Err: "refused \u202e"}}}}
	runTop := topOf(t, &shownProcess{snapshots: all})
	for _, args := range [][]string{nil, {"--once"}, {"--sort", "rate"}} {
		stdout, stderr, code := runTop(args...)
		for _, want := range []string{"1 pipeline, memory ", "or\\u001b[2Jders  running",
			"  bottleneck: output lake, breaker: the breaker is open: refused \\u202e", "* output  lake  ", "  input   web "} {
			if !strings.Contains(stdout, want) {
				t.Errorf("%q: it lacks %q:\n%s", args, want, stdout)
			}
		}
		if code != clean || stderr != "" || strings.Contains(stdout, "\x1b") {
			t.Errorf("%q: code %d, stderr %q, stdout %q", args, code, stderr, stdout)
		}
	}
	if stdout, _, _ := runTop("--filter", "lake"); strings.Contains(stdout, "web") {
		t.Errorf("a filter leaves\n%s", stdout)
	}
}

func TestTopWritesJSON(t *testing.T) {
	runTop := topOf(t, &shownProcess{snapshots: twoPipelines()})
	stdout, stderr, code := runTop("--json", "--once", "--addr", "127.0.0.1:1")
	var f top.Frame
	if err := json.Unmarshal([]byte(stdout), &f); err != nil || code != clean || stderr != "" {
		t.Fatalf("code %d, %v, stderr %q: %s", code, err, stderr, stdout)
	}
	if len(f.Processes) != 2 || len(f.Processes[0].Pipelines) != 2 ||
		!strings.Contains(f.Processes[1].Error, "nothing listens at 127.0.0.1:1") {
		t.Errorf("got %s", stdout)
	}
	if f.Interval < 0.1 || strings.Count(stdout, "\n") != 1 {
		t.Errorf("an interval of %v: %s", f.Interval, stdout)
	}
}

func TestTopMistakes(t *testing.T) {
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"top --addr 127.0.0.1:1 --interval 100ms --once", failed, "nothing listens at 127.0.0.1:1"},
		{"top --interval 1ms", invalid, "--interval must be from 100ms to 1h"},
		{"top --sort name", invalid, "must be one of flow, rate, latency, queue, failures"},
		{"top --addr example.org:1", invalid, "in clear text"},
		{"top orders", invalid, "unknown"},
	} {
		_, stderr, code := flowd(t.Context(), strings.Fields(tt.args)...)
		if code != tt.code || !strings.Contains(stderr, tt.says) {
			t.Errorf("flowd %s: code %d, stderr %q", tt.args, code, stderr)
		}
	}
}
