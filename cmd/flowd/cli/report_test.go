package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/google/go-cmp/cmp"
)

func counts(received int64, ends map[engine.Fate]int64) engine.Counts {
	c := engine.Counts{Received: received}
	for f, n := range ends {
		c.Ended[f] = n
	}
	return c
}

func TestSummary(t *testing.T) {
	tests := []struct {
		name  string
		roots engine.Counts
		took  time.Duration
		want  string
	}{
		{
			"all fates that occurred, the good ones first",
			counts(20000, map[engine.Fate]int64{engine.Delivered: 19990, engine.DeadLettered: 10}),
			1204 * time.Millisecond,
			"orders: 20,000 received: 19,990 delivered, 10 dead-lettered in 1.2s (16.6 k/s)\n",
		},
		{"nothing was read", engine.Counts{}, 12 * time.Millisecond, "orders: 0 received in 12ms\n"},
		{
			"what was not settled shows",
			engine.Counts{Received: 3, InFlight: 3}, 61500 * time.Millisecond,
			"orders: 3 received: 3 in flight in 1m2s (0/s)\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := summary(runtime.Report{Pipeline: "orders", Stats: engine.Stats{Roots: tt.roots}}, tt.took)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReportSaysWhatFailedWhyAndWhere(t *testing.T) {
	var out bytes.Buffer
	newConsole(&out).report(runtime.Report{
		Pipeline: "orders",
		Stats:    engine.Stats{Roots: counts(3, map[engine.Fate]int64{engine.Dropped: 3})},
		Failures: []runtime.FailureGroup{
			{Count: 1, Fate: engine.Dropped, First: runtime.Failure{Class: engine.Decode, Place: "step parse",
				Message: "offset 3: unexpected end", From: "input log, line 17", Sample: "{\"a\x1b[2J"}},
			{Count: 2, Fate: engine.Dropped, First: runtime.Failure{Class: engine.Expression,
				Message: "cannot compare\n  a > 1\n  ^"}},
		},
		Err: errors.New("input log: access.log: no such file or directory"),
	}, time.Second)
	want := `orders: 2 dropped: expression: cannot compare
      a > 1
      ^
orders: 1 dropped: decode in step parse: offset 3: unexpected end
    first from input log, line 17
    payload {"a\x1b[2J
orders: failed messages were dropped (name an output in engine.on_failure.dead_letter to keep them)
orders: input log: access.log: no such file or directory
orders: 3 received: 3 dropped in 1s (3/s)
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestReportDoesNotAskForADeadLetterThatIsThere(t *testing.T) {
	var out bytes.Buffer
	newConsole(&out).report(runtime.Report{
		Pipeline: "orders",
		Failures: []runtime.FailureGroup{
			{Count: 1, Fate: engine.DeadLettered, First: runtime.Failure{Class: engine.Decode,
				Message: "unexpected end"}},
			{Count: 1, Fate: engine.Dropped, First: runtime.Failure{Class: engine.Transient, Place: "output dlq",
				Message: "no space left"}},
		},
	}, time.Second)
	want := "orders: failed messages were dropped (the dead-letter output could not take them, or `then: drop` applies where they failed)\n"
	if got := out.String(); !strings.Contains(got, want) {
		t.Errorf("got %q, want it to contain %q", got, want)
	}
}

func TestReportListsTheMostFrequentFailuresOnly(t *testing.T) {
	r := runtime.Report{Pipeline: "p"}
	for range shownGroups + 2 {
		r.Failures = append(r.Failures, runtime.FailureGroup{Count: 1, Fate: engine.Returned})
	}
	r.Failures = append(r.Failures, runtime.FailureGroup{Count: 5, Fate: engine.Returned})
	var out bytes.Buffer
	newConsole(&out).report(r, 0)
	if got := strings.Count(out.String(), " returned: "); got != shownGroups {
		t.Errorf("%d groups shown, want %d:\n%s", got, shownGroups, out.String())
	}
	if !strings.HasPrefix(out.String(), "p: 5 returned") ||
		!strings.Contains(out.String(), "and 3 failed messages for other reasons") {
		t.Error(out.String())
	}
}

func TestNumbersForPeople(t *testing.T) {
	tests := []struct{ got, want string }{
		{amount(0), "0"},
		{amount(999), "999"},
		{amount(1000), "1,000"},
		{amount(-1234567), "-1,234,567"},
		{amount(-100), "-100"},
		{rate(0), "0/s"},
		{rate(999), "999/s"},
		{rate(16644), "16.6 k/s"},
		{rate(1_250_000), "1.25 M/s"},
		{rate(999_400), "999 k/s"},
		{rate(999_999), "1 M/s"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}

func TestTheWorstExitCodeCounts(t *testing.T) {
	for _, tt := range []struct{ a, b, want int }{
		{clean, handedBack, handedBack},
		{handedBack, clean, handedBack},
		{handedBack, failed, failed},
		{failed, handedBack, failed},
		{clean, clean, clean},
	} {
		if got := worse(tt.a, tt.b); got != tt.want {
			t.Errorf("worse(%d, %d) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
