package window

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
)

func TestInstantReadsTimes(t *testing.T) {
	tests := []struct {
		in   any
		want string // "" is not a time
	}{
		{"2026-11-20T12:00:00Z", "2026-11-20T12:00:00Z"},
		{"2026-11-20T12:00:00.123456789+08:00", "2026-11-20T04:00:00.123456789Z"},
		{"2026-11-20 12:00:00", ""},
		{"2026-11-20", ""},
		{"1763640000", ""},
		{"", ""},
		{time.Date(2026, 11, 20, 12, 0, 0, 1, time.FixedZone("", 3600)), "2026-11-20T11:00:00.000000001Z"},
		{0, "1970-01-01T00:00:00Z"},
		{-1, "1969-12-31T23:59:59Z"},
		{1763640000, "2025-11-20T12:00:00Z"},
		{1763640000.25, "2025-11-20T12:00:00.25Z"},
		{-0.5, "1969-12-31T23:59:59.5Z"},
		{1763640000123, "2025-11-20T12:00:00.123Z"},
		{1763640000123.5, "2025-11-20T12:00:00.1235Z"},
		{1763640000123456, "2025-11-20T12:00:00.123456Z"},
		{1763640000123456789, "2025-11-20T12:00:00.123456789Z"},
		{nil, ""},
		{true, ""},
		{time.Second, ""},
		{[]any{1}, ""},
		{map[string]any{}, ""},
	}
	for _, tt := range tests {
		at, ok := instant(tt.in)
		got := ""
		if ok {
			got = text(at)
		}
		if got != tt.want {
			t.Errorf("%#v is %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestAMessageWithoutAFittingTimeFailsAndClosesNothing(t *testing.T) {
	c := Config{Every: time.Minute, Time: expr.MustCompile("t"), MaxAhead: time.Hour}
	s := newBatcher(c, keyOf, slog.New(slog.DiscardHandler))
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	emit := func(b *engine.Batch, why engine.Trigger) { t.Errorf("%d messages left for %s", b.Len(), why) }
	s.Add(enginetest.Batch(fmt.Sprintf(`{"t":%d}`, now.Unix())), now, emit)
	for _, tt := range []struct{ in, class, want string }{
		{`{}`, "expression", "t gives nothing, which is not a time"},
		{`{"t":"noon"}`, "expression", `t gives "noon", which is not a time (write text in RFC 3339`},
		{`{"t":[{}]}`, "expression", "t gives a list, which"},
		{`{"t":"` + strings.Repeat("x", 1000) + `"}`, "expression", strings.Repeat("x", 90) + ", which"},
		{`{"t":1e300}`, "expression", "outside the years 1700 to 2199"},
		{`{"t":-1e300}`, "expression", "outside the years 1700 to 2199"},
		{`{"t":123456789012345678901}`, "expression", "outside the years 1700 to 2199"},
		{`{"t":9223372036854775807}`, "expression", "outside the years"},
		{`{"t":-9223372036854775808}`, "expression", "outside the years"},
		{`{"t":"2200-01-01T00:00:00Z"}`, "expression", "outside the years"},
		{`{"t":"9999-01-01T00:00:00Z"}`, "expression", "outside the years"},
		{`{"t":"0001-01-01T00:00:00Z"}`, "expression", "outside the years"},
		{`{"t":"2026-11-20T13:00:00.001Z"}`, "rejected", "more than max_ahead (1h0m0s) ahead of the clock"},
		{`{"t":"2026-11-20T11:00:00Z"}`, "late",
			"its window ended at 2026-11-20T11:01:00Z, and an event of 2026-11-20T12:00:00Z has been seen (raise lateness"},
		{`not json`, "decode", ""},
	} {
		in := enginetest.Batch(tt.in)
		s.Add(in, now, emit)
		got := "nothing"
		for m := range in.Ended() {
			if got = m.Err().Error(); string(m.Err().Class) != tt.class {
				t.Errorf("%.60s: class %s, want %s", tt.in, m.Err().Class, tt.class)
			}
		}
		if !strings.Contains(got, strings.TrimSuffix(tt.want, ", which")) || len(got) > 500 {
			t.Errorf("%.60s fails with %q, want %q", tt.in, got, tt.want)
		}
	}
}

func FuzzInstantsAreInBoundsOrRefused(f *testing.F) {
	f.Add(int64(math.MaxInt64), 1e18, "2026-11-20T12:00:00Z")
	f.Add(int64(-1), -9.3e18, "1699-12-31T23:59:59.999999999Z")
	f.Fuzz(func(t *testing.T, n int64, x float64, text string) {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			t.Skip("expressions have no such number")
		}
		for _, v := range []any{int(n), x, text} {
			at, ok := instant(v)
			if !ok || at < earliest || at >= latest {
				continue
			}
			if x, ok := v.(float64); ok && math.Signbit(x) && at > 0 {
				t.Errorf("%v comes out after 1970", x)
			}
			if n, ok := v.(int); ok && (n < 0) != (at < 0) {
				t.Errorf("%v comes out as %d", n, at)
			}
		}
	})
}
