package exec

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/programs"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	"go.uber.org/goleak"
)

func TestStreamConforms(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	steptest.Conforms(t, component("stream", `, "concurrency": 2`), "a", "b")
}

func TestLinesAreExchangedInOrder(t *testing.T) {
	tests := []struct {
		name, more string
		in, want   []string
	}{
		{"a line for a line", "", []string{"a", "", "b"}, []string{"A", "", "B"}},
		{"a document of several lines is one", "", []string{"{\n\"a\": [1,\r\n2]}"}, []string{`{"A":[1,2]}`}},
		{"other text of several lines fails alone", "", []string{"a", "b\nc", "d\re", "f"},
			[]string{"A", "permanent: the payload has several lines and is not JSON, so it can't be written as one…",
				"permanent: …", "F"}},
		{"into a field", `, "into": "x"`, []string{`{"a":1}`, `no`, `"y"`},
			[]string{`{"a":1,"x":{"A":1}}`, "decode: …", "permanent: x: the document is a string, not an object"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := opened(t, component("stream", tt.more))
			match(t, outcomes(t, t.Context(), p, tt.in...), tt.want...)
		})
	}
}

// TestAFullPipeBlocksNoOne sends more lines in both directions than pipes hold.
func TestAFullPipeBlocksNoOne(t *testing.T) {
	p := opened(t, component("stream", ""))
	in, want := make([]string, 256), make([]string, 256)
	for i := range in {
		in[i] = fmt.Sprint(i, strings.Repeat("x", 4<<10))
		want[i] = strings.ToUpper(in[i])
	}
	match(t, outcomes(t, t.Context(), p, in...), want...)
}

func TestOneProgramServesManyBatches(t *testing.T) {
	p := opened(t, component("stream", `, "concurrency": 1`))
	first := outcomes(t, t.Context(), p, "pid", "pid")
	match(t, outcomes(t, t.Context(), p, "pid"), first[0])
	if first[0] != first[1] {
		t.Errorf("got %q", first)
	}
}

func TestSeveralProgramsServeLanes(t *testing.T) {
	p := opened(t, component("stream", `, "concurrency": 2`))
	w := newWitness(t)
	ctx := newDeadline(t)
	hung := make(chan []string)
	go func() { hung <- outcomes(t, ctx, p, "hang "+w.addr()) }()
	gone := w.sees()
	match(t, outcomes(t, t.Context(), p, "a"), "A") // the other program has answered
	close(ctx.passed)
	match(t, <-hung,
		"timeout: the program did not answer in the step's time, and was killed; it has never answered, so it may hold lines back (make it "+
			"flush each line)…")
	gone()
}

func TestALateProgramIsKilledAndStartedAgain(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	p := opened(t, component("stream", `, "concurrency": 1`))
	defer func() { _ = p.(engine.Closer).Close(context.Background()) }()
	w, ctx := newWitness(t), newDeadline(t)
	match(t, outcomes(t, ctx, p, "a"), "A")
	done, waits := make(chan []string), make(chan []string)
	go func() { done <- outcomes(t, ctx, p, "b", "hang "+w.addr(), "c") }()
	gone := w.sees()
	go func() { waits <- outcomes(t, ctx, p, "d") }() // waits for the program that hangs
	close(ctx.passed)
	match(t, <-done, "B",
		"timeout: the program did not answer in the step's time, and was killed (raise its `timeout`)…", "timeout: …")
	match(t, <-waits, "timeout: …")
	gone()
	match(t, outcomes(t, t.Context(), p, "a"), "A")
}

func TestAProgramThatEndsIsStartedAgain(t *testing.T) {
	tests := []struct {
		name, more string
		in, want   []string
		ends       bool // the program ends after its answers
	}{
		{"a crash fails what it was at", "", []string{"a", "crash", "b", "crash", "c"},
			[]string{"A", "transient: the program ended: exit status 2: can't go on", "B", "transient: …", "C"}, false},
		{"a crash before any answer fails all", "", []string{"crash", "a"},
			[]string{"transient: the program ended: exit status 2: can't go on", "transient: the program ended: …"},
			false},
		{"an end behind its answer is none", "", []string{"last"}, []string{"bye"}, true},
		{"an end before an answer", "", []string{"last", "a", "b"},
			[]string{"bye", "transient: the program ended: exit status 0", "B"}, false},
		{"an answer that is too long", `, "max_output": "1KiB"`, []string{"long", "b"},
			[]string{"permanent: the answer is longer than max_output, 1KiB…", "B"}, false},
		{"a line too many, which shows only behind the last", "", []string{"two", "a", "b"}, []string{"1", "2", "A"},
			true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			p := opened(t, component("stream", `, "concurrency": 1`+tt.more)).(*pool)
			defer func() { _ = p.Close(context.Background()) }()
			match(t, outcomes(t, t.Context(), p, tt.in...), tt.want...)
			if tt.ends {
				awaitEnd(p)
			}
			match(t, outcomes(t, t.Context(), p, "x"), "X")
		})
	}
}

// awaitEnd waits until no program runs.
func awaitEnd(p *pool) {
	p.mu.Lock()
	all := slices.Collect(maps.Keys(p.running))
	p.mu.Unlock()
	for _, r := range all {
		<-r.done
	}
}

