package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/operations/service"
	"github.com/flowd-io/flowd/schema"
	"github.com/google/go-cmp/cmp"
)

// shownProcess is a process that takes down what it is asked for.
type shownProcess struct {
	snapshots []engine.Snapshot
	reload    error
	push      func(ctx context.Context, pipeline, input string, b *engine.Batch) ([]*engine.Result, error)

	mu    sync.Mutex // guards calls
	calls []string
}

func (p *shownProcess) call(format string, args ...any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, fmt.Sprintf(format, args...))
	return nil
}

func (p *shownProcess) took() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := strings.Join(p.calls, ", ")
	p.calls = nil
	return calls
}

func (p *shownProcess) Snapshots() []engine.Snapshot { return p.snapshots }
func (p *shownProcess) Pause(name string) error      { return p.call("pause %q", name) }
func (p *shownProcess) Resume(name string) error     { return p.call("resume %q", name) }
func (p *shownProcess) Drain(name string) error      { return p.call("drain %q", name) }
func (p *shownProcess) SetLimit(pipeline, name string, l service.Limit) error {
	return p.call("limit %q %q %+v", pipeline, name, l)
}

func (p *shownProcess) Push(ctx context.Context, pipeline, input string, b *engine.Batch) ([]*engine.Result, error) {
	return p.push(ctx, pipeline, input, b)
}

func (p *shownProcess) Reload() error {
	_ = p.call("reload")
	return p.reload
}

// ctlTo starts a listener and returns the command line up to the words after it.
func ctlTo(t *testing.T, p service.Process) func(args ...string) (stdout, stderr string, code int) {
	t.Helper()
	target := serves(t, p)
	return func(args ...string) (string, string, int) {
		return flowd(t.Context(), slices.Concat([]string{"ctl"}, target, args)...)
	}
}

