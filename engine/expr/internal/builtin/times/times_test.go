package times_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/expr/internal/calendar"
	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
)

func TestTimes(t *testing.T) {
	tests := []struct{ name, src, want string }{
		{"RFC 3339", `parse_time("2026-01-02T15:04:05Z")`, "2026-01-02T15:04:05Z"},
		{"an offset stays", `parse_time("2026-01-02T15:04:05.25+05:30")`, "2026-01-02T15:04:05.25+05:30"},
		{"small letters", `parse_time("2026-01-02t15:04:05z")`, "2026-01-02T15:04:05Z"},
		{"a blank for the T", `parse_time("2026-01-02 15:04:05-01")`, "2026-01-02T15:04:05-01:00"},
		{"no seconds, an offset without its colon", `parse_time("2026-01-02T15:04+0230")`, "2026-01-02T15:04:00+02:30"},
		{"no offset is UTC", `parse_time("2026-01-02 15:04:05,5")`, "2026-01-02T15:04:05.5Z"},
		{"a date", `parse_time("2024-02-29")`, "2024-02-29T00:00:00Z"},
		{"more digits than nanoseconds", `parse_time("2026-01-02T15:04:05.1234567899Z")`, "2026-01-02T15:04:05.123456789Z"},
		{"the first and the last second", `parse_time("0001-01-01T00:00:00Z") < parse_time("9999-12-31T23:59:59.999999999Z")`, "true"},

		{"Go's layout", `parse_time("02.01.2026", "02.01.2006")`, "2026-01-02T00:00:00Z"},
		{"a name of a zone that UTC knows", `parse_time("Fri, 02 Jan 2026 15:04:05 GMT", "Mon, 02 Jan 2006 15:04:05 MST")`,
			"2026-01-02T15:04:05Z"},
		{"an abbreviation that the zone has", `parse_time("2026-07-01 12:00 CEST", "2006-01-02 15:04 MST", "Europe/Zurich")`,
			"2026-07-01T12:00:00+02:00"},
		{"the same by strptime", `parse_time("2026-07-01 12:00 cest", "%Y-%m-%d %H:%M %Z", "Europe/Zurich")`, "2026-07-01T12:00:00+02:00"},
		{"an offset decides, not the zone", `parse_time("2026-07-01 12:00 -03:00", "%F %R %z", "Europe/Zurich")`, "2026-07-01T12:00:00-03:00"},
		{"a zone as a value", `parse_time("1.7.2026", "%d.%m.%Y", timezone("Asia/Tokyo"))`, "2026-07-01T00:00:00+09:00"},
		{"a zone by its offset", `parse_time("1.7.2026", "%d.%m.%Y", "-03:30")`, "2026-07-01T00:00:00-03:30"},
		{"names in any case, twelve hours", `parse_time("fri FEBRUARY 13 2026 12:30 am", "%a %b %d %Y %I:%M %p")`, "2026-02-13T00:30:00Z"},
		{"blanks of syslog", `parse_time("2026 Jan  2 03:04:05", "%Y %b %d %H:%M:%S")`, "2026-01-02T03:04:05Z"},
		{"a day of the year", `parse_time("2024-366", "%Y-%j")`, "2024-12-31T00:00:00Z"},
		{"a week", `parse_time("2020-W53-7", "%G-W%V-%u")`, "2021-01-03T00:00:00Z"},
		{"a week alone begins on Monday", `parse_time("2026-W01", "%G-W%V")`, "2025-12-29T00:00:00Z"},
		{"seconds since 1970 in a text", `parse_time("-1.5", "%s.%f")`, "1969-12-31T23:59:58.5Z"},
		{"years of two digits", `string(parse_time("68-1-1", "%y-%m-%d").year) + string(parse_time("690101", "%y%m%d").year)`, "20681969"},
		{"a percent sign", `parse_time("100% 2026", "100%% %Y")`, "2026-01-01T00:00:00Z"},
		{"a layout from the message", `parse_time("2.1.2026", "%d.%m." + "%Y" + empty)`, "2026-01-02T00:00:00Z"},
		{"a layout of Go from the message", `parse_time("2.1.2026", "2.1.2006" + empty, "Europe/Zurich" + empty)`, "2026-01-02T00:00:00+01:00"},

		{"all directives", `format_time(parse_time("2026-01-02T15:04:05.006789Z"), "%Y %C %y %m %d %e %j %H %k %I %l %M %S %f %L %N %3N %6f ` +
			`%p %P %a %A %b %B %h %u %w %U %W %V %G %g %s %z %:z %Z %%%n%t")`,
			"2026 20 26 01 02  2 002 15 15 03  3 04 05 006789 006 006789000 006 006789 PM pm Fri Friday Jan January Jan 5 5 00 00 01 2026 26 " +
				"1767366245 +0000 +00:00 UTC %\n\t"},
		{"all that stand for others", `format_time(parse_time("2026-01-02T15:04:05Z"), "%F|%T|%R|%D|%x|%X|%r|%c|%+|%v")`,
			"2026-01-02|15:04:05|15:04|01/02/26|01/02/26|15:04:05|03:04:05 PM|Fri Jan  2 15:04:05 2026|Fri Jan  2 15:04:05 UTC 2026| 2-Jan-2026"},
		{"flags", `format_time(parse_time("2026-01-02T03:04:05Z"), "%-d.%-m. %_d %_H %0e %-j %-I")`, "2.1.  2  3 02 2 3"},
		{"Go's layout in a zone", `format_time(parse_time("2026-07-01T22:00:00Z"), "02 Jan 15:04 -0700", "Asia/Kolkata")`, "02 Jul 03:30 +0530"},
		{"format is its former name", `format(date("2026-01-02"), "2006/01")`, "2026/01"},
		{"a year with zeros", `format_time(parse_time("0033-04-03"), "%Y")`, "0033"},
		{"accents in a layout", `format_time(parse_time("2026-01-02"), "à %d é")`, "à 02 é"},

		{"in a zone", `in_zone(parse_time("2026-07-01T12:00:00Z"), "Europe/Zurich")`, "2026-07-01T14:00:00+02:00"},
		{"by the sun, before zones", `in_zone(parse_time("1800-01-01T12:00:00Z"), "Europe/Zurich")`, "1800-01-01T12:00:00Z"},
		{"also behind arithmetic", `in_zone(parse_time("1853-07-17T12:00:00Z"), "Europe/Zurich") - duration("9999h")`, "1852-05-26T21:00:00Z"},
		{"the zone stays, with its seconds",
			`let t = parse_time("1900-01-01", "%Y-%m-%d", "Asia/Shanghai"); string([t.year, t.hour, t.zone, t.offset])`,
			`[1900,0,"Asia/Shanghai",29143]`},
		{"but the text is in UTC", `parse_time("1900-01-01", "%Y-%m-%d", "Asia/Shanghai")`, "1899-12-31T15:54:17Z"},
		{"also inside of a list", `to_json([in_zone(parse_time("1900-01-01"), "Asia/Shanghai")])`, `["1900-01-01T00:00:00Z"]`},
		{"a day by the sun",
			`format_time(truncate_time(in_zone(parse_time("1900-01-01T12:30:00Z"), "Asia/Shanghai"), "day"), "%F %T", "Asia/Shanghai")`,
			"1900-01-01 00:00:00"},
		{"now in a zone", `format_time(now("+05:45"), "%:z")`, "+05:45"},

		{"milliseconds are exact", `from_unix(1767366245678, "ms")`, "2026-01-02T15:04:05.678Z"},
		{"nanoseconds are exact", `from_unix(1767366245123456789, "ns")`, "2026-01-02T15:04:05.123456789Z"},
		{"microseconds", `from_unix(-1, "us")`, "1969-12-31T23:59:59.999999Z"},
		{"a fraction", `from_unix(1767366245.1)`, "2026-01-02T15:04:05.1Z"},
		{"a fraction before 1970", `from_unix(-0.25)`, "1969-12-31T23:59:59.75Z"},
		{"a fraction of milliseconds", `from_unix(1767366245678.25, "ms")`, "2026-01-02T15:04:05.67825Z"},
		{"a whole float", `from_unix(whole)`, "1970-01-01T00:00:02Z"},
		{"units", `map(["s", "ms", "us", "ns"], unix(parse_time("1969-12-31T23:59:59.5Z"), #))`, "[-1,-500,-500000,-500000000]"},
		{"and back", `unix(from_unix(max, "ns"), "ns") == max`, "true"},
		{"the last second", `unix(parse_time("9999-12-31T23:59:59Z"), "us")`, "253402300799000000"},

		{"the minute", `truncate_time(parse_time("2026-05-06T07:08:09.5Z"), "minute")`, "2026-05-06T07:08:00Z"},
		{"the second", `truncate_time(parse_time("2026-05-06T07:08:09.5Z"), "second")`, "2026-05-06T07:08:09Z"},
		{"an hour of a zone", `truncate_time(parse_time("2026-05-06T07:08:09+05:30"), "hour")`, "2026-05-06T07:00:00+05:30"},
		{"an hour that is set back by half of it", `truncate_time(in_zone(parse_time("2026-04-04T15:15:00Z"), "Australia/Lord_Howe"), "hour")`,
			"2026-04-05T01:00:00+11:00"},
		{"and the one before", `truncate_time(in_zone(parse_time("2026-04-04T14:45:00Z"), "Australia/Lord_Howe"), "hour")`,
			"2026-04-05T01:00:00+11:00"},
		{"the next one", `round_time(in_zone(parse_time("2026-04-04T15:15:00Z"), "Australia/Lord_Howe"), "hour")`,
			"2026-04-05T02:00:00+10:30"},
		{"an hour of which half is left out", `truncate_time(in_zone(parse_time("2026-10-03T15:45:00Z"), "Australia/Lord_Howe"), "hour")`,
			"2026-10-04T02:30:00+11:00"},
		{"of two hours the second", `truncate_time(in_zone(parse_time("2026-10-25T01:30:00Z"), "Europe/Zurich"), "hour")`,
			"2026-10-25T02:00:00+01:00"},
		{"a day of a zone", `truncate_time(parse_time("2026-05-06T01:00:00+05:30"), "day")`, "2026-05-06T00:00:00+05:30"},
		{"a week begins on Monday", `truncate_time(parse_time("2026-03-01"), "week")`, "2026-02-23T00:00:00Z"},
		{"the quarter", `truncate_time(parse_time("2026-12-31"), "quarter")`, "2026-10-01T00:00:00Z"},
		{"the year", `truncate_time(parse_time("2026-12-31"), "year")`, "2026-01-01T00:00:00Z"},
		{"a month of a zone, before DST", `truncate_time(in_zone(parse_time("2026-03-31"), "Europe/Zurich"), "month")`,
			"2026-03-01T00:00:00+01:00"},
		{"a duration as text", `truncate_time(parse_time("2026-05-06T07:08:09Z"), "PT5M")`, "2026-05-06T07:05:00Z"},
		{"a period from the message", `truncate_time(parse_time("2026-05-06T07:08:09Z"), "ho" + "ur" + empty)`, "2026-05-06T07:00:00Z"},
		{"halves go up", `round_time(parse_time("2026-04-16"), "month")`, "2026-05-01T00:00:00Z"},
		{"less goes down", `round_time(parse_time("2026-04-15T23:59:59Z"), "month")`, "2026-04-01T00:00:00Z"},
		{"a day of 23 hours has its half earlier", `round_time(in_zone(parse_time("2026-03-29T10:30:00Z"), "Europe/Zurich"), "day")`,
			"2026-03-30T00:00:00+02:00"},
		{"round by a duration", `round_time(parse_time("2026-05-06T07:07:30Z"), duration("5m"))`, "2026-05-06T07:10:00Z"},

		{"the end of a short month", `add_date(parse_time("2026-01-31T10:00:00Z"), 0, 1)`, "2026-02-28T10:00:00Z"},
		{"back over a year", `add_date(parse_time("2024-02-29"), -1, -2, 1)`, "2022-12-30T00:00:00Z"},
		{"days over DST keep the clock", `add_date(in_zone(parse_time("2026-03-28T11:00:00Z"), "Europe/Zurich"), 0, 0, 1)`,
			"2026-03-29T12:00:00+02:00"},
		{"into a gap", `add_date(parse_time("2026-03-28 02:30", "%F %R", "Europe/Zurich"), 0, 0, 1)`, "2026-03-29T03:30:00+02:00"},
		{"nothing changes the second of two hours", `add_date(in_zone(parse_time("2026-10-25T01:30:00Z"), "Europe/Zurich"), 0)`,
			"2026-10-25T02:30:00+01:00"},

		{"parts", `time_parts(parse_time("2027-01-03T15:04:05.25+01:00"))`,
			`{"day":3,"hour":15,"iso_year":2026,"minute":4,"month":1,"nanosecond":250000000,"offset":3600,"quarter":1,"second":5,"week":53,` +
				`"weekday":7,"year":2027,"yearday":3,"zone":"+01:00"}`},
		{"a name of a zone as a part", `in_zone(now(), "Europe/Zurich").zone`, "Europe/Zurich"},
		{"a part of a variable", `let t = parse_time("2026-01-02"); t.year * 100 + t.month`, "202601"},
		{"a part by a name from the message", `parse_time("2026-01-02")["da" + "y" + empty]`, "2"},

		{"ISO 8601", `seconds(duration("P1W2DT3H4M5.5S")) == 788645.5 and duration("-PT0,5H") == -duration("30m")`, "true"},
		{"zeros of ISO 8601", `[duration("PT0S"), duration("P0D"), duration("PT36H")]`, `["0s","0s","36h0m0s"]`},
		{"written",
			`map([duration("0s"), duration("90m"), duration("24h"), duration("-1.05s"), duration("49h0.000000001s")], format_duration(#))`,
			`["PT0S","PT1H30M","P1D","-PT1.05S","P2DT1H0.000000001S"]`},
		{"the longest", `[format_duration(duration("2562047h47m16.854775807s")), format_duration(duration("-2562047h47m16.854775808s"))]`,
			`["P106751DT23H47M16.854775807S","-P106751DT23H47M16.854775808S"]`},
	}
	m := exprtest.NewMessage(exprtest.Sample)
	for _, tt := range tests {
		got, err := exprtest.EvalBoth(t, tt.src, m)
		if text := string(lang.AppendText(&lang.Site{}, nil, got)); text != tt.want || err != nil {
			t.Errorf("%s: %s\n got %s %v\nwant %s", tt.name, tt.src, text, err, tt.want)
		}
	}
}

