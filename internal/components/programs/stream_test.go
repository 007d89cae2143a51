package programs

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os/exec"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/flowd-io/flowd/engine"
)

// script returns a program that runs a script.
func script(t *testing.T, text string) *Program {
	t.Helper()
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("SKIPPED: there is no setsid: ", err)
	}
	p := &Program{Command: Command{"sh", "-c", text}}
	if err := p.Find(); err != nil {
		t.Skip("SKIPPED: there is no shell: ", err)
	}
	return p
}

func TestStream(t *testing.T) {
	tests := []struct{ name, script, out, err string }{
		{"in order", "echo a; echo b >&2", "a\n", ""},
		{"a status", "echo a; echo bad >&2; exit 3", "a\n", "transient: the program ended: exit status 3: bad"},
		{"a signal", "kill -9 $$", "", "transient: the program ended: signal: killed"},
		{"others have its output", "echo a; sleep 1000 & exit 0", "a\n", ""},
		{"others hide and have its output", "echo a; env -i setsid sleep 1.5 2>&- & sleep 0.1", "a\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			err := script(t, tt.script).Stream(t.Context(), &out, NewLog(slog.New(slog.DiscardHandler), "sh", nil))
			got := ""
			if err != nil {
				got = string(engine.ErrorOf(err, "").Class) + ": " + err.Error()
			}
			if got != tt.err || out.String() != tt.out {
				t.Errorf("got %q and %s, want %q and %s", out.String(), got, tt.out, tt.err)
			}
		})
	}
}

// stopper ends a context at the first Write, or fails.
type stopper struct {
	cancel func()
	err    error
}

func (s stopper) Write(p []byte) (int, error) {
	s.cancel()
	return len(p), s.err
}

func TestAStreamIsStopped(t *testing.T) {
	p, log := script(t, "echo oops >&2; while echo a; do :; done; sleep 1000"), NewLog(slog.New(slog.DiscardHandler), "sh", nil)
	ctx, cancel := context.WithCancel(t.Context())
	if err := p.Stream(ctx, stopper{cancel: cancel}, log); err != context.Canceled {
		t.Errorf("got %v, want the end of the context", err)
	}
	err := p.Stream(t.Context(), stopper{func() {}, engine.WithClass(engine.Decode, iotest.ErrTimeout)}, log)
	if engine.ErrorOf(err, "").Class != engine.Decode || !errors.Is(err, iotest.ErrTimeout) ||
		!strings.Contains(err.Error(), "standard error: oops") {
		t.Errorf("got %v, want that of the writer", err)
	}
}
