package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
)

func TestLogFollowsTheConfigurationReadLater(t *testing.T) {
	tests := []struct {
		name  string
		flags logFlags
		set   config.Log
		want  string // part of the line; "": there is none
	}{
		{"logfmt by default", logFlags{}, config.Log{}, "level=INFO msg=started pipeline=orders"},
		{"json", logFlags{}, config.Log{Format: "json"}, `"level":"INFO","msg":"started","pipeline":"orders"`},
		{"text", logFlags{}, config.Log{Format: "text"}, " INF started pipeline=orders"},
		{"a level above", logFlags{}, config.Log{Level: "warn"}, ""},
		{"flags override it", logFlags{oneOf{value: "info"}, oneOf{value: "json"}},
			config.Log{Level: "error", Format: "logfmt"}, `"msg":"started"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			l := newLogging(newConsole(&out), nil, tt.flags)
			component := l.log.With("pipeline", "orders")
			l.configure(tt.set)
			component.Info("started")
			if got := out.String(); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestComponentsHaveLevelsOfTheirOwn(t *testing.T) {
	var out bytes.Buffer
	l := newLogging(newConsole(&out), nil, logFlags{})
	pipeline := l.log.With("pipeline", "orders")
	web, lake := pipeline.With("name", "web"), pipeline.With("name", "lake")
	l.configure(config.Log{Level: "warn", Components: map[string]string{"web": "debug", "lake": "error", "check": "info"}})
	all := func(at string, log *slog.Logger, attrs ...any) {
		log.Debug("debug "+at, attrs...)
		log.Info("info "+at, attrs...)
		log.Warn("warn "+at, attrs...)
	}
	all("web", web)
	all("lake", lake)
	all("of the rest", pipeline)
	all("of the engine about web", pipeline, "input", "web")
	all("of the engine about lake", pipeline, "output", "lake")
	all("in a list", pipeline.With("name", "checks 2/check"))
	all("in a place", pipeline, "place", "step check")
	var got []string
	for line := range strings.Lines(out.String()) {
		_, message, _ := strings.Cut(line, `msg="`)
		message, _, _ = strings.Cut(message, `"`)
		got = append(got, message)
	}
	want := "debug web, info web, warn web, warn of the rest, debug of the engine about web, info of the engine about web, " +
		"warn of the engine about web, info in a list, warn in a list, info in a place, warn in a place"
	if got := strings.Join(got, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// records returns the records on stderr, and complains about any other line.
func records(t *testing.T, stderr string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(stderr) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil || r["level"] == nil || r["msg"] == nil || r["time"] == nil {
			t.Errorf("not a record: %s", line)
		}
		all = append(all, r)
	}
	return all
}

func init() {
	engine.Register(engine.Processors, "test_panic", "Panics. For tests.", struct{}{},
		func(struct{}, engine.Env) (engine.Processor, error) { return panicking{}, nil })
}

type panicking struct{}

func (panicking) Process(context.Context, *engine.Batch) error { panic("no \"good\"\nat all") }

func TestWithJSONAllOfStderrIsJSON(t *testing.T) {
	const (
		works  = "inputs: {in: {test_lines: {lines: [a, b, c]}}}\noutputs: {out: {test_drop: {}}}\n"
		asJSON = "service: {log: {format: json}}\n"
	)
	tests := []struct {
		name, file string
		flags      []string
		code       int
		want       map[string]any // in the last record
	}{
		{"a summary", works + asJSON, nil, clean, map[string]any{"msg": "pipeline has ended", "level": "INFO", "pipeline": "p",
			"received": 3, "delivered": 3, "dropped": 0, "exit_code": 0}},
		{"a summary whatever the level", works + asJSON, []string{"--log-level=error"}, clean,
			map[string]any{"msg": "pipeline has ended", "delivered": 3}},
		{"a flag", works, []string{"--log-format=json"}, clean, map[string]any{"delivered": 3}},
		{"a panic", "processors: [{test_panic: {}}]\n" + works + asJSON, nil, failed, map[string]any{"level": "ERROR",
			"dropped": 3, "exit_code": 1, "notes": []any{
				"failed messages were dropped (name an output in engine.on_failure.dead_letter to keep them)"}}},
		{"a mistake in the file", works + asJSON + "engine: {workers: many}\n", nil, invalid, map[string]any{"level": "ERROR",
			"msg": `"many" is not a whole number`, "remedy": "write a number such as 10", "line": 4, "column": 19,
			"path": "engine.workers", "code": "bad-value"}},
		{"an unknown flag", works, []string{"--log-format=json", "--nonsense"}, invalid,
			map[string]any{"level": "ERROR", "msg": "unknown flag: --nonsense"}},
		{"a start that fails", works + "service: {listen: '127.0.0.1:0', token_file: /nowhere/token, log: {format: json}}\n", nil,
			failed, map[string]any{"level": "ERROR"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr, code := flowd(t.Context(), append([]string{"-c", pipeline(t, tt.file)}, tt.flags...)...)
			all := records(t, stderr)
			if code != tt.code || stdout != "" || len(all) == 0 {
				t.Fatalf("code %d, want %d\n%s%s", code, tt.code, stdout, stderr)
			}
			last := all[len(all)-1]
			for key, want := range tt.want {
				if got := last[key]; fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s is %v, want %v", key, got, want)
				}
			}
		})
	}
}

func TestTheFlagsOfTheLogAreChecked(t *testing.T) {
	for _, flag := range []string{"--log-format=xml", "--log-level=loud"} {
		_, stderr, code := flowd(t.Context(), "-c", "x.yaml", flag)
		if code != invalid || !strings.Contains(stderr, "must be one of ") {
			t.Errorf("%s: code %d: %s", flag, code, stderr)
		}
	}
}
