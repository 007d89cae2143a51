package retry

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestAnOutageIsReportedAgain(t *testing.T) {
	var o Outage
	start := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	var at []time.Duration
	for passed := time.Duration(0); passed <= 3*time.Hour+time.Minute; passed += 25 * time.Second {
		err := fmt.Errorf("probe %d: %w", passed, errors.New("connection refused"))
		switch o.Fails(start.Add(passed), err) {
		case Begins, Lasts:
			at = append(at, passed.Truncate(time.Minute))
		case Changes:
			t.Errorf("after %v: the error has not changed", passed)
		}
	}
	want := []time.Duration{0, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour}
	if !slices.Equal(at, want) {
		t.Errorf("reported at %v, want %v", at, want)
	}
	if got := o.Fails(start.Add(3*time.Hour+2*time.Minute), errors.New("no such host")); got != Changes {
		t.Errorf("another error: got %v, want %v", got, Changes)
	}
	if got := o.Fails(start.Add(9*time.Hour), errors.New("connection refused")); got != Lasts {
		t.Errorf("an error that was reported before: got %v, want %v", got, Lasts)
	}
	if got := o.Lasted(start.Add(9*time.Hour + time.Millisecond)); got != 9*time.Hour {
		t.Errorf("it lasted %v, want 9h", got)
	}
}

func TestReasonsOfAnOutageAreLimited(t *testing.T) {
	var o Outage
	now, reports := time.Now(), 0
	for i := range 1000 {
		if o.Fails(now, errors.New(string(rune('a'+i%26))+string(rune('a'+i/26)))) != Silent {
			reports++
		}
	}
	if reports != maxReported {
		t.Errorf("%d reports, want %d", reports, maxReported)
	}
}