func TestAProgramThatAlwaysEndsIsStartedEverLater(t *testing.T) {
	var at slot
	for i, longest := range []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000} {
		at.failed(fmt.Errorf("end %d", i))
		got, most := time.Until(at.resume), longest*time.Millisecond
		if got > most || got < most/2-time.Second/20 {
			t.Errorf("after %d: %v, want %v to %v", i+1, got, most/2, most)
		}
	}
	at.resume = time.Now().Add(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := at.pause(ctx)
	if want := "the program has failed 9 times in a row, the last time: end 8"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestAProgramThatCannotRun(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	p := opened(t, component("idle stream", ""))
	match(t, outcomes(t, t.Context(), p, "a", "b"), "transient: the program ended: exit status 0", "transient: …")
}

func TestCloseEndsPrograms(t *testing.T) {
	tests := []struct {
		name string
		deaf bool
		want string
	}{
		{"one that ends with its input", false, ""},
		{"one that does not is killed", true, "it did not end when its input was closed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			w, more := newWitness(t), ""
			if tt.deaf {
				more = `env:"FLOWD_TEST_DEAF": "` + w.addr() + `";`
			}
			p := opened(t, component("stream", more))
			var log logged
			p.(*pool).log = slog.New(slog.NewTextHandler(&log, nil))
			match(t, outcomes(t, t.Context(), p, "a"), "A")
			ctx, hurry := context.WithCancel(t.Context())
			closed := make(chan error)
			go func() { closed <- p.(engine.Closer).Close(ctx) }()
			if tt.deaf {
				gone := w.sees()
				hurry()
				gone()
			}
			if err := <-closed; err != nil {
				t.Error(err)
			}
			hurry()
			if got := log.String(); !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("logged %s, want %q", got, tt.want)
			}
			match(t, outcomes(t, t.Context(), p, "a"), "transient: the step is closed")
		})
	}
}

// logged is a log that can be read during writes.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func TestAnErrorLineFailsItsMessageAlone(t *testing.T) {
	p := opened(t, component("stream", `, "concurrency": 1, "error_prefix": "ERROR "`))
	in, want := make([]string, 30), make([]string, 30)
	for i := range in {
		in[i], want[i] = "pid", outcomes(t, t.Context(), p, "pid")[0]
	}
	in[12], want[12] = "error no such customer", "permanent: no such customer"
	match(t, outcomes(t, t.Context(), p, in...), want...)
}

func TestErrorLines(t *testing.T) {
	tests := []struct {
		name, line, want string
		delay            time.Duration
	}{
		{"a text", "too bad", "permanent: too bad", 0},
		{"no text", "", "permanent: the program reported an error without a text", 0},
		{"an object", `{"text": "busy", "class": "transient", "after": 1.5}`, "transient: busy", 1500 * time.Millisecond},
		{"an object with only a text", `{"text": "busy\nbee"}`, "permanent: busy bee", 0},
		{"an object without a text", `{"code": 7}`, `permanent: {"code": 7}`, 0},
		{"a wrong type", `{"text": 7}`, `permanent: {"text": 7}`, 0},
		{"an unknown class", `{"text": "x", "class": "late"}`,
			`permanent: x (the program gave it the class "late": write permanent, transient, rejected, timeout, decode or auth)`, 0},
		{"a pause before now", `{"text": "x", "class": "timeout", "after": -1e300}`, "timeout: x", 0},
		{"a pause for ever", `{"text": "x", "class": "rejected", "after": 1e300}`, "rejected: x", maxAfter},
		{"a long text", strings.Repeat("x", maxReported+1), "permanent: " + strings.Repeat("x", maxReported) + "…", 0},
		{"a secret", "hunter2-hunter2 is wrong", "permanent: *** is wrong", 0},
	}
	p := &pool{}
	p.Secrets = p.Secrets.With("hunter2-hunter2")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := engine.ErrorOf(p.reported([]byte(tt.line)), engine.Auth)
			if got := string(e.Class) + ": " + e.Error(); got != tt.want || e.Delay != tt.delay {
				t.Errorf("got  %s after %s\nwant %s after %s", got, e.Delay, tt.want, tt.delay)
			}
		})
	}
}

func TestStandardErrorIsLogged(t *testing.T) {
	p := opened(t, component("stream", `, "concurrency": 1`)).(*pool)
	var log logged
	p.logged = programs.NewLog(slog.New(slog.NewTextHandler(&log, nil)), "p", p.Secrets.With("s3cret"))
	in := []string{"say with s3cret \x1b[31m", "say " + strings.Repeat("long ", 1<<10)}
	for i := range 500 {
		in = append(in, fmt.Sprint("say ", i))
	}
	outcomes(t, t.Context(), p, in...)
	if err := p.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(log.String(), "\n")
	if want := "with ***  [31m"; !strings.Contains(lines[0], want) {
		t.Errorf("got %s, want %s in it", lines[0], want)
	}
	if len(lines[1]) > 2<<10+200 {
		t.Errorf("a line of %d bytes was logged", len(lines[1]))
	}
	if n := len(lines); n < 100 || n > 400 {
		t.Errorf("%d lines were logged", n)
	}
	if !strings.Contains(log.String(), "were left out") {
		t.Error("nothing tells of the lines that were left out")
	}
}
