package exprtest

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
)

// raced says that the race detector is on.
var raced bool

// Unraced skips a test if the race detector is on: it makes long computations ten times as slow, and a test on one goroutine has
// no races.
func Unraced(t *testing.T) {
	t.Helper()
	if raced {
		t.Skip("without the race detector: go test ./engine/expr/...")
	}
}

// Spent is what an evaluation took, as the runtime sees it.
type Spent struct {
	Allocated uint64
	Took      time.Duration
	Err       error
}

// Spend evaluates src and encodes its value, as a step does.
func Spend(tb testing.TB, src string, limits lang.Limits, m *Message) Spent {
	tb.Helper()
	p, err := Compile(src, false)
	if err != nil {
		return Spent{Err: err}
	}
	p.Limits = &limits
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	err = p.Encode(m, func(v any) error {
		_, err := doc.Append(nil, v)
		return err
	})
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	return Spent{after.TotalAlloc - before.TotalAlloc, took, err}
}

// Budgets are expressions, and a part of the error by which each ends, or "" if it is within its budget.
type Budgets []struct{ Src, Want string }

// CheckBudgets checks whether expressions end with their budget.
func CheckBudgets(t *testing.T, m *Message, tests Budgets) {
	t.Helper()
	limits := lang.Limits{Memory: 8 << 20, Steps: 1_250_000}
	for _, tt := range tests {
		got := Spend(t, tt.Src, limits, m)
		if (got.Err == nil) != (tt.Want == "") || !strings.Contains(Short(got.Err), tt.Want) {
			t.Errorf("%s: got %v, want %q", tt.Src, got.Err, tt.Want)
		}
		if got.Allocated > 32<<20 || got.Took > Patience {
			t.Errorf("%s: took %v and %d MiB", tt.Src, got.Took, got.Allocated>>20)
		}
	}
}

// mostAllocated is four times the memory limit of the tests: garbage counts, too.
var mostAllocated uint64 = 32 << 20

// Check checks that an evaluation failed with an error that has want in it, or, if that is "", that it succeeded, and that it was
// within its budget.
func (s Spent) Check(t *testing.T, want string) {
	t.Helper()
	if (s.Err == nil) != (want == "") || !strings.Contains(Short(s.Err), want) {
		t.Errorf("got %v, want %q", s.Err, want)
	}
	if s.Allocated > mostAllocated {
		t.Errorf("allocated %d MiB", s.Allocated>>20)
	}
	if s.Took > Patience {
		t.Errorf("took %v", s.Took)
	}
}

// Patience is how long an evaluation may take on a busy machine, or with the race detector. Usually it takes tenths of a second,
// and without limits hours.
const Patience = 30 * time.Second
