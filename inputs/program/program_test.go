package program

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/programtest"
)

func TestMain(m *testing.M) { programtest.Main(m) }

func newNumbers(t *testing.T, to int, config, more string) engine.Input {
	config = fmt.Sprintf(`"config": {"to": %d%s}`, to, config)
	return enginetest.New(t, engine.Inputs, programtest.Component("numbers", config+more))
}

func TestConforms(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	enginetest.Input(t, func(t *testing.T) engine.Input { return newNumbers(t, 12, "", `, "window": 4`) },
		"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12")
}

// readAll reads to the end, or until n messages were read. It returns the payloads.
func readAll(t *testing.T, in engine.Input, n int) (got []string, acker engine.Acker, refs []uint64) {
	t.Helper()
	for len(got) < n {
		b := engine.NewBatch(min(7, n-len(got)))
		a, err := in.Read(t.Context(), b)
		for m := range b.All() {
			got, refs = append(got, string(m.Bytes())), append(refs, m.Ref)
		}
		if acker = a; err != nil {
			if err != engine.ErrEnd {
				t.Fatal(err)
			}
			return got, acker, refs
		}
	}
	return got, acker, refs
}

func open(t *testing.T, in engine.Input) {
	t.Helper()
	if err := in.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func closeInput(t *testing.T, in engine.Input) {
	t.Helper()
	if err := in.(engine.Closer).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func settle(t *testing.T, a engine.Acker, fate engine.Fate, refs ...uint64) {
	t.Helper()
	var results []engine.Result
	for _, r := range refs {
		results = append(results, engine.Result{Ref: r, Fate: fate})
	}
	if again, err := a.Ack(t.Context(), results); err != nil || len(again) > 0 {
		t.Fatal(again, err)
	}
}

func TestARestartContinuesBehindWhatIsSettled(t *testing.T) {
	path := strconv.Quote(filepath.Join(t.TempDir(), "checkpoint"))
	in := newNumbers(t, 100, "", `, "checkpoint": `+path)
	open(t, in)
	_, a, refs := readAll(t, in, 30)
	settle(t, a, engine.Delivered, refs[:10]...)
	settle(t, a, engine.Delivered, refs[20:]...) // 11 to 20 are still in flight
	closeInput(t, in)

	in = newNumbers(t, 100, "", `, "checkpoint": `+path)
	open(t, in)
	defer closeInput(t, in)
	if got, _, _ := readAll(t, in, 1); got[0] != "11" {
		t.Errorf("it continues with %s", got[0])
	}
}

func TestACrashLosesAndRepeatsNothing(t *testing.T) {
	crash := fmt.Sprintf(`, "crash": 23, "path": %q`, filepath.Join(t.TempDir(), "crashed"))
	in := newNumbers(t, 100, crash, `, "window": 40`)
	open(t, in)
	var got []string
	for crashed := false; ; {
		b := engine.NewBatch(7)
		_, err := in.Read(t.Context(), b)
		for m := range b.All() {
			got = append(got, string(m.Bytes()))
		}
		if err == engine.ErrEnd {
			if !crashed {
				t.Error("it never crashed")
			}
			break
		}
		if err != nil {
			if crashed || !strings.Contains(err.Error(), "the program ended: exit status 9") || !engine.Passes(err) {
				t.Fatal(err)
			}
			crashed = true
			closeInput(t, in)
			open(t, in)
		}
	}
	closeInput(t, in)
	if len(got) != 100 {
		t.Fatalf("%d messages: %v", len(got), got)
	}
	for i, s := range got {
		if s != strconv.Itoa(i+1) {
			t.Errorf("message %d is %s", i+1, s)
		}
	}
}

func TestFatesComeInTheOrderOfSettlement(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fates")
	in := newNumbers(t, 100, fmt.Sprintf(`, "fates": %q`, path), `, "takes_back": true, "window": 10`)
	open(t, in)
	_, a, refs := readAll(t, in, 6)
	settle(t, a, engine.Delivered, refs[2], refs[0])
	settle(t, a, engine.Filtered, refs[1])
	settle(t, a, engine.Returned, refs[4])
	if err := in.(engine.Stopper).Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	settle(t, a, engine.DeadLettered, refs[3])
	closeInput(t, in)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"3 delivered", "1 delivered", "2 filtered", "5 returned"}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i, w := range want {
		if lines[i] != w {
			t.Errorf("fate %d is %q, want %q", i, lines[i], w)
		}
	}
	// The messages that were not read went back when it was stopped, before the last one was settled.
	rest := lines[len(want):]
	if rest[len(rest)-1] != "4 dead_lettered" || len(rest) < 2 {
		t.Errorf("then %q", rest)
	}
	for _, l := range rest[:len(rest)-1] {
		if !strings.HasSuffix(l, " returned") {
			t.Errorf("then %q", rest)
		}
	}
}

func TestAProgramThatSendsMoreThanItsCreditIsKilled(t *testing.T) {
	in := enginetest.New(t, engine.Inputs, programtest.Component("flood", `"window": 1`))
	open(t, in)
	_, err := in.Read(t.Context(), engine.NewBatch(1))
	if err == nil || !strings.Contains(err.Error(), "it sent 2 messages, but had credit for ") {
		t.Errorf("got %v", err)
	}
	closeInput(t, in)
}

func TestMistakes(t *testing.T) {
	for more, want := range map[string]string{
		`"takes_back": true, "checkpoint": "c"`: "takes_back: with a checkpoint",
		`"concurrency": 2`:                      "beside `program`",
		`"restart": {"backoff": "1m"}`:          "max_backoff: is less than backoff",
		`"max_message": 3`:                      "must be at least 1KiB",
	} {
		got := strings.Join(enginetest.Problems(t, engine.Inputs, programtest.Component("numbers", more)), "\n")
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %s", more, got)
		}
	}
}