// An invalid constant is an error at load, with a caret; an invalid value of a message fails the message.
func TestTimesThatAreNone(t *testing.T) {
	const rfc = `parse_time(): text "%s" is not a time in RFC 3339: `
	tests := []struct {
		name, src, want, at string
		load                bool
	}{
		{"an unknown directive", `parse_time(name, "%Y-%i")`, `parse_time(): %i is not a directive of strftime (minutes are %M)`, `"%Y-%i"`,
			true},
		{"another one", `format_time(now(), "%Q")`,
			`format_time(): %Q is not a directive of strftime (strftime has %Y %m %d %H %M %S %f %b %a %j %p %z %Z %s and others; write %% for a %)`,
			`"%Q"`, true},
		{"a directive of chrono", `format_time(now(), "%S%.3fZ")`,
			`format_time(): %.3f is not a directive of strftime (write .%3f)`, `"%S%.3fZ"`,
			true},
		{"a percent sign at the end", `format_time(now(), "100%")`, `format_time(): % is not a directive of strftime (write %% for a %)`,
			`"100%"`, true},
		{"a width", `format_time(now(), "%5Y")`, `format_time(): %5Y is not a directive`, `"%5Y"`, true},
		{"a name without its padding", `format_time(now(), "%-B")`, `format_time(): %-B is not a directive`, `"%-B"`, true},
		{"an endless width", `format_time(now(), "%99999999N")`, `format_time(): %99999999N is not a directive`, `"%9`, true},
		{"Java's letters", `format_time(now(), "yyyy-MM-dd'T'HH:mm:ss.SSS")`,
			`format_time(): nothing of Go's reference time, 2006-01-02 15:04:05, is in the layout text "yyyy-MM-dd'T'HH:mm:ss.SSS" (write ` +
				`"%Y-%m-%dT%H:%M:%S.%L")`, `"yyyy`, true},
		{"a layout of nothing", `format_time(now(), "")`, `format_time(): nothing of Go's reference time`, `""`, true},
		{"a layout without a year", `parse_time(name, "%b %e %H:%M:%S")`,
			`parse_time(): the layout tells no year (put one before both: parse_time("2026 " + text, "%Y " + layout))`, `"%b`, true},
		{"Go's layout without a year", `parse_time(name, "Jan _2 15:04:05")`,
			`parse_time(): the layout tells no year (put one before both: parse_time("2026 " + text, "2006 " + layout))`, `"Jan`, true},
		{"nor one with the day of the week", `parse_time(name, "Mon Jan _2 15:04:05")`,
			`parse_time(): the layout tells no year`, `"Mon`, true},
		{"twelve hours alone", `parse_time(name, "%F %I:%M")`,
			`parse_time(): the layout has an hour of twelve without %p (hours of 24 are %H)`,
			`"%F`, true},
		{"a week for writing", `parse_time(name, "%Y %U")`,
			`parse_time(): the layout has %U, which is for writing only (the year is %Y, the week of ISO 8601 %G-W%V-%u)`, `"%Y`, true},
		{"half a week", `parse_time(name, "%G")`,
			`parse_time(): the layout has one of %G and %V without the other (a week of ISO 8601 is %G-W%V-%u)`, `"%G`, true},
		{"an unknown zone", `in_zone(now(), "Europe/Bern")`, `text "Europe/Bern" is not a time zone such as Europe/Zurich`, `"Europe`, true},
		{"the machine's zone", `now("Local")`, `text "Local" is not a time zone such as Europe/Zurich`, `"Local"`, true},
		{"leap seconds' zones", `now("right/Europe/Zurich")`, `is not a time zone`, `"right`, true},
		{"no zone", `now("")`, `text "" is not a time zone`, `""`, true},
		{"a zone of another kind", `parse_time(name, "%Y", 5)`, `parse_time() needs text or time zone, not number 5`, `parse_time`, true},
		{"an unknown unit", `from_unix(i, "minutes")`,
			`from_unix(): a unit is "s", "ms", "us" or "ns", not text "minutes"`, `"minutes"`, true},
		{"an unknown period", `truncate_time(now(), "decade")`,
			`truncate_time(): text "decade" is neither a duration such as 15m nor one of second, minute, hour, day, week, month, quarter, year`,
			`"decade"`, true},
		{"no period", `round_time(now(), duration("0s"))`, `round_time(): duration 0s is neither`, `duration`, true},
		{"a part that is none", `now().Year`, `text "Year" is not a part of a time (flowd docs time_parts lists its parts)`, `Year`, true},
		{"a long layout", `format_time(now(), repeat("2006", 300))`, `format_time(): a layout may have at most 1024 bytes`, `repeat`, true},

		{"a layout from a message", `parse_time("x", "%Y-%i" + empty)`, `parse_time(): %i is not a directive`, `parse_time`, false},
		{"a layout without a year", `parse_time("x", "15:04" + empty)`, `parse_time(): the layout tells no year`, `parse_time`, false},
		{"a zone from a message", `in_zone(now(), "zone.tab" + empty)`, `text "zone.tab" is not a time zone`, `in_zone`, false},
		{"a unit from a message", `unix(now(), "h" + empty)`, `unix(): a unit is`, `unix`, false},
		{"nothing", `parse_time(missing)`, `parse_time() needs text, not nothing (?? gives a missing field a default)`, `parse_time`, false},
		{"a word", `parse_time(name)`, strings.Replace(rfc, "%s", "Ann", 1) +
			`it is written otherwise (give its layout: parse_time(text, "%d.%m.%Y"))`, `parse_time`, false},
		{"a month", `parse_time("2026-13-01" + empty)`, strings.Replace(rfc, "%s", "2026-13-01", 1) + calendar.NoMonth, `parse_time`, false},
		{"a day", `parse_time("2025-02-29" + empty)`, calendar.NoDay, `parse_time`, false},
		{"an hour", `parse_time("2026-01-02T24:00:00Z" + empty)`, calendar.NoHour, `parse_time`, false},
		{"a minute", `parse_time("2026-01-02T23:60:00Z" + empty)`, calendar.NoMinute, `parse_time`, false},
		{"a second", `parse_time("2026-01-02T23:59:61Z" + empty)`, calendar.NoSecond, `parse_time`, false},
		{"a leap second", `parse_time("2016-12-31T23:59:60Z" + empty)`,
			calendar.LeapSecond + ` (replace(text, ":60", ":59") takes the second before it)`,
			`parse_time`, false},
		{"a leap second by strptime", `parse_time("2016-12-31T23:59:60Z" + empty, "%FT%T%z")`, calendar.LeapSecond, `parse_time`, false},
		{"a leap second by Go's layout", `parse_time("2016-12-31T23:59:60Z" + empty, "2006-01-02T15:04:05Z07:00")`,
			calendar.LeapSecond, `parse_time`,
			false},
		{"an offset", `parse_time("2026-01-02T15:04:05+25:00" + empty)`, calendar.NoOffset, `parse_time`, false},
		{"something behind", `parse_time("2026-01-02T15:04:05Z " + empty)`, calendar.NoOffset, `parse_time`, false},
		{"something behind a layout", `parse_time("2026x" + empty, "%Y")`,
			`is not a time in this layout: it is written otherwise`, `parse_time`,
			false},
		{"the year 0", `parse_time("0000-12-31" + empty)`, `the result of parse_time is in the year 0; times go from the year 1 to 9999`,
			`parse_time`, false},
		{"an abbreviation of another zone", `parse_time("2026 EST" + empty, "%Y %Z", "Europe/Zurich")`,
			`Europe/Zurich does not use the abbreviation EST`, `parse_time`, false},
		{"the same by Go's layout", `parse_time("2026 EST" + empty, "2006 MST")`,
			`UTC does not use the abbreviation EST`, `parse_time`, false},
		{"a day of a year", `parse_time("2025-366" + empty, "%Y-%j")`, `that year has fewer days`, `parse_time`, false},
		{"a week of a year", `parse_time("2025-W53" + empty, "%G-W%V")`, `that year has fewer weeks`, `parse_time`, false},
		{"too late", `from_unix(253402300800 + 0 * i)`,
			`from_unix(): number 253402300800 is not within the years 1 to 9999`, `from_unix`, false},
		{"too early", `from_unix(-62135596801 + 0 * i)`, `is not within the years 1 to 9999`, `from_unix`, false},
		{"a huge float", `from_unix(1e300 * whole)`, `is not within the years 1 to 9999`, `from_unix`, false},
		{"nanoseconds that do not fit", `unix(parse_time("2262-04-12" + empty), "ns")`,
			`unix(): nanoseconds since 1970 of the year 2262 do not fit into 64 bits (write unix(t, "us"))`, `unix`, false},
		{"a sum that is too late", `parse_time("9999-12-31" + empty) + duration("24h")`, `the result of + is in the year 10000`, `+ duration`,
			false},
		{"a difference that is too early", `parse_time("0001-01-01" + empty) - duration("1s")`,
			`the result of - is in the year 0;`, `- duration`,
			false},
		{"a zone in which it is too late", `in_zone(parse_time("9999-12-31T23:00:00Z" + empty), "+02:00")`,
			`the result of in_zone is in the year 10000`, `in_zone`, false},
		{"rounded too far", `round_time(parse_time("9999-12-31" + empty), "year")`,
			`the result of round_time is in the year 10000`, `round_time`,
			false},
		{"moved too far", `add_date(now(), 9000 * i)`, `the result of add_date is in the year 1`, `add_date`, false},
		{"moved very far", `add_date(now(), 0, 0, max)`, `add_date(): the result is not within the years 1 to 9999`, `add_date`, false},
		{"far apart", `parse_time("0001-01-01" + empty) - parse_time("2026-01-01")`,
			`the times are more than 292 years apart, which no duration is (unix(a) - unix(b) gives the seconds between any two)`, `- parse`, false},
		{"too old", `age(parse_time("0001-01-01"))`, `the times are more than 292 years apart`, `age`, false},
		{"months of ISO 8601", `duration("P1M" + empty)`, `duration(): text "P1M" is not a duration such as`, `duration`, false},
	}
	m := exprtest.NewMessage(exprtest.Sample)
	for _, tt := range tests {
		_, compiled := expr.Compile(tt.src)
		_, err := exprtest.EvalBoth(t, tt.src, m)
		var e *lang.Error
		if !errors.As(err, &e) || (compiled != nil) != tt.load {
			t.Errorf("%s: %s: got %v at load, then %v", tt.name, tt.src, compiled, err)
			continue
		}
		if !strings.Contains(e.Short(), tt.want) || !strings.HasPrefix(tt.src[e.Offset:], tt.at) {
			t.Errorf("%s: %s\n got %s, at %s\nwant %s", tt.name, tt.src, e.Short(), tt.src[e.Offset:], tt.want)
		}
	}
}

// No error contains the value of a placeholder.
func TestErrorsOfTimesKeepSecrets(t *testing.T) {
	for _, src := range []string{`parse_time("${X}", "%Y")`, `format_time(now(), "${X}")`, `in_zone(now(), "${X}")`,
		`from_unix(1, "${X}")`, `truncate_time(now(), "${X}")`, `parse_time("2026 ${X}", "%Y %Z")`, `format_time(now(), "%i${X}")`} {
		err := exprtest.CompileSecret(t, src, "HSH")
		if err == nil || strings.Contains(strings.ToLower(err.Error()), "hsh") {
			t.Errorf("%s: got error %v", src, err)
		}
	}
}

func TestAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := expr.MustCompile(`age(parse_time(at))`)
		m := exprtest.NewMessage(`{"at": "` + time.Now().UTC().Format(time.RFC3339Nano) + `"}`)
		time.Sleep(90 * time.Second)
		if got, err := e.Eval(m); got != 90*time.Second || err != nil {
			t.Errorf("90 seconds later age() is %v, %v", got, err)
		}
	})
}
