package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/operations/service"
)

// pushed is a process with a pipeline that ends messages as they say.
func pushed(got *[]string) *shownProcess {
	return &shownProcess{
		snapshots: []engine.Snapshot{{Pipeline: "orders", State: engine.Running, Inputs: []engine.InputState{{Name: "web"}}}},
		push: func(_ context.Context, pipeline, input string, b *engine.Batch) (all []*engine.Result, err error) {
			for m := range b.All() {
				body := string(m.Bytes())
				if *got = append(*got, pipeline+"/"+input+" "+body); m.Meta.Len() > 0 {
					(*got)[len(*got)-1] += fmt.Sprint(" ", m.Meta.Map())
				}
				switch {
				case strings.Contains(body, "slow"):
					all = append(all, nil)
				case strings.Contains(body, "bad"):
					all = append(all, &engine.Result{Fate: engine.Returned, Err: &engine.Error{Class: engine.Rejected, Output: "la\u202eke",
						Err: errors.New("no \x1b[2J\xff table")}})
				case strings.Contains(body, "drop"):
					all = append(all, &engine.Result{Fate: engine.Filtered})
				default:
					all = append(all, &engine.Result{Fate: engine.Delivered})
				}
			}
			return all, nil
		},
	}
}

func TestCtlPush(t *testing.T) {
	tests := []struct {
		args, in       string
		stdout, stderr string
		code           int
		got            string
	}{
		{args: "push orders", in: "a\ndrop\n", stderr: "orders: 2 pushed: 1 delivered, 1 filtered in", got: "orders/web a, orders/web drop"},
		{args: "push orders/web", in: "a\nbad\nslow", code: failed, got: "orders/web a, orders/web bad, orders/web slow",
			stderr: "line 2: returned at output la\\u202eke: no \\x1b[2J\ufffd table\nline 3: still in flight\n" +
				"orders: 3 pushed: 1 delivered, 1 returned, 1 in flight in"},
		{args: "push orders --json --rate 1000/s", in: "a\nbad\n", code: failed, got: "orders/web a, orders/web bad",
			stdout: `{"line":1,"fate":"delivered"}` + "\n" + `{"line":2,"fate":"returned","class":"rejected","at":"output la\u202eke",` +
				`"error":"no \u001b[2J` + "\ufffd" + ` table"}` + "\n",
			stderr: "orders: 2 pushed: 1 delivered, 1 returned in"},
		{args: "push orders --messages", in: `{"payload":{"id":1},"meta":{"n":7}}` + "\n", got: `orders/web {"id":1} map[n:7]`,
			stderr: "orders: 1 pushed: 1 delivered in"},
		{args: "push orders --messages", in: "nonsense\n", code: failed, stderr: "line 1: not a message in the form"},
		{args: "push order", in: "a\n", code: failed, stderr: `lines 1 to 1: there is no pipeline "order" (there is orders)`},
		{args: "push orders --wait 2h", code: invalid, stderr: "--wait must be from 1s to 1h0m0s"},
		{args: "push orders", stderr: "orders: 0 pushed in"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			var got []string
			ctl := ctlTo(t, pushed(&got))
			reads(t, tt.in)
			stdout, stderr, code := ctl(strings.Fields(tt.args)...)
			if stdout != tt.stdout || !strings.Contains(stderr, tt.stderr) || code != tt.code {
				t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
			}
			if all := strings.Join(got, ", "); all != tt.got {
				t.Errorf("pushed %q", all)
			}
		})
	}
}

func TestCtlCompletesPipelines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	s, err := service.Start(t.Context(), service.Config{Listen: "127.0.0.1:0", TokenFile: file},
		&shownProcess{snapshots: twoPipelines()}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	for _, verb := range []string{"push", "state", "pause"} {
		stdout, _, code := flowd(t.Context(), "__complete", "ctl", "--addr", s.Addr(), "--token-file", file, verb, "")
		if code != clean || !strings.HasPrefix(stdout, "orders\naudit\n:4") {
			t.Errorf("%s: code %d, completes %q", verb, code, stdout)
		}
	}
}

// reads makes a text the standard input of the test.
func reads(t *testing.T, text string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stdin")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	was := os.Stdin
	os.Stdin = f
	t.Cleanup(func() { os.Stdin = was; _ = f.Close() })
}