// serves starts the admin API of a process, and returns the flags that lead there.
func serves(t *testing.T, p service.Process) (flags []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	s, err := service.Start(t.Context(), service.Config{Listen: "127.0.0.1:0", TokenFile: file}, p, nil,
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return []string{"--addr", s.Addr(), "--token-file", file}
}

func twoPipelines() []engine.Snapshot {
	limit := []engine.LimitState{{Name: "engine", Messages: 10, Per: time.Second}}
	return []engine.Snapshot{
		{Pipeline: "orders", State: engine.Running, Limits: limit},
		{Pipeline: "audit", State: engine.Running, Limits: limit},
	}
}

func TestCtlSteersAProcess(t *testing.T) {
	p := &shownProcess{snapshots: twoPipelines()}
	ctl := ctlTo(t, p)
	tests := []struct{ args, call, says string }{
		{"pause", `pause ""`, "paused orders, audit\n"},
		{"pause orders", `pause "orders"`, "paused orders\n"},
		{"resume audit", `resume "audit"`, "resumed audit\n"},
		{"drain", `drain ""`, "draining orders, audit\n"},
		{"reload", "reload", "reloaded orders, audit\n"},
		{"limit engine 500/1s --pipeline orders", `limit "orders" "engine" {Messages:500 Per:1s Burst:0 AtOnce:false}`,
			"500/1s for orders engine\n"},
		{"limit engine 30/m --now --burst 7 --pipeline audit",
			`limit "audit" "engine" {Messages:30 Per:1m0s Burst:7 AtOnce:true}`, "30/1m0s for audit engine\n"},
	}
	for _, tt := range tests {
		stdout, stderr, code := ctl(strings.Fields(tt.args)...)
		if call := p.took(); code != clean || stdout != "" || stderr != tt.says || call != tt.call {
			t.Errorf("flowd ctl %s: code %d, stdout %q, stderr %q, called %s; want %q and %s", tt.args, code, stdout,
				stderr, call, tt.says, tt.call)
		}
	}
}

func TestCtlMistakes(t *testing.T) {
	p := &shownProcess{snapshots: twoPipelines(), reload: errors.New("orders.yaml:1:1: no \x1b[2J (add it)")}
	ctl := ctlTo(t, p)
	tests := []struct {
		args []string
		code int
		says string
	}{
		{[]string{"puase"}, invalid, `ctl has no command "puase" (did you mean "pause"?)`},
		{[]string{"frobnicate"}, invalid, "(there are drain, limit, live, pause, pipelines, profile, push, ready, reload, resume, state)"},
		{nil, invalid, "Usage:"},
		{[]string{"pause", ""}, invalid, "the name of the pipeline is empty (leave it out to mean all)"},
		{[]string{"pause", "a", "b"}, invalid, "accepts at most 1 arg"},
		{[]string{"limit", "engine"}, invalid, "accepts 2 arg"},
		{[]string{"limit", "engine", "500"}, invalid, `"500" is not a rate (write messages and time, such as 500/1s)`},
		{[]string{"limit", "engine", "0/s"}, invalid, "is not a rate"},
		{[]string{"limit", "engine", "1/"}, invalid, "is not a rate"},
		{[]string{"limit", "engine", "1/1"}, invalid, "is not a rate"},
		{[]string{"limit", "engine", "1/-1s"}, invalid, "is not a rate"},
		{[]string{"limit", "engine", "1/s", "--burst", "0"}, invalid, "--burst must be at least 1"},
		{[]string{"profile"}, invalid, "accepts 1 arg"},
		{[]string{"profile", "gpu"}, invalid, `invalid argument "gpu"`},
		{[]string{"profile", "cpu", "--seconds", "0"}, invalid, "--seconds must be at least 1"},
		{[]string{"profile", "cpu", "--seconds", "301"}, failed, `seconds: "301" is not a whole number from 1 to 300`},
		{[]string{"profile", "heap", "--token-file", "/nope"}, failed, "open /nope: no such file"},
		{[]string{"limit", "engine", "1/s"}, failed,
			"several pipelines have a limit \"engine\" (name one of them: orders, audit)"},
		{[]string{"limit", "lake", "1/s"}, failed, `there is no limit "lake" (there is engine)`},
		{[]string{"drain", "order"}, failed, `there is no pipeline "order" (there are orders, audit)`},
		{[]string{"state", "order"}, failed, `there is no pipeline "order" (there are orders, audit)`},
		{[]string{"reload"}, failed, `orders.yaml:1:1: no \x1b[2J (add it)`},
		{[]string{"state", "--token-file", "/nope"}, failed, "open /nope: no such file"},
		{[]string{"state", "--addr", "example.org:1"}, invalid, "in clear text"},
		{[]string{"state", "--ca", "/nope"}, invalid, "--ca: open /nope"},
		{[]string{"state", "--key", "/nope"}, invalid, "--cert and --key belong together (give both)"},
	}
	for _, tt := range tests {
		stdout, stderr, code := ctl(tt.args...)
		if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.says) {
			t.Errorf("flowd ctl %q: code %d, stdout %q, stderr %q; want code %d and %q", tt.args, code, stdout, stderr,
				tt.code, tt.says)
		}
	}
	if calls := p.took(); calls != "reload" {
		t.Errorf("the process was asked to %s", calls)
	}
}

func TestCtlReloadShowsProblems(t *testing.T) {
	problem := schema.Problem{Pos: schema.Pos{File: "orders.yaml", Line: 3, Col: 5}, Path: "processors", Code: "unknown-field",
		Message: "unknown processor \"sett\"", Remedy: "did you mean \"set\"?"}
	ctl := ctlTo(t, &shownProcess{reload: service.Invalid([]schema.Problem{problem})})
	const want = "orders.yaml:3:5: processors: unknown processor \"sett\" (did you mean \"set\"?) [unknown-field]\n" +
		"1 error: nothing has changed (see problems)\n"
	if stdout, stderr, code := ctl("reload"); code != invalid || stdout != "" || stderr != want {
		t.Errorf("code %d, stdout %q, stderr %q, want %q", code, stdout, stderr, want)
	}
}

