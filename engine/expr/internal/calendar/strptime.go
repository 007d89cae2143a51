package calendar

import (
	"strings"
	"time"
)

// reading is the parts of a time that have been read.
type reading struct {
	civil
	pm                   int // 1 is a.m., 2 is p.m., 0 is neither
	yearDay              int
	week, weekday        int // of ISO 8601; 0 if the text does not have them
	offset               int // in seconds
	zone                 string
	unix                 int64
	hasUnix, before      bool // before 1970
	hasOffset            bool
	hasMonth, hasISOYear bool
}

// parseStrftime reads a time by a layout, as strptime does: names in any case, numbers with or without leading zeros, a
// blank for one or more.
//
// github.com/itchyny/timefmt-go, which writes times here, does not read them: it takes February 30 for March 2, a leap
// second for the next minute, day 366 of any year for a day of the next one, and an unknown abbreviation of a zone for UTC,
// all without an error.
func parseStrftime(text string, parts []directive, in *time.Location) (t time.Time, why string) {
	r := reading{civil: civil{month: 1, day: 1}}
	for i := range parts {
		d := &parts[i]
		rest, ok := "", false
		if d.verb == textVerb {
			rest, ok = cutText(text, d.text)
		} else {
			rest, ok = r.read(d, text)
		}
		if !ok {
			return t, WrittenOtherwise
		}
		text = rest
	}
	if text != "" {
		return t, WrittenOtherwise
	}
	return r.time(in)
}

// cutText reads the text of a layout. Blanks in it stand for one or more.
func cutText(text, want string) (rest string, ok bool) {
	for want != "" {
		if text == "" || text[0] != want[0] {
			return text, false
		}
		if want[0] == ' ' {
			text, want = strings.TrimLeft(text, " "), strings.TrimLeft(want, " ")
			continue
		}
		text, want = text[1:], want[1:]
	}
	return text, true
}

// read reads the part of a time that a directive stands for.
func (r *reading) read(d *directive, text string) (rest string, ok bool) {
	switch d.verb {
	case 'b', 'B', 'h':
		r.hasMonth = true
		return cutName(text, monthNames[:], &r.month)
	case 'a', 'A':
		return cutName(text, dayNames[:], &r.weekday)
	case 'p', 'P':
		return cutName(text, halves[:], &r.pm)
	case 'z':
		r.offset, rest, r.hasOffset = cutOffset(text)
		return rest, r.hasOffset
	case 'Z':
		n := 0
		for n < len(text) && ('A' <= text[n] && text[n] <= 'Z' || 'a' <= text[n] && text[n] <= 'z') {
			n++
		}
		r.zone = text[:n]
		return text[n:], n > 0
	case 'f', 'L', 'N':
		r.nano, rest = cutFraction(text)
		return rest, r.nano >= 0
	case 's':
		return r.readUnix(text)
	}
	return r.readNumber(d, text)
}

var (
	monthNames = [...]string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
		"November", "December"}
	dayNames = [...]string{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}
	halves   = [...]string{"AM", "PM"}
)

// readNumber reads a number of a civil time.
func (r *reading) readNumber(d *directive, text string) (rest string, ok bool) {
	if d.pad == ' ' || d.verb == 'd' {
		text = strings.TrimPrefix(text, " ")
	}
	n, digits := 0, 0
	for digits < min(d.width, len(text)) && text[digits]-'0' <= 9 {
		n = n*10 + int(text[digits]-'0')
		digits++
	}
	rest, ok = text[digits:], digits > 0
	switch d.verb {
	case 'Y':
		r.year, ok = n, digits == 4
	case 'y':
		r.year, ok = 1900+n, digits == 2
		if n < 69 { // POSIX
			r.year = 2000 + n
		}
	case 'm':
		r.month, r.hasMonth = n, true
	case 'd', 'e':
		r.day, r.hasMonth = n, true
	case 'H', 'k':
		r.hour = n
	case 'I', 'l':
		r.hour, ok = n%12, ok && n >= 1 && n <= 12
	case 'M':
		r.minute = n
	case 'S':
		r.second = n
	case 'j':
		r.yearDay, ok = n, ok && n >= 1
	case 'G':
		r.year, r.hasISOYear, ok = n, true, digits == 4
	case 'V':
		r.week, ok = n, ok && n >= 1
	case 'u':
		r.weekday, ok = n, ok && n >= 1 && n <= 7
	case 'w':
		r.weekday, ok = (n+6)%7+1, ok && n <= 6
	}
	return rest, ok
}

func (r *reading) readUnix(text string) (rest string, ok bool) {
	rest, r.before = strings.CutPrefix(text, "-")
	digits := 0
	for digits < len(rest) && rest[digits]-'0' <= 9 && digits < 13 { // enough for the year 9999
		r.unix = r.unix*10 + int64(rest[digits]-'0')
		digits++
	}
	r.hasUnix = true
	return rest[digits:], digits > 0
}

// cutName reads one of the names, whole or its first three letters, in any case. n is its place among the names, from 1.
func cutName(text string, names []string, n *int) (rest string, ok bool) {
	for i, full := range names {
		if text == "" || text[0]|0x20 != full[0]|0x20 {
			continue
		}
		for _, l := range [...]int{len(full), min(3, len(full))} {
			if len(text) >= l && strings.EqualFold(text[:l], full[:l]) {
				*n = i + 1
				return text[l:], true
			}
		}
	}
	return text, false
}

// time is the time that was read. It is in a zone if the text does not tell another one.
func (r *reading) time(in *time.Location) (t time.Time, why string) {
	if r.before {
		r.unix, r.nano = -r.unix, -r.nano
	}
	if r.hasUnix {
		return time.Unix(r.unix, int64(r.nano)).In(in), ""
	}
	if r.pm == 2 {
		r.hour += 12
	}
	t, why = r.date()
	switch {
	case why != "":
		return t, why
	case r.hasOffset:
		return t.Add(-time.Duration(r.offset) * time.Second).In(fixedZone(r.offset)), ""
	case r.zone == "":
		return fromWall(t, in), ""
	}
	zone := strings.ToUpper(r.zone)
	if zone == "Z" || zone == "UTC" || zone == "GMT" {
		return t, ""
	}
	const form = "2006-01-02T15:04:05.999999999 MST"
	t, err := time.ParseInLocation(form, t.Format(form[:len(form)-3])+zone, in)
	if err != nil {
		return t, WrittenOtherwise
	}
	return t, UnknownAbbreviation(t, in)
}

// date is the civil time that was read: by its month and day, the day of the year, or the week of ISO 8601.
func (r *reading) date() (t time.Time, why string) {
	switch {
	case r.yearDay > 0 && !r.hasMonth:
		if r.yearDay > 365+daysIn(r.year, 2)-28 {
			return t, "that year has fewer days"
		}
		t, why = r.wall()
		return t.AddDate(0, 0, r.yearDay-1), why
	case r.hasISOYear:
		monday := time.Date(r.year, time.January, 4, 0, 0, 0, 0, time.UTC) // in the first week
		monday = monday.AddDate(0, 0, 7*(r.week-1)+1-isoWeekday(monday))
		if year, _ := monday.AddDate(0, 0, 3).ISOWeek(); year != r.year {
			return t, "that year has fewer weeks"
		}
		t, why = r.wall()
		year, month, day := monday.AddDate(0, 0, max(r.weekday, 1)-1).Date()
		return time.Date(year, month, day, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC), why
	}
	return r.wall()
}
