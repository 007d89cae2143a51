package program

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/programtest"
)

func TestMain(m *testing.M) { programtest.Main(m) }

const fast = `"restart": {"backoff": "1ms", "max_backoff": "2ms"}`

// opened returns an open step that runs the test program. It is closed when the test ends.
func opened(t *testing.T, program, more string) engine.Processor {
	t.Helper()
	p := enginetest.New(t, engine.Processors, programtest.Component(program, more))
	if err := p.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.(engine.Closer).Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// outcome returns what became of a message: its payload, "CLASS: error", or "dropped".
func outcome(m *engine.Message) string {
	switch e := m.Err(); {
	case e != nil:
		return string(e.Class) + ": " + e.Error()
	case m.Dropped():
		return "dropped"
	}
	return string(m.Bytes())
}

func process(t *testing.T, ctx context.Context, p engine.Processor, payloads ...string) []string {
	t.Helper()
	var got []string
	for _, m := range messages(t, ctx, p, payloads...) {
		got = append(got, outcome(m))
	}
	return got
}

func messages(t *testing.T, ctx context.Context, p engine.Processor, payloads ...string) (all []*engine.Message) {
	t.Helper()
	b := enginetest.Batch(payloads...)
	for m := range b.All() {
		m.Meta = m.Meta.With("old", 1)
		all = append(all, m)
	}
	if err := p.Process(ctx, b); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestConforms(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	enginetest.Processor(t, func(t *testing.T) engine.Processor {
		return enginetest.New(t, engine.Processors, programtest.Component("answers", ""))
	}, "up a", "b")
}

func TestResults(t *testing.T) {
	p := opened(t, "answers", `"config": {"a": [1, "x"]}, "max_message": "1MiB"`)
	tests := []struct{ payload, want string }{
		{"keep", "keep"},
		{"up a b", "A B"},
		{"drop", "dropped"},
		{"fail it is 13", ": it is 13"}, // the engine adds the class
		{"trace", "rejected: ValueError: 13"},
		{"odd", ": x (its class \"sunburn\" does not exist)"},
		{"show", `{"config":{"a":[1,"x"]},"limits":{"body":1048576,"window":1024},"messages":8,"meta":{"old":1}}`},
		{strings.Repeat("x", 1<<20+1), "permanent: the message has 1048577 bytes, more than max_message, 1MiB (raise it, if messages may be " +
			"that long)"},
		{"say something", "say something"},
	}
	var payloads []string
	for _, tt := range tests {
		payloads = append(payloads, tt.payload)
	}
	for i, got := range process(t, t.Context(), p, payloads...) {
		want := tests[i].want
		if tests[i].payload == "show" {
			want = strings.Replace(want, `"messages":8`, `"messages":7`, 1) // those before the one that is too large
		}
		if got != want {
			t.Errorf("%.20q:\ngot  %s\nwant %s", tests[i].payload, got, want)
		}
	}
	all := messages(t, t.Context(), p, "meta", "trace")
	if got, _ := all[0].Meta.Get("old"); got != nil {
		t.Errorf("old: %v", got)
	}
	if text, err := doc.Append(nil, all[0].Meta.Map()); err != nil || string(text) != `{"new":[1,9007199254740993]}` {
		t.Errorf("%s, %v", text, err)
	}
	if e := all[1].Err(); e.Detail != "Traceback …\nline 3" || e.Delay != 1500*time.Millisecond {
		t.Errorf("%q, %v", e.Detail, e.Delay)
	}
	parts := enginetest.Apply(t, p, "split a,bc", "nothing")
	if len(parts) != 3 || string(parts[0].Body) != "a" || string(parts[1].Body) != "bc" {
		t.Errorf("%v", parts)
	}
}

func TestBrokenProtocolCostsOnlyTheMessageAtFault(t *testing.T) {
	for word, want := range map[string]string{
		"crash": "the program ended: exit status 9: segmentation fault", "killed": "the program ended: signal: killed",
		"stranger": "it answered batch 99, which does not exist",
		"beyond":   "which has only 1 messages", "garbage": "the header is not valid", "lie": "say more than the 0 bytes of its body",
		"huge": "a body of 1073741824 bytes is longer than max_message", "deep": "the header is not valid",
		"closes": "closed its pipe without exiting",
	} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			p := opened(t, "answers", fast)
			for i, got := range process(t, t.Context(), p, "up a", "up b", word, "up c", "up d", "up e") {
				if i == 2 {
					if !strings.HasPrefix(got, "permanent: the program failed 3 times while it had only this message: ") || !strings.Contains(got, want) {
						t.Errorf("got %s", got)
					}
				} else if want := []string{"A", "B", "", "C", "D", "E"}[i]; got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		})
	}
}