func TestCtlSavesProfiles(t *testing.T) {
	t.Chdir(t.TempDir())
	ctl := ctlTo(t, &shownProcess{})
	isProfile := func(text []byte) bool { return bytes.HasPrefix(text, []byte("\x1f\x8b")) } // gzip
	for _, kind := range []string{"heap", "goroutines"} {
		_, stderr, code := ctl("profile", kind)
		files, _ := filepath.Glob("flowd-" + kind + "-2*.pprof")
		if code != clean || len(files) != 1 || !strings.Contains(stderr, "saved "+files[0]) {
			t.Fatalf("%s: code %d, files %q: %s", kind, code, files, stderr)
		}
		text, err := os.ReadFile(files[0])
		if info, statErr := os.Stat(files[0]); err != nil || statErr != nil || !isProfile(text) || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v, %.100q", kind, err, statErr, text)
		}
	}
	if _, stderr, code := ctl("profile", "cpu", "--seconds", "1", "--output", "cpu.pprof"); code != clean {
		t.Errorf("cpu: code %d: %s", code, stderr)
	}
	if text, err := os.ReadFile("cpu.pprof"); err != nil || !isProfile(text) {
		t.Errorf("cpu: %v, %.100q", err, text)
	}
	if stdout, stderr, code := ctl("profile", "heap", "-o", "-"); code != clean || !isProfile([]byte(stdout)) || stderr != "" {
		t.Errorf("to stdout: code %d: %s", code, stderr)
	}
}

func TestCtlSaysThatNothingListens(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	_, stderr, code := flowd(t.Context(), "ctl", "--addr", ln.Addr().String(), "state")
	if code != failed || !strings.Contains(stderr,
		"nothing listens at "+ln.Addr().String()+" (set service.listen in a pipeline file") {
		t.Errorf("code %d: %s", code, stderr)
	}
}

func TestCtlHealthIsAnExitCode(t *testing.T) {
	p := &shownProcess{snapshots: []engine.Snapshot{{
		Pipeline: "orders", State: engine.Running,
		Outputs: []engine.OutputState{{Name: "lake", Err: "first\nsecond \x1b[31m", Breaker: "closed"}},
	}}}
	ctl := ctlTo(t, p)
	if stdout, _, code := ctl("live"); code != clean || stdout != "ok\n" {
		t.Errorf("live: code %d: %s", code, stdout)
	}
	stdout, stderr, code := ctl("ready")
	want := `output_failing in orders output lake
  impact: Messages for this output are kept and retried; reading stops when the memory for them is used up.
  cause:  The last write or probe failed.
  error:  first
          second \x1b[31m
  action: Check that the system behind the output works and can be reached. flowd retries by itself; no restart is needed.
`
	if diff := cmp.Diff(want, stdout); diff != "" || code != failed || stderr != "" {
		t.Errorf("ready: code %d, stderr %q\n%s", code, stderr, diff)
	}
	stdout, _, code = ctl("ready", "--json")
	var h service.Health
	if err := json.Unmarshal([]byte(stdout), &h); err != nil || code != failed || len(h.Checks) != 1 {
		t.Errorf("ready --json: code %d, %v: %s", code, err, stdout)
	}
}

