package expr

import (
	"strings"
	"testing"
	"time"
)

// FuzzParseTime compares parseISO with package time, which knows RFC 3339, and reads again what layouts have written.
func FuzzParseTime(f *testing.F) {
	for _, text := range []string{"2026-01-02T15:04:05Z", "2026-01-02T15:04:05.123456789+05:30", "2026-01-02", "2026-01-02 15:04",
		"2026-01-02T15:04:05,5-0330", "9999-12-31T23:59:59z", "2016-12-31T23:59:60Z", "0000-02-29t00:00:00Z", "2026-01-02T15:04:05+24:00",
		"-2026", "2026-01-02T15:04:", "2026-01-02T15:04:05.", "Fri, 02 Jan 2026 15:04:05 GMT", "\xff", "2026-W01"} {
		for _, layout := range []string{"%Y-%m-%dT%H:%M:%S.%N%z", "%a, %d %b %Y %I:%M:%S %p %Z", "%G-W%V-%u", "%s.%f", "%Y %j", "%_d%",
			"Jan 2, 2006", "%c"} {
			f.Add(text, layout)
		}
	}
	f.Fuzz(func(t *testing.T, text, form string) {
		got, why := parseISO(text)
		want, err := time.Parse(time.RFC3339Nano, text)
		strict := err == nil && len(text) <= len("2026-01-02T15:04:05.999999999+00:00") &&
			!strings.Contains(text, "+24") && !strings.Contains(text, "-24") && !strings.HasSuffix(text, ":60")
		if strict && (why != "" || !got.Equal(want)) {
			t.Errorf("%q: got %v %s, want %v", text, got, why, want)
		}
		if why == "" && err != nil && len(text) >= len("2026-01-02T15:04:05Z") && text[10] == 'T' && strings.HasSuffix(text, "Z") &&
			len(text) > 16 && text[16] == ':' && !strings.Contains(text, ",") {
			t.Errorf("%q: got %v, want an error such as %v", text, got, err)
		}
		l, _ := compileLayout(form)
		if l == nil || len(form) > maxLayout || l.unfit != "" {
			return
		}
		at, why := l.parse(text, time.UTC)
		if why != "" || at.Year() < 1000 || at.Year() > 9999 {
			return
		}
		written := string(l.append(nil, at))
		again, why := l.parse(written, time.UTC)
		if l.text == "" && why == "" && string(l.append(nil, again)) != written {
			t.Errorf("%q by %q is %v, which is written %q, and that is %v", text, form, at, written, again)
		}
	})
}

// mustLayout is a layout that the test has written.
func mustLayout(text string) *layout {
	l, _ := compileLayout(text)
	if l == nil {
		panic(text + " is not a layout")
	}
	return l
}

func FuzzDuration(f *testing.F) {
	for _, text := range []string{"P1DT2H", "-PT0.5S", "PT36H", "P1W", "1h30m", "PT1,25M", "P", "P106751DT23H47M16.854775807S"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, ok := parseDuration(text)
		if !ok {
			return
		}
		written := formatDuration(d)
		if again, ok := parseDuration(written); d > -1<<63 && (again != d || !ok) {
			t.Errorf("%q is %v, which is written %s, and that is %v, %v", text, d, written, again, ok)
		}
	})
}

// Nothing that a message brings takes more than its budget: layouts and zones that are new each time, and long texts.
func TestTimesStayWithinTheirBudget(t *testing.T) {
	unraced(t)
	limits := Limits{Memory: 8 << 20, Steps: 1_250_000}
	m := msg(`{"n": 100000, "long": "` + strings.Repeat("2026", 1<<16) + `", "directives": "` + strings.Repeat("%c", 500) + `"}`)
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
		got := spend(t, tt.src, limits, m)
		if got.err == nil || !strings.Contains(short(got.err), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.src, got.err, tt.want)
		}
		if got.allocated > 128<<20 || got.took > patience {
			t.Errorf("%s: allocated %d MiB and took %v", tt.src, got.allocated>>20, got.took)
		}
	}
	if got := spend(t, `parse_time(long, "2006")`, limits, m); got.err == nil || got.allocated > 1<<17 {
		t.Errorf("an error about a text of 256 KiB allocates %d KiB", got.allocated>>10)
	}
	for range 3 * maxTexts {
		_, _ = evalOnce(`map(1..3, format_time(now(), "2006-" + string(#index) + uuid()))`, m, false)
	}
	layouts.mu.RLock()
	defer layouts.mu.RUnlock()
	if n := len(layouts.by); n > maxTexts {
		t.Errorf("%d layouts are kept", n)
	}
}

func BenchmarkTime(b *testing.B) {
	m := msg(`{"time":"2026-11-20T20:00:00.123Z","local":"2026-11-20T20:00:00+05:30","log":"20/Nov/2026:20:00:00 +0000","n":1767366245678}`)
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
			e := MustCompile(src)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Eval(m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	at := time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)
	l := mustLayout("%d/%b/%Y:%H:%M:%S %z")
	var out []byte
	for name, run := range map[string]func(){
		"alone: RFC 3339":                 func() { _, _ = parseISO("2026-11-20T20:00:00.123Z") },
		"alone: RFC 3339 by package time": func() { _, _ = time.Parse(time.RFC3339Nano, "2026-11-20T20:00:00.123Z") },
		"alone: read":                     func() { _, _ = l.parse("20/Nov/2026:20:00:00 +0000", time.UTC) },
		"alone: read by package time":     func() { _, _ = time.Parse("02/Jan/2006:15:04:05 -0700", "20/Nov/2026:20:00:00 +0000") },
		"alone: written":                  func() { out = l.append(out[:0], at) },
		"alone: written by package time":  func() { out = at.AppendFormat(out[:0], "02/Jan/2006:15:04:05 -0700") },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
}
