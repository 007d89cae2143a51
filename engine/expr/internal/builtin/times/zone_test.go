package times_test

import (
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
)

// No result depends on the time zone of the machine.
func TestTimesAreUTC(t *testing.T) {
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	before := time.Local
	time.Local = zone
	t.Cleanup(func() { time.Local = before })
	tests := []struct{ src, want string }{
		{`format(now(), "-0700 MST")`, "+0000 UTC"},
		{`format(now(timezone("Asia/Tokyo")), "-0700")`, "+0900"},
		{`format(date("2026-01-02"), "-0700 MST")`, "+0000 UTC"},
		{`string(date("2026-01-02T03:04:05-05:00"))`, "2026-01-02T03:04:05-05:00"},
		{`format(date("2026-01-02T03:04:05-05:00"), "MST")`, "-0500"},
		{`string(date("2026-01-02 03:04", "2006-01-02 15:04"))`, "2026-01-02T03:04:00Z"},
		{`format(clocktime(), "-0700 MST")`, "+0000 UTC"},
	}
	t.Cleanup(lang.Register(lang.Func{Name: "clocktime", Call: func(lang.Source, ...any) (any, error) { return time.Now(), nil }}))
	for _, tt := range tests {
		if got, err := exprtest.EvalBoth(t, tt.src, exprtest.NewMessage("{}")); got != tt.want || err != nil {
			t.Errorf("%s: got %v, %v, want %s", tt.src, got, err, tt.want)
		}
	}
	_, err = exprtest.EvalBoth(t, `date("02 Jan 26 15:04 EST")`, exprtest.NewMessage("{}"))
	if err == nil || !strings.Contains(err.Error(), "EST") {
		t.Errorf("an abbreviation that only this machine knows: got error %v", err)
	}
}
