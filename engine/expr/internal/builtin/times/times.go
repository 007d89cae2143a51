// Package times has the functions for times, durations and time zones. Package calendar does the calculations.
package times

import (
	"time"

	"github.com/flowd-io/flowd/engine/expr/internal/calendar"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
)

// Declare declares the functions of times.
func Declare() {
	times.Declare("time", true)
	ages.Declare("time", false)
	clocks.Declare("sources", false)
	lang.Rename("format", "format_time")
	lang.Lookup("date").Old = true
}

var times = lang.Builtins{
	{"parse_time(text, [layout], [timezone]) time",
		"The time in a text, in RFC 3339 or in a layout: in Go's style (02.01.2006) or, if there is a % in it, in that of" +
			" strftime (%d.%m.%Y). The zone, such as Europe/Zurich or +02:00, is for texts that give none; without it" +
			" they are in UTC. In RFC 3339, the seconds, the offset and the whole time of day may be missing, and there may be" +
			" a blank in place of the T. A text that is not a time fails the message, and so does a layout without a year.",
		`parse_time("2026-01-02T15:04:05.5+01:00") → from_unix(1767362645.5)
parse_time("2.1.2026 15:04", "%d.%m.%Y %H:%M", "Europe/Zurich") → parse_time("2026-01-02T14:04:00Z")
parse_time("Fri, 02 Jan 2026 15:04:05 GMT", "Mon, 02 Jan 2006 15:04:05 MST") → parse_time("2026-01-02 15:04:05")
parse_time("2026-02-30") → error: parse_time(): text "2026-02-30" is not a time in RFC 3339: that month has no such day
parse_time("2.1.2026") → error: parse_time(): text "2.1.2026" is not a time in RFC 3339: it is written otherwise (give its layout: parse_time(text, "%d.%m.%Y"))`,
		parseTime},
	{"format_time(time, layout, [timezone]) text",
		"The time in a layout, in Go's style (02.01.2006) or in that of strftime (%d.%m.%Y), in its own zone or in the one given.",
		`format_time(parse_time("2026-01-02"), "%d %b %Y") → "02 Jan 2026"
format_time(parse_time("2026-07-01T22:30:00Z"), "2006-01-02 15:04 MST", "Europe/Zurich") → "2026-07-02 00:30 CEST"`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			l, t := layoutAt(s, f, args, 1), args[0].(time.Time)
			if len(args) == 3 {
				t = t.In(zoneAt(s, f, args, 2))
			}
			var short [64]byte
			return string(l.Append(short[:0], t))
		}},
	{"in_zone(time, timezone) time",
		"The same time in a zone, such as Europe/Zurich or +02:00.",
		`string(in_zone(parse_time("2026-07-01T12:00:00Z"), "America/New_York")) → "2026-07-01T08:00:00-04:00"`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			return s.CheckYear(args[0].(time.Time).In(zoneAt(s, f, args, 1)))
		}},
	{"from_unix(number, [unit]) time",
		`The time that is this long after 1970, in "s", "ms", "us" or "ns"; seconds if no unit is given. Fractions are rounded to microseconds.`,
		`from_unix(1767312000) → parse_time("2026-01-02")
from_unix(1767312000123, "ms") → parse_time("2026-01-02T00:00:00.123Z")`,
		func(_ *lang.Frame, s *lang.Site, args []any) any {
			t, ok := calendar.FromUnix(args[0], unitAt(s, args, 1))
			if !ok {
				s.Fail("%s(): %s is not within the years 1 to 9999", s.Name, s.Show(args[0]))
			}
			return t
		}},
	{"unix(time, [unit]) int",
		`The time since 1970 as a whole number of "s", "ms", "us" or "ns", rounded down; seconds if no unit is given. Only the years 1678 to ` +
			`2261 have nanoseconds.`,
		`unix(parse_time("2026-01-02")) → 1767312000
unix(parse_time("2026-01-02T00:00:00.1239Z"), "ms") → 1767312000123`,
		func(_ *lang.Frame, s *lang.Site, args []any) any {
			t := args[0].(time.Time)
			n, ok := calendar.ToUnix(t, unitAt(s, args, 1))
			if !ok {
				s.FailWith(`write unix(t, "us")`,
					"%s(): nanoseconds since 1970 of the year %d do not fit into 64 bits", s.Name, t.Year())
			}
			return n
		}},
	{"truncate_time(time, period) time",
		"The beginning of the second, minute, hour, day, week (on Monday), month, quarter or year that the time is in, in its" +
			" zone; or the time rounded down to a multiple of a duration since the year 1, in UTC.",
		`truncate_time(parse_time("2026-01-02T15:04:05Z"), "week") → parse_time("2025-12-29")
truncate_time(parse_time("2026-01-02T15:04:05Z"), "15m") → parse_time("2026-01-02T15:00:00Z")`,
		func(_ *lang.Frame, s *lang.Site, args []any) any {
			return s.CheckYear(periodAt(s, args, 1).Floor(args[0].(time.Time)))
		}},
	{"round_time(time, period) time",
		"The beginning or the end of the second, minute, hour, day, week, month, quarter or year that the time is in, in its" +
			" zone, whichever is nearer; or the nearest multiple of a duration since the year 1, in UTC. Halves round up.",
		`round_time(parse_time("2026-01-02T15:04:05Z"), "day") → parse_time("2026-01-03")
round_time(parse_time("2026-01-02T15:04:05Z"), "15m") → parse_time("2026-01-02T15:00:00Z")`,
		func(_ *lang.Frame, s *lang.Site, args []any) any {
			return s.CheckYear(periodAt(s, args, 1).Round(args[0].(time.Time)))
		}},
	{"add_date(time, int, [int], [int]) time",
		"The time shifted by years, months and days of the calendar in its zone, at the same time of day. A month that is too" +
			" short gives its last day.",
		`add_date(parse_time("2026-01-31"), 0, 1) → parse_time("2026-02-28")
add_date(parse_time("2024-02-29T12:00:00Z"), 1, 0, -1) → parse_time("2025-02-27T12:00:00Z")`,
		func(_ *lang.Frame, s *lang.Site, args []any) any {
			var by [3]int
			for i, n := range args[1:] {
				by[i] = n.(int)
			}
			t, ok := calendar.AddDate(args[0].(time.Time), by[0], by[1], by[2])
			if !ok {
				s.Fail("%s(): the result is not within the years 1 to 9999", s.Name)
			}
			return s.CheckYear(t)
		}},
	{"time_parts(time) object",
		"The year, quarter, month, day, hour, minute, second, nanosecond, weekday (1 is Monday), yearday, week and iso_year of" +
			" ISO 8601, zone, and offset in seconds. A time itself has each of them, too, as in now().year.",
		`time_parts(parse_time("2026-01-02T15:04:05Z")).weekday → 5
time_parts(in_zone(parse_time("2026-07-01"), "Europe/Zurich")).offset → 7200`,
		func(_ *lang.Frame, _ *lang.Site, args []any) any {
			parts := make(map[string]any, len(calendar.Parts))
			for _, p := range calendar.Parts {
				parts[p.Name] = p.Of(args[0].(time.Time))
			}
			return parts
		}},
	{"date(text|zone, [text], [text], [text]) time",
		"The time in a text; the second text is its layout (Go's reference time), the third its time zone, UTC by default. An ambiguous " +
			"abbreviation such as EST needs that zone.",
		`date("2026-01-02") → date("2026-01-02T00:00:00Z")
date("02.01.2026 15:04", "02.01.2006 15:04", "Europe/Zurich") → date("2026-01-02T14:04:00Z")`,
		date},
	{"duration(text) duration",
		"The duration in a text, such as 250ms or 1h30m, or in ISO 8601, such as PT1H30M. A day has 24 hours there;" +
			" years and months, which have no fixed length, fail the message: add_date() adds them.",
		`duration("1h30m") / duration("1m") → 90
duration("P1DT2H") → duration("26h")`,
		func(_ *lang.Frame, s *lang.Site, args []any) any {
			d, ok := calendar.ParseDuration(args[0].(string))
			if !ok {
				s.Fail("duration(): %s is not a duration such as 250ms, 1h30m or PT1H30M", s.Show(args[0]))
			}
			return d
		}},
	{"format_duration(duration) text",
		"The duration in ISO 8601. A day has 24 hours.",
		`format_duration(duration("26h1.5s")) → "P1DT2H1.5S"`,
		func(_ *lang.Frame, _ *lang.Site, args []any) any {
			return calendar.FormatDuration(args[0].(time.Duration))
		}},
	{"timezone(text) zone",
		`A time zone by name, such as Europe/Zurich, or by its offset from UTC, such as +02:00.`,
		`string(now(timezone("UTC")) == now()) != "" → true`,
		func(f *lang.Frame, s *lang.Site, args []any) any { return zone(f, s, args[0]) }},
	{"seconds(duration) float",
		"The duration in seconds.",
		`seconds(duration("1m")) → 60`,
		func(f *lang.Frame, s *lang.Site, args []any) any { return args[0].(time.Duration).Seconds() }},
}

