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

var _ = inRole("layout", kText, func(s *site, v any) any {
	l := compileLayout(s, v.(string))
	if s.name == "parse_time" {
		l.readable(s)
	}
	return l
})

var layouts = kept[string, *layout]{most: maxTexts}

// layoutAt is the layout that argument i gives.
func (s *site) layoutAt(f *frame, args []any, i int) *layout {
	if l, ok := s.ready(i).(*layout); ok {
		return l
	}
	text := args[i].(string)
	if l, ok := layouts.get(text); ok {
		return l
	}
	f.step(s.offset, 50+len(text)) // which is tried out on a few times
	l := compileLayout(s, text)
	layouts.put(strings.Clone(text), l)
	return l
}

func compileLayout(s *site, text string) *layout {
	if len(text) > maxLayout {
		fail(s.offset, "%s(): a layout may have at most %d bytes", s.name, maxLayout)
	}
	if strings.Contains(text, "%") {
		return compileStrftime(s, text)
	}
	return compileGo(s, text)
}

// compileGo finds out what a layout of package time tells by what it makes of times that differ in that.
func compileGo(s *site, text string) *layout {
	text = strings.Clone(text)
	a := time.Date(2001, time.January, 1, 1, 1, 1, 0, time.FixedZone("AAA", 3600))
	written := a.Format(text)
	if written == text && time.Date(2012, time.October, 31, 23, 59, 58, 123456789, time.UTC).Format(text) == text {
		failFor(s.offset, s.meantLayout(text),
			"%s(): nothing of Go's reference time, 2006-01-02 15:04:05, is in the layout %s", s.name, s.left(text))
	}
	differs := func(year, offset int, zone string) bool {
		b := time.Date(year, time.January, 1, 1, 1, 1, 0, time.FixedZone(zone, offset))
		return b.Format(text) != written
	}
	l := &layout{text: text, offset: differs(2001, 7200, "AAA"), name: differs(2001, 3600, "BBB")}
	if !differs(2007, 3600, "AAA") { // whose days of the week are those of 2001
		l.noYear("2006")
	}
	return l
}

// noYear makes a layout that has no year unfit to read times by.
func (l *layout) noYear(year string) {
	l.unfit = "tells no year"
	l.help = fmt.Sprintf(`put one before both: parse_time("2026 " + text, "%s " + layout)`, year)
}

// readable ends the evaluation if no text can be read by the layout.
func (l *layout) readable(s *site) {
	if l.unfit != "" {
		failFor(s.offset, l.help, "%s(): the layout %s", s.name, l.unfit)
	}
}

// meantLayout is what helps someone who writes layouts as Java does.
func (s *site) meantLayout(text string) string {
	meant := javaLayout.Replace(text)
	if s.secret[0] || meant == text {
		return `write it in this way, or as strftime does: "%Y-%m-%d %H:%M:%S"`
	}
	return fmt.Sprintf("write %q", clip(meant))
}

var javaLayout = strings.NewReplacer("yyyy", "%Y", "YYYY", "%Y", "yy", "%y", "YY", "%y",
	"MMMM", "%B", "MMM", "%b", "MM", "%m", "dd", "%d", "DD", "%d", "HH", "%H", "hh", "%I", "mm", "%M", "ss", "%S", "SSS", "%L", "XXX", "%:z",
	"EEEE", "%A", "EEE", "%a", "'T'", "T")

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