func TestAMessageAnsweredTwiceIsDelivered(t *testing.T) {
	p := opened(t, "answers", fast)
	// The second answer ends the process, when the message has its result.
	if got := process(t, t.Context(), p, "twice"); got[0] != "twice" {
		t.Errorf("got %s", got)
	}
	if got := process(t, t.Context(), p, "up a"); got[0] != "A" {
		t.Errorf("got %s", got)
	}
}

func TestABatchThatCrashesIsHalved(t *testing.T) {
	p := opened(t, "answers", fast+`, "config": {"together": true}`)
	var payloads []string
	for i := range 200 {
		payloads = append(payloads, "up "+strconv.Itoa(i))
	}
	payloads[77] = "crash"
	for i, got := range process(t, t.Context(), p, payloads...) {
		if i == 77 && !strings.HasPrefix(got, "permanent: ") || i != 77 && got != strconv.Itoa(i) {
			t.Errorf("%d: %s", i, got)
		}
	}
}

func TestACrashThatPassesFailsNothing(t *testing.T) {
	p := opened(t, "answers", fast)
	flaky := "flaky " + filepath.Join(t.TempDir(), "n")
	got := process(t, t.Context(), p, "up a", flaky, "up b")
	if got[0] != "A" || got[1] != flaky || got[2] != "B" {
		t.Errorf("got %q", got)
	}
}

func TestAnErrorLeavesTheProcessAlone(t *testing.T) {
	p := opened(t, "answers", "")
	got := process(t, t.Context(), p, "pid", "trace", "fail x", "pid")
	if got[0] != got[3] || got[0] == strconv.Itoa(os.Getpid()) {
		t.Errorf("got %q", got)
	}
	if again := process(t, t.Context(), p, "pid"); again[0] != got[0] {
		t.Errorf("got %q, then %q", got, again)
	}
}

