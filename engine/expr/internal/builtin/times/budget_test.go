package times_test

import (
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
)

// No value of a message exceeds its budget: layouts and zones that are always new, and long texts.
func TestTimesStayWithinTheirBudget(t *testing.T) {
	exprtest.Unraced(t)
	limits := lang.Limits{Memory: 8 << 20, Steps: 1_250_000}
	m := exprtest.NewMessage(`{"n": 100000, "long": "` + strings.Repeat("2026", 1<<16) + `", "directives": "` +
		strings.Repeat("%c", 500) + `"}`)
	tests := []struct{ src, want string }{
		{`count(1..n, format_time(now(), "2006" + string(#)) == "")`, "engine.limits.expression.steps"},
		{`count(1..n, format_time(now(), "%Y" + string(#)) == "")`, "engine.limits.expression.steps"},
		{`count(1..n, try(parse_time("", "2006" + string(#)), nil) != nil)`, "engine.limits.expression.steps"},
		{`count(1..n, try(in_zone(now(), "Zone" + string(#)), nil) != nil)`, "engine.limits.expression.steps"},
		{`count(1..n, try(parse_time(long, "2006"), nil) != nil)`, "engine.limits.expression.steps"},
		{`map(1..n, format_time(now(), directives))`, "engine.limits.expression.memory"},
		{`map(1..n, time_parts(now()))`, "engine.limits.expression"},
		{`format_time(now(), long)`, "at most 1024 bytes"},
		{`format_time(now(), directives + directives)`, "at most 1024 bytes"},
		{`parse_time(long, "%Y" + directives[1:1])`, "is not a time in this layout"},
		{`duration(long)`, "is not a duration"},
		{`in_zone(now(), long)`, "is not a time zone"},
	}
	for _, tt := range tests {
		got := exprtest.Spend(t, tt.src, limits, m)
		if got.Err == nil || !strings.Contains(exprtest.Short(got.Err), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.src, got.Err, tt.want)
		}
		if got.Allocated > 128<<20 || got.Took > exprtest.Patience {
			t.Errorf("%s: allocated %d MiB and took %v", tt.src, got.Allocated>>20, got.Took)
		}
	}
	if got := exprtest.Spend(t, `parse_time(long, "2006")`, limits, m); got.Err == nil || got.Allocated > 1<<17 {
		t.Errorf("an error about a text of 256 KiB allocates %d KiB", got.Allocated>>10)
	}
}

func BenchmarkTime(b *testing.B) {
	m := exprtest.NewMessage(`{"time":"2026-11-20T20:00:00.123Z","local":"2026-11-20T20:00:00+05:30","log":"20/Nov/2026:20:00:00 +0000",` +
		`"n":1767366245678}`)
	for _, src := range []string{
		`parse_time(time)`,
		`parse_time(local)`,
		`parse_time(log, "%d/%b/%Y:%H:%M:%S %z")`,
		`parse_time(log, "02/Jan/2006:15:04:05 -0700")`,
		`format_time(from_unix(n, "ms"), "%Y-%m-%d %H:%M:%S")`,
		`format_time(from_unix(n, "ms"), "2006-01-02 15:04:05")`,
		`format_time(from_unix(n, "ms"), "%Y-%m-%d %H:%M:%S", "Europe/Zurich")`,
		`truncate_time(from_unix(n, "ms"), "day")`,
		`unix(from_unix(n, "ms"), "ms")`,
	} {
		b.Run(src, func(b *testing.B) {
			e := expr.MustCompile(src)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Eval(m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
