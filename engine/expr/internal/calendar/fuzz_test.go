package calendar

import (
	"strings"
	"testing"
	"time"
)

// FuzzParseTime compares ParseISO with package time for RFC 3339, and reads texts that layouts have written.
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
		got, why := ParseISO(text)
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
		l, _ := CompileLayout(form)
		if l == nil || len(form) > MaxLayout || l.unfit != "" {
			return
		}
		at, why := l.Parse(text, time.UTC)
		if why != "" || at.Year() < 1000 || at.Year() > 9999 {
			return
		}
		written := string(l.Append(nil, at))
		again, why := l.Parse(written, time.UTC)
		if l.text == "" && why == "" && string(l.Append(nil, again)) != written {
			t.Errorf("%q by %q is %v, which is written %q, and that is %v", text, form, at, written, again)
		}
	})
}

// mustLayout returns a layout that is known to be valid.
func mustLayout(text string) *Layout {
	l, _ := CompileLayout(text)
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
		d, ok := ParseDuration(text)
		if !ok {
			return
		}
		written := FormatDuration(d)
		if again, ok := ParseDuration(written); d > -1<<63 && (again != d || !ok) {
			t.Errorf("%q is %v, which is written %s, and that is %v, %v", text, d, written, again, ok)
		}
	})
}

func TestTextsThatAreNotDurations(t *testing.T) {
	for _, text := range []string{"", "P", "PT", "P1", "P1DT", "1D", "PD", "P1H", "PT1D", "PT1M1H", "PT1.5M1S", "P1W1W", "--PT1S",
		"PT1S1", "PT1.S", "PT.5S", "PTT1S", "P1Y", "P99999999999W", "P106751DT24H", "PT9223372036.9S", "P1 D", "P-1D"} {
		if d, ok := ParseDuration(text); ok {
			t.Errorf("%q: got %v, want an error", text, d)
		}
	}
}

// BenchmarkAlone compares reading and writing times with package time.
func BenchmarkAlone(b *testing.B) {
	at := time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)
	l := mustLayout("%d/%b/%Y:%H:%M:%S %z")
	var out []byte
	for name, run := range map[string]func(){
		"RFC 3339":                 func() { _, _ = ParseISO("2026-11-20T20:00:00.123Z") },
		"RFC 3339 by package time": func() { _, _ = time.Parse(time.RFC3339Nano, "2026-11-20T20:00:00.123Z") },
		"read":                     func() { _, _ = l.Parse("20/Nov/2026:20:00:00 +0000", time.UTC) },
		"read by package time":     func() { _, _ = time.Parse("02/Jan/2006:15:04:05 -0700", "20/Nov/2026:20:00:00 +0000") },
		"written":                  func() { out = l.Append(out[:0], at) },
		"written by package time":  func() { out = at.AppendFormat(out[:0], "02/Jan/2006:15:04:05 -0700") },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
}
