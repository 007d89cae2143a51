package log_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/operations/logsum"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/log"
	"github.com/flowd-io/flowd/schema"
)

// logged runs the step and returns what a handler at level info writes.
func logged(t *testing.T, step string, payloads ...string) string {
	t.Helper()
	var out bytes.Buffer
	noTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	env := enginetest.Env()
	env.Log = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: noTime}))
	p, err := engine.Processors.Lookup("log").Build(configOf(t, step), env)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range enginetest.Apply(t, p, payloads...) {
		if o.Fate != "live" {
			t.Fatalf("fate %s: %v", o.Fate, o.Err)
		}
	}
	return out.String()
}

// configOf decodes the settings of the step.
func configOf(t *testing.T, step string) any {
	t.Helper()
	n, err := schema.ParseJSON(step)
	if err != nil {
		t.Fatal(err)
	}
	d := schema.NewDecoder(nil)
	config := engine.Processors.Lookup("log").Type.Decode(d, n)
	for _, p := range d.Problems() {
		t.Fatal(p)
	}
	return config
}

func TestLog(t *testing.T) {
	tests := []struct {
		name string
		step string
		in   string
		want string
	}{
		{"a line for a message", `"order $(id) is late"`, `{"id":7}`, `level=INFO msg="order 7 is late"` + "\n"},
		{"level and values", `{"message": "late", "level": "warn", "fields": {"id": "this.id", "tags": "this.tags"}}`,
			`{"id":7,"tags":["a"]}`, `level=WARN msg=late id=7 tags="[\"a\"]"` + "\n"},
		{"nothing below the level of the log", `{"message": "late", "level": "debug"}`, `{}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := logged(t, tt.step, tt.in); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestAMessageCantForgeALogLineOrDriveATerminal(t *testing.T) {
	got := logged(t, `{"message": "user $(user)", "fields": {"u": "this.user"}}`,
		`{"user":"ann\nlevel=ERROR msg=\"all is lost\"\u001b[31m\r"}`)
	if strings.Count(got, "\n") != 1 || strings.ContainsAny(got, "\x1b\r") {
		t.Errorf("the log has %q, want one line without control characters", got)
	}
}

func TestLogPassesAndRefuses(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{Name: "a line that nobody reads is not made", Step: `{"log": {"message": "order $(id)", "level": "error"}}`,
			In: []string{`{}`}, Want: []string{`{}`}},
	})
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "no text", Step: `{"log": {"level": "info"}}`, Want: "message"},
		{Name: "an unknown level", Step: `{"log": {"message": "x", "level": "loud"}}`,
			Want: "must be one of debug, info, warn, error"},
	})
}

func TestLogConforms(t *testing.T) { steptest.Conforms(t, `{"log": "x"}`, `{"a":1}`, `{}`) }

// traced is a handler that keeps what the context of a record has for a key, as handlers do that look for its trace.
type traced struct {
	slog.Handler
	key any
	got []any
}

func (h *traced) Handle(ctx context.Context, _ slog.Record) error {
	h.got = append(h.got, ctx.Value(h.key))
	return nil
}

func (h *traced) WithAttrs([]slog.Attr) slog.Handler { return h }

func TestALineBelongsToTheTraceOfItsCall(t *testing.T) {
	type key struct{}
	h := &traced{slog.NewTextHandler(io.Discard, nil), key{}, nil}
	env := enginetest.Env()
	env.Log = slog.New(logsum.New(h))
	p, err := engine.Processors.Lookup("log").Build(configOf(t, `"late"`), env)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Process(context.WithValue(t.Context(), key{}, "call"), enginetest.Batch("a")); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(h.got, []any{"call"}) {
		t.Errorf("the contexts of the lines have %v", h.got)
	}
}