func TestCtlStateForPeople(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var st service.State
	text, err := os.ReadFile(filepath.Join("testdata", "state.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &st); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := writeState(&b, st, now); err != nil {
		t.Fatal(err)
	}
	want := `orders  running for 1h0m0s
  20,000 received: 19,990 delivered, 5 dead-lettered, 5 in flight
  5 of 10,000 messages and 1MiB of 64MiB in flight, 1 of 4 lanes busy, 3 waiting (2 for a retry), the oldest 1.5s (input web, path a b.log, line 17)
  waits longest: input web, path a b.log, line 17, 1.5s, for a retry of output lake, continues in 3s
  from read to settled: p50 20ms, p90 300ms, p99 2s
  failures: 4 decode, 9 transient
  output lake: breaker, the breaker is open: refused\x1b[2J
  input web waits for output lake: back-pressure, 10000 of 10000 messages in flight
  input    web                    http_server  waiting, 20,000 received, 2MiB, 5 unacked, 1 restarts, 3 instances (1 restarting, 2 waiting)
  input    all                    poll         reading, 7 received, 0B
           q\u202e1               source       restarting, 3 received, no route\x1b[2J
           q2                     source       empty, due in 1m0s (2026-01-02T03:05:05Z), 4 received, 1 in flight, 2 weight
  input    tick                   generate     reading, due in 20h55m55s (2026-01-03T00:00:00Z), 0 received, 0B
  input    bus                    kafka        reading, 900 received, 4KiB
           positions                           14, lag 1,210, 2 revoked, 7 messages moved to other readers
           a/1                                 lag 1,000, settled 10, read 40, end 1010
           c/0                                 lag 27, settled 0, read 0, end 27
           b/1                                 lag 22, settled 7, read 8, end 29
           b/2                                 lag 20, settled 0, read 0, end 20
           b/3                                 lag 20, settled 0, read 0, end 20
           b/4                                 lag 20, settled 0, read 0, end 20
           b/5                                 lag 20, settled 0, read 0, end 20
           b/6                                 lag 20, settled 0, read 0, end 20
           b/7                                 lag 20, settled 0, read 0, end 20
           b/8                                 lag 20, settled 0, read 0, end 20
           …                                   2 more
  step     check of input web     http         20,000 received, 3 failed, 12ms a call
  step     filter                 filter       20,000 received, 2µs a call
  step     embed                  pool         9 received
           jobs                                2 of 4 slots busy, 3 waiting
           gpu\x1b1               worker       2 of 4 slots busy, heard 1.5s ago, v1.2.0, it has another version
  batcher  archive                             12 in open batches, 38 size, 2 timeout, 500 messages in one, to output lake and output disk
  output   lake\x1b[2J two lines  s3           breaker open, 19,990 written, 40 queued (2KiB), 2 of 8 writes, 9 failed, 7 retried, 1 abandoned, 30ms a write (p99 250ms)
  limit    engine                 500/1s       12 waits, 3 keys
  table    items                  csv          2,000 rows, 3KiB, 4 reloads, 1 unusable versions, items.csv: line 3

ok
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("the table:\n%s", diff)
	}
}

func TestCtlStateOfOnePipeline(t *testing.T) {
	all := twoPipelines()
	all[0].State = engine.Draining
	ctl := ctlTo(t, &shownProcess{snapshots: all})
	stdout, _, code := ctl("state", "audit")
	if code != clean || strings.Contains(stdout, "orders") || !strings.HasSuffix(stdout, "\nok\n") {
		t.Errorf("audit: code %d\n%s", code, stdout)
	}
	if stdout, _, _ = ctl("state"); !strings.Contains(stdout, "orders  draining\n") ||
		!strings.Contains(stdout, "pipeline_draining in orders\n") {
		t.Errorf("all:\n%s", stdout)
	}
	stdout, _, code = ctl("state", "orders", "--json")
	var st service.State
	if err := json.Unmarshal([]byte(stdout), &st); err != nil || code != clean || len(st.Pipelines) != 1 ||
		st.Pipelines[0].State != "draining" || st.Ready.Status != "fail" {
		t.Errorf("--json: code %d, %v\n%s", code, err, stdout)
	}
}

func TestVolumes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0B", 999: "999B", 1000: "0.977KiB", 1024: "1KiB", 1234567: "1.18MiB", 64 << 20: "64MiB",
		999 << 20: "999MiB", 5 << 40: "5TiB", 4096 << 40: "4PiB", 1<<63 - 1: "8EiB", 999*1024 + 700: "0.976MiB",
	} {
		if got := volume(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}
