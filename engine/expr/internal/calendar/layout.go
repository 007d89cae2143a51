package calendar

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Layout says how a time is written: as package time does, by what its reference time looks like, or as strftime does.
type Layout struct {
	text   string      // of package time; "" for strftime
	parts  []directive // of strftime, to read by
	pieces []timePiece // of strftime, to write by
	unfit  string      // why no text can be read by it, or ""
	help   string      // what to do about unfit

	offset, name bool // of package time: the layout has the offset, the abbreviation of the zone
}

// MaxLayout bounds layouts and the texts that are read by them, in bytes.
const MaxLayout = 1 << 10

// CompileLayout compiles a layout. If l is nil, text is not a layout: it has nothing of Go's reference time, or, if there
// is a % in it, wrong begins with something that is not a directive of strftime.
func CompileLayout(text string) (l *Layout, wrong string) {
	text = strings.Clone(text) // the layout is kept longer than the message that text may be a part of
	if !strings.Contains(text, "%") {
		return compileGo(text)
	}
	l = &Layout{}
	if l.parts, wrong = appendDirectives(nil, text); wrong != "" {
		return nil, wrong
	}
	l.pieces = pieces(l.parts)
	l.unfit, l.help = unreadable(l.parts)
	return l, ""
}

// compileGo finds out what a layout of package time contains: it formats times that differ only in that.
func compileGo(text string) (l *Layout, wrong string) {
	a := time.Date(2001, time.January, 1, 1, 1, 1, 0, time.FixedZone("AAA", 3600))
	written := a.Format(text)
	if written == text && time.Date(2012, time.October, 31, 23, 59, 58, 123456789, time.UTC).Format(text) == text {
		return nil, ""
	}
	differs := func(year, offset int, zone string) bool {
		b := time.Date(year, time.January, 1, 1, 1, 1, 0, time.FixedZone(zone, offset))
		return b.Format(text) != written
	}
	l = &Layout{text: text, offset: differs(2001, 7200, "AAA"), name: differs(2001, 3600, "BBB")}
	if !differs(2007, 3600, "AAA") { // a year with the same days of the week as 2001
		l.unfit, l.help = noYear("2006")
	}
	return l, ""
}

// noYear is why no time can be read by a layout without a year, and what helps.
func noYear(year string) (why, help string) {
	return "tells no year", fmt.Sprintf(`put one before both: parse_time("2026 " + text, "%s " + layout)`, year)
}

// Unreadable is why no text can be read by the layout, or "", and what helps.
func (l *Layout) Unreadable() (why, help string) { return l.unfit, l.help }

// Append appends a time.
func (l *Layout) Append(dst []byte, t time.Time) []byte {
	if l.text != "" {
		return t.AppendFormat(dst, l.text)
	}
	return appendStrftime(dst, l.pieces, t)
}

// Parse reads a time. It is in a zone if the text does not tell another one. why says what is wrong with the text, or is "".
func (l *Layout) Parse(text string, in *time.Location) (t time.Time, why string) {
	switch {
	case len(text) > MaxLayout:
		return t, WrittenOtherwise
	case l.text == "":
		return parseStrftime(text, l.parts, in)
	case l.offset || l.name:
		t, err := time.ParseInLocation(l.text, text, in)
		if err == nil && l.name && !l.offset {
			return t, UnknownAbbreviation(t, in)
		}
		return t, wrongTime(err, text)
	}
	t, err := time.Parse(l.text, text)
	if err != nil {
		return t, wrongTime(err, text)
	}
	return fromWall(t, in), ""
}

// UnknownAbbreviation is why t is wrong if its text has an abbreviation of a zone that the zone in does not use, else "". Package
// time takes such an abbreviation for UTC.
func UnknownAbbreviation(t time.Time, in *time.Location) string {
	name, offset := t.Zone()
	if t.Location() == in || t.Location() == time.UTC || offset != 0 || name == "GMT" {
		return ""
	}
	return fmt.Sprintf("%s does not use the abbreviation %s", in, name)
}

// wrongTime is an error of package time in the words of this package, which do not show the text.
func wrongTime(err error, text string) string {
	bad, ok := errors.AsType[*time.ParseError](err)
	switch {
	case err == nil:
		return ""
	case !ok || bad.Message == "":
		return WrittenOtherwise
	case strings.Contains(bad.Message, "month"):
		return NoMonth
	case strings.Contains(bad.Message, "day"):
		return NoDay
	case strings.Contains(bad.Message, "hour"):
		return NoHour
	case strings.Contains(bad.Message, "minute"):
		return NoMinute
	case strings.Contains(bad.Message, "second") && strings.Contains(text, "60"):
		return LeapSecond
	case strings.Contains(bad.Message, "second"):
		return NoSecond
	}
	return WrittenOtherwise
}