// Each message waits until all eight processes have one.
func TestProcessesShareMessages(t *testing.T) {
	p := opened(t, "answers", `"concurrency": 8`)
	dir := t.TempDir()
	meet := "meet " + dir
	for i, got := range process(t, t.Context(), p, meet, meet, meet, meet, meet, meet, meet, meet) {
		if got != meet {
			t.Errorf("message %d: %s", i, got)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 8 {
		t.Errorf("%d processes had a message, %v", len(files), err)
	}
}

func TestAProgramMayExitAfterItsAnswer(t *testing.T) {
	p := opened(t, "answers", "")
	for range 3 {
		if got := process(t, t.Context(), p, "exit"); got[0] != "exit" {
			t.Errorf("got %q", got)
		}
	}
}

func TestSilence(t *testing.T) {
	t.Run("kills a program that has work", func(t *testing.T) {
		t.Parallel()
		p := opened(t, "answers", fast+`, "timeout": "200ms"`)
		got := process(t, t.Context(), p, "hang", "up a")
		if !strings.HasPrefix(got[0], "timeout: the program failed 3 times") || !strings.Contains(got[0], "sent nothing for 200ms") ||
			got[1] != "A" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("is broken by its state", func(t *testing.T) {
		t.Parallel()
		p := opened(t, "answers", `"timeout": "400ms"`)
		if got := process(t, t.Context(), p, "busy"); got[0] != "busy" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("does not matter without work", func(t *testing.T) {
		t.Parallel()
		p := opened(t, "answers", `"timeout": "100ms"`)
		pid := process(t, t.Context(), p, "pid")
		time.Sleep(300 * time.Millisecond) // three times the limit
		if again := process(t, t.Context(), p, "pid"); again[0] != pid[0] {
			t.Errorf("got %q, then %q", pid, again)
		}
	})
}

func TestAStepsTimeCancels(t *testing.T) {
	p := opened(t, "answers", "")
	path := filepath.Join(t.TempDir(), "go")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	all := messages(t, ctx, p, "up a", "wait "+path, "up b")
	if got := outcome(all[0]); got != "A" {
		t.Errorf("got %q", got)
	}
	if got := outcome(all[1]); !strings.HasPrefix(got, "timeout: the program did not answer in time (raise its `timeout`)") {
		t.Errorf("got %q", got)
	}
	if e := all[2].Err(); e == nil || e.Class != engine.Transient || !e.Holds { // its turn had not come
		t.Errorf("got %+v", e)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// The answer that comes late is not taken for one of the next batch.
	if got := process(t, t.Context(), p, "up a", "canceled"); got[0] != "A" || got[1] != "canceled 1" {
		t.Errorf("got %q", got)
	}
}

func TestStarts(t *testing.T) {
	for _, tt := range []struct{ program, more, want string }{
		{"exits", "", "the program ended before it was ready: exit status 7: no such module: torch"},
		{"silent", `"start_timeout": "100ms"`, "was not ready within start_timeout (100ms), and was killed"},
		{"babbles", "", "a header of 1751477356 bytes is longer than 16777216"},
		{"refuses", "", `config.model: there is no model "smal"`},
		{"old", "", "the program speaks version 7 of the protocol, flowd version 1"},
	} {
		t.Run(tt.program, func(t *testing.T) {
			t.Parallel()
			p := enginetest.New(t, engine.Processors, programtest.Component(tt.program, tt.more))
			err := p.(engine.Opener).Open(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestMessagesWaitForAProgramThatCantBeStartedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "was here")
	p := opened(t, "once", `"config": {"path": `+strconv.Quote(path)+`}, `+fast)
	_ = os.Remove(path)
	if got := process(t, t.Context(), p, "up a", "exit"); got[0] != "A" {
		t.Errorf("got %q", got)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m := messages(t, t.Context(), p, "up b")[0]
	if e := m.Err(); e == nil || !e.Holds || e.Class != engine.Transient || !strings.Contains(e.Error(), "the disk is gone") {
		t.Errorf("got %+v", e)
	}
	if trouble := p.(engine.Troubled).Trouble(); trouble == nil || !strings.Contains(trouble.Cause, "the disk is gone") {
		t.Errorf("trouble %+v", trouble)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		if got := process(t, t.Context(), p, "up b"); got[0] == "B" {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("got %q", got)
		}
	}
	if trouble := p.(engine.Troubled).Trouble(); trouble != nil {
		t.Errorf("trouble %+v", trouble)
	}
}

func TestAnErrorOfTheWholeProgramHolds(t *testing.T) {
	p := opened(t, "answers", fast)
	m := messages(t, t.Context(), p, "error")[0]
	if e := m.Err(); e == nil || !e.Holds || e.Class != engine.Transient || e.Error() != "the database is gone" {
		t.Errorf("got %+v", e)
	}
}

func TestHealth(t *testing.T) {
	p := opened(t, "answers", "")
	process(t, t.Context(), p, "unready")
	if trouble := p.(engine.Troubled).Trouble(); trouble == nil || trouble.Cause != "the model is being loaded" {
		t.Errorf("trouble %+v", trouble)
	}
}

func TestChildrenEndWithTheProgram(t *testing.T) {
	t.Parallel()
	p := enginetest.New(t, engine.Processors, programtest.Component("answers", ""))
	if err := p.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(process(t, t.Context(), p, "forks")[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := p.(engine.Closer).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("the child lives on")
	}
}

func TestAProgramThatDoesNotEndIsKilled(t *testing.T) {
	t.Parallel()
	p := enginetest.New(t, engine.Processors, programtest.Component("deaf", ""))
	if err := p.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	pid, _ := strconv.Atoi(process(t, t.Context(), p, "pid")[0])
	if err := p.(engine.Closer).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("the program lives on")
	}
}
