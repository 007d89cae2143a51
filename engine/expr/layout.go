package expr

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// layout says how a time is written: in Go's way, by what its reference time would look like, or in that of strftime.
type layout struct {
	text   string      // in Go's way; "" in the other
	parts  []directive // of strftime, to read by
	pieces []timePiece // of strftime, to write by
	unfit  string      // why no text can be read by it, or ""
	help   string      // against that

	offset, name bool // in Go's way: it tells the offset, the abbreviation of the zone
}

// maxLayout bounds layouts and the texts that are read by them, in bytes.
const maxLayout = 1 << 10

// compileLayout compiles a layout. If l is nil, text is not a layout: it has nothing of Go's reference time, or, if there
// is a % in it, wrong begins with something that is not a directive of strftime.
func compileLayout(text string) (l *layout, wrong string) {
	text = strings.Clone(text) // the layout is kept longer than the message that text may be a part of
	if !strings.Contains(text, "%") {
		return compileGo(text)
	}
	l = &layout{}
	if l.parts, wrong = appendDirectives(nil, text); wrong != "" {
		return nil, wrong
	}
	l.pieces = pieces(l.parts)
	l.unfit, l.help = unreadable(l.parts)
	return l, ""
}

// compileGo finds out what a layout of package time tells by what it makes of times that differ in that.
func compileGo(text string) (l *layout, wrong string) {
	a := time.Date(2001, time.January, 1, 1, 1, 1, 0, time.FixedZone("AAA", 3600))
	written := a.Format(text)
	if written == text && time.Date(2012, time.October, 31, 23, 59, 58, 123456789, time.UTC).Format(text) == text {
		return nil, ""
	}
	differs := func(year, offset int, zone string) bool {
		b := time.Date(year, time.January, 1, 1, 1, 1, 0, time.FixedZone(zone, offset))
		return b.Format(text) != written
	}
	l = &layout{text: text, offset: differs(2001, 7200, "AAA"), name: differs(2001, 3600, "BBB")}
	if !differs(2007, 3600, "AAA") { // whose days of the week are those of 2001
		l.unfit, l.help = noYear("2006")
	}
	return l, ""
}

// noYear is why no time can be read by a layout without a year, and what helps.
func noYear(year string) (why, help string) {
	return "tells no year", fmt.Sprintf(`put one before both: parse_time("2026 " + text, "%s " + layout)`, year)
}

// unreadable is why no text can be read by the layout, or "", and what helps.
func (l *layout) unreadable() (why, help string) { return l.unfit, l.help }

// append appends a time.
func (l *layout) append(dst []byte, t time.Time) []byte {
	if l.text != "" {
		return t.AppendFormat(dst, l.text)
	}
	return appendStrftime(dst, l.pieces, t)
}

// parse reads a time, of a zone if its text tells no other; why says what is wrong with it.
func (l *layout) parse(text string, in *time.Location) (t time.Time, why string) {
	switch {
	case len(text) > maxLayout:
		return t, noTime
	case l.text == "":
		return parseStrftime(text, l.parts, in)
	case l.offset || l.name:
		t, err := time.ParseInLocation(l.text, text, in)
		if err == nil && l.name && !l.offset {
			return t, unknownZone(t, in)
		}
		return t, wrongTime(err, text)
	}
	t, err := time.Parse(l.text, text)
	if err != nil {
		return t, wrongTime(err, text)
	}
	return local(t, in), ""
}

// unknownZone is why t is wrong if its text names the zone by an abbreviation that the zone in does not have: package
// time makes one up then, with the clock of UTC.
func unknownZone(t time.Time, in *time.Location) string {
	name, offset := t.Zone()
	if t.Location() == in || t.Location() == time.UTC || offset != 0 || name == "GMT" {
		return ""
	}
	return fmt.Sprintf("%s does not use the abbreviation %s", in, name)
}

// wrongTime is what package time has to say about a text, without that text.
func wrongTime(err error, text string) string {
	bad, ok := errors.AsType[*time.ParseError](err)
	switch {
	case err == nil:
		return ""
	case !ok || bad.Message == "":
		return noTime
	case strings.Contains(bad.Message, "month"):
		return noMonth
	case strings.Contains(bad.Message, "day"):
		return noDay
	case strings.Contains(bad.Message, "hour"):
		return noHour
	case strings.Contains(bad.Message, "minute"):
		return noMinute
	case strings.Contains(bad.Message, "second") && strings.Contains(text, "60"):
		return leapSecond
	case strings.Contains(bad.Message, "second"):
		return noSecond
	}
	return noTime
}
