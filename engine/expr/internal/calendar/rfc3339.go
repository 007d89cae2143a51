// Package calendar reads, writes and calculates times: RFC 3339 ([ParseISO]), layouts of Go and strftime ([CompileLayout]),
// durations of ISO 8601 ([ParseDuration]), periods ([Period]), zones ([LoadZone]) and times since 1970 ([FromUnix]). It knows
// nothing of expressions but how their errors put what is wrong.
package calendar

import "time"

// What can be wrong with a text that should be a time.
const (
	WrittenOtherwise = "it is written otherwise"
	NoMonth          = "months go from 01 to 12"
	NoDay            = "that month has no such day"
	NoHour           = "hours go from 00 to 23"
	NoMinute         = "minutes go from 00 to 59"
	LeapSecond       = "second 60 is a leap second, which computers' clocks leave out"
	NoSecond         = "seconds go from 00 to 59"
	NoOffset         = "its offset from UTC is not one such as +02:00"
)

// civil is what a calendar and a clock show.
type civil struct {
	year, month, day, hour, minute, second, nano int
}

// wall is the civil time in UTC. why says what is wrong with it, or is "".
func (c *civil) wall() (t time.Time, why string) {
	switch {
	case c.month < 1 || c.month > 12:
		return t, NoMonth
	case c.day < 1 || c.day > daysIn(c.year, c.month):
		return t, NoDay
	case c.hour < 0 || c.hour > 23:
		return t, NoHour
	case c.minute < 0 || c.minute > 59:
		return t, NoMinute
	case c.second == 60:
		return t, LeapSecond
	case c.second < 0 || c.second > 59:
		return t, NoSecond
	}
	return time.Date(c.year, time.Month(c.month), c.day, c.hour, c.minute, c.second, c.nano, time.UTC), ""
}

func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// ParseISO reads a time in RFC 3339, or in a similar form of ISO 8601: with a blank in place of the T, without seconds, without an
// offset or with one of hours only or without a colon, with a comma before the fraction, or without a time of day. why says what
// is wrong with the text, or is "".
func ParseISO(text string) (t time.Time, why string) {
	if len(text) < len(time.DateOnly) || text[4] != '-' || text[7] != '-' {
		return t, WrittenOtherwise
	}
	c := civil{year: two(text, 0)*100 + two(text, 2), month: two(text, 5), day: two(text, 8)}
	if c.year < 0 || c.month < 0 || c.day < 0 {
		return t, WrittenOtherwise
	}
	rest := text[len(time.DateOnly):]
	if rest == "" {
		return c.wall()
	}
	if len(rest) < len("T15:04") || rest[0] != 'T' && rest[0] != 't' && rest[0] != ' ' || rest[3] != ':' {
		return t, WrittenOtherwise
	}
	c.hour, c.minute = two(rest, 1), two(rest, 4)
	if rest = rest[len("T15:04"):]; len(rest) >= len(":05") && rest[0] == ':' {
		c.second, rest = two(rest, 1), rest[len(":05"):]
		if rest != "" && (rest[0] == '.' || rest[0] == ',') {
			if c.nano, rest = cutFraction(rest[1:]); c.nano < 0 {
				return t, WrittenOtherwise
			}
		}
	}
	if c.hour < 0 || c.minute < 0 || c.second < 0 {
		return t, WrittenOtherwise
	}
	t, why = c.wall()
	if why != "" || rest == "" || rest == "Z" {
		return t, why
	}
	offset, rest, ok := cutOffset(rest)
	if !ok || rest != "" {
		return t, NoOffset
	}
	return t.Add(-time.Duration(offset) * time.Second).In(fixedZone(offset)), ""
}

// two is the number of the two digits at an index of a text, or far below 0 if there are none.
func two(text string, at int) int {
	a, b := text[at]-'0', text[at+1]-'0'
	if a > 9 || b > 9 {
		return -1 << 20
	}
	return int(a)*10 + int(b)
}

// cutFraction reads the digits after a decimal point, as nanoseconds. It skips those after the ninth. It is -1 if there are none.
func cutFraction(text string) (nano int, rest string) {
	n := 0
	for n < len(text) && text[n]-'0' <= 9 {
		if n < 9 {
			nano = nano*10 + int(text[n]-'0')
		}
		n++
	}
	if n == 0 {
		return -1, text
	}
	for i := n; i < 9; i++ {
		nano *= 10
	}
	return nano, text[n:]
}

// cutOffset reads an offset from UTC, in seconds: Z, +02:00, +0200 or +02.
func cutOffset(text string) (offset int, rest string, ok bool) {
	switch {
	case text != "" && (text[0] == 'Z' || text[0] == 'z'):
		return 0, text[1:], true
	case len(text) < len("+02") || text[0] != '+' && text[0] != '-':
		return 0, text, false
	}
	hours, minutes := two(text, 1), 0
	rest = text[len("+02"):]
	switch {
	case len(rest) >= len(":00") && rest[0] == ':':
		minutes, rest = two(rest, 1), rest[len(":00"):]
	case len(rest) >= len("00") && rest[0]-'0' <= 9:
		minutes, rest = two(rest, 0), rest[len("00"):]
	}
	if hours < 0 || hours > 23 || minutes < 0 || minutes > 59 {
		return 0, text, false
	}
	offset = (hours*60 + minutes) * 60
	if text[0] == '-' {
		offset = -offset
	}
	return offset, rest, true
}