var ages = lang.Builtins{
	{"age(time) duration",
		"How long ago the time was, by the clock of now(); negative for a time in the future.",
		`age(now()) < duration("1m") → true`,
		func(_ *lang.Frame, s *lang.Site, args []any) any {
			return s.TimeBetween(lang.Now(), args[0].(time.Time))
		}},
}

var clocks = lang.Builtins{
	{"now([timezone]) time",
		"The current time, in UTC unless a zone is given.",
		`now() > parse_time("2026-01-02") → true`,
		func(f *lang.Frame, s *lang.Site, args []any) any { return lang.Now().In(zoneAt(s, f, args, 0)) }},
}

func parseTime(f *lang.Frame, s *lang.Site, args []any) any {
	text, form := args[0].(string), "RFC 3339"
	var t time.Time
	var why string
	if len(args) == 1 {
		t, why = calendar.ParseISO(text)
	} else {
		l := layoutAt(s, f, args, 1)
		readable(s, l)
		t, why = l.Parse(text, zoneAt(s, f, args, 2))
		form = "this layout"
	}
	if why == "" {
		return s.CheckYear(t)
	}
	if s.Secret[0] {
		why = calendar.WrittenOtherwise
	}
	remedy := ""
	switch {
	case why == calendar.LeapSecond:
		remedy = `replace(text, ":60", ":59") takes the second before it`
	case why == calendar.WrittenOtherwise && len(args) == 1:
		remedy = `give its layout: parse_time(text, "%d.%m.%Y")`
	}
	s.FailWith(remedy, "%s(): %s is not a time in %s: %s", s.Name, s.Show(text), form, why)
	return nil
}
