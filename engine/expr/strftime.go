package expr

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// directive is a part of a layout of strftime: a value of the time, or text.
type directive struct {
	verb  byte
	pad   byte // '0', ' ' or, for none, '-'
	width int  // in digits
	text  string
}

// textVerb is the verb of text.
const textVerb = 0

// numberVerbs are the verbs of numbers, with how these are written.
var numberVerbs = [utf8.RuneSelf]directive{
	'Y': {pad: '0', width: 4}, 'C': {pad: '0', width: 2}, 'y': {pad: '0', width: 2}, 'm': {pad: '0', width: 2},
	'd': {pad: '0', width: 2}, 'e': {pad: ' ', width: 2}, 'j': {pad: '0', width: 3}, 'H': {pad: '0', width: 2},
	'k': {pad: ' ', width: 2}, 'I': {pad: '0', width: 2}, 'l': {pad: ' ', width: 2}, 'M': {pad: '0', width: 2},
	'S': {pad: '0', width: 2}, 'U': {pad: '0', width: 2}, 'W': {pad: '0', width: 2}, 'V': {pad: '0', width: 2},
	'G': {pad: '0', width: 4}, 'g': {pad: '0', width: 2}, 'u': {width: 1}, 'w': {width: 1}, 's': {width: 1},
	'f': {width: 6}, 'L': {width: 3}, 'N': {width: 9}, // fractions
}

// wordVerbs are the verbs of words and offsets. The width of an offset is how many colons its verb has.
const wordVerbs = "BbhAaPpZz"

// composed are the verbs that stand for others.
var composed = [256]string{
	'F': "%Y-%m-%d", 'T': "%H:%M:%S", 'R': "%H:%M", 'D': "%m/%d/%y", 'x': "%m/%d/%y", 'X': "%H:%M:%S", 'r': "%I:%M:%S %p",
	'c': "%a %b %e %H:%M:%S %Y", '+': "%a %b %e %H:%M:%S %Z %Y", 'v': "%e-%b-%Y", 'n': "\n", 't': "\t", '%': "%",
}

func compileStrftime(s *site, text string) *layout {
	l := &layout{}
	l.add(s, strings.Clone(text))
	l.unfit, l.help = unreadable(l.parts)
	if l.unfit == "tells no year" {
		l.noYear("%Y")
	}
	return l
}

// add appends the parts of text.
func (l *layout) add(s *site, text string) {
	for text != "" {
		at := strings.IndexByte(text, '%')
		if at < 0 {
			at = len(text)
		}
		if at > 0 {
			l.parts, text = append(l.parts, directive{text: text[:at]}), text[at:]
			continue
		}
		d, rest := cutDirective(text)
		switch {
		case d.verb == '%' || d.verb == 'n' || d.verb == 't':
			l.parts = append(l.parts, directive{text: composed[d.verb]})
		case composed[d.verb] != "":
			l.add(s, composed[d.verb])
		case d.verb == textVerb:
			s.noDirective(text)
		default:
			l.parts = append(l.parts, d)
		}
		text = rest
	}
}

// cutDirective reads the directive that text begins with: %d, %-d without its zero, %_d with a blank, %3N of three
// digits, %:z with a colon. Its verb is textVerb if there is none.
func cutDirective(text string) (d directive, rest string) {
	rest = text[1:]
	pad, digits, colons := byte(0), 0, 0
	if rest != "" && strings.IndexByte("-_0", rest[0]) >= 0 {
		pad, rest = rest[0], rest[1:]
	}
	if rest != "" && '1' <= rest[0] && rest[0] <= '9' {
		digits, rest = int(rest[0]-'0'), rest[1:]
	}
	for strings.HasPrefix(rest, ":") {
		colons, rest = colons+1, rest[1:]
	}
	if rest == "" {
		return directive{}, rest
	}
	verb := rest[0]
	rest = rest[1:]
	d = numberVerbs[verb%utf8.RuneSelf] // others are refused below
	number := d.width > 0
	d.verb = verb
	fraction := number && d.pad == 0 && d.width > 1
	switch {
	case pad != 0 && d.pad == 0, digits != 0 && !fraction, colons != 0 && verb != 'z' || colons > 2:
		return directive{}, rest
	case verb >= utf8.RuneSelf, !number && composed[verb] == "" && strings.IndexByte(wordVerbs, verb) < 0:
		return directive{}, rest
	}
	if pad == '_' {
		pad = ' '
	}
	d.pad = cmp.Or(pad, d.pad)
	d.width = cmp.Or(digits, colons, d.width)
	return d, rest
}

// noDirective ends the evaluation: what text begins with is not a directive.
func (s *site) noDirective(text string) {
	remedy := "strftime has %Y %m %d %H %M %S %f %b %a %j %p %z %Z %s and others; write %% for a %"
	shown := strings.TrimLeft(text[1:], "-_0123456789:.")
	_, size := utf8.DecodeRuneInString(shown)
	shown = text[:len(text)-len(shown)+size]
	switch {
	case s.secret[0]:
		fail(s.offset, "%s(): the layout has a directive that does not exist", s.name)
	case strings.HasPrefix(text, "%.") && strings.HasSuffix(shown, "f"):
		remedy = "write ." + strings.Replace(strings.Replace(shown, ".f", "f", 1), "%.", "%", 1)
	case shown == "%i":
		remedy = "minutes are %M"
	case shown == "%":
		remedy = "write %% for a %"
	}
	failFor(s.offset, remedy, "%s(): %s is not a directive of strftime", s.name, clip(shown))
}

// appendStrftime writes a time.
func appendStrftime(dst []byte, parts []directive, t time.Time) []byte {
	var c civil
	var month time.Month
	c.year, month, c.day = t.Date()
	c.month = int(month)
	c.hour, c.minute, c.second = t.Clock()
	for i := range parts {
		if d := &parts[i]; d.verb == textVerb {
			dst = append(dst, d.text...)
		} else {
			dst = d.append(dst, t, &c)
		}
	}
	return dst
}

// append appends what a directive stands for.
func (d *directive) append(dst []byte, t time.Time, c *civil) []byte {
	switch d.verb {
	case 'b', 'h':
		return append(dst, monthNames[c.month-1][:3]...)
	case 'B':
		return append(dst, monthNames[c.month-1]...)
	case 'a':
		return append(dst, dayNames[isoWeekday(t)-1][:3]...)
	case 'A':
		return append(dst, dayNames[isoWeekday(t)-1]...)
	case 'p':
		return append(dst, halves[c.hour/12]...)
	case 'P':
		return append(dst, [...]string{"am", "pm"}[c.hour/12]...)
	case 'Z':
		return t.AppendFormat(dst, "MST")
	case 'z':
		return appendOffset(dst, offsetOf(t), d.width)
	case 's':
		return strconv.AppendInt(dst, t.Unix(), 10)
	case 'f', 'L', 'N':
		var digits [9]byte
		for i, n := 8, t.Nanosecond(); i >= 0; i, n = i-1, n/10 {
			digits[i] = byte('0' + n%10)
		}
		return append(dst, digits[:d.width]...)
	}
	return d.appendNumber(dst, d.number(t, c))
}

// appendOffset appends an offset from UTC with so many colons: +0200, +02:00, +02:00:00.
func appendOffset(dst []byte, offset, colons int) []byte {
	sign := byte('+')
	if offset < 0 {
		sign, offset = '-', -offset
	}
	dst = append(dst, sign, byte('0'+offset/36000), byte('0'+offset/3600%10))
	for _, n := range []int{offset / 60 % 60, offset % 60}[:max(colons, 1)] {
		if colons > 0 {
			dst = append(dst, ':')
		}
		dst = append(dst, byte('0'+n/10), byte('0'+n%10))
	}
	return dst
}

// number is the value of a directive that is one.
func (d *directive) number(t time.Time, c *civil) int {
	switch d.verb {
	case 'Y':
		return c.year
	case 'm':
		return c.month
	case 'd', 'e':
		return c.day
	case 'H', 'k':
		return c.hour
	case 'M':
		return c.minute
	case 'S':
		return c.second
	case 'I', 'l':
		return (c.hour+11)%12 + 1
	case 'C':
		return c.year / 100
	case 'y':
		return c.year % 100
	case 'j':
		return t.YearDay()
	case 'u':
		return isoWeekday(t)
	case 'w':
		return int(t.Weekday())
	case 'U': // weeks begin on Sunday, the first one with the first Sunday
		return (t.YearDay() + 6 - int(t.Weekday())) / 7
	case 'W': // on Monday
		return (t.YearDay() + 7 - isoWeekday(t)) / 7
	}
	year, week := t.ISOWeek()
	switch d.verb {
	case 'G':
		return year
	case 'g':
		return year % 100
	}
	return week // V
}

// isoWeekday is 1 for Monday to 7 for Sunday.
func isoWeekday(t time.Time) int { return (int(t.Weekday())+6)%7 + 1 }

// appendNumber appends a number, padded to the width.
func (d *directive) appendNumber(dst []byte, n int) []byte {
	if d.pad == '0' && d.width == 2 {
		return append(dst, byte('0'+n/10), byte('0'+n%10))
	}
	start := len(dst)
	dst = strconv.AppendInt(dst, int64(n), 10)
	if d.pad == '-' {
		return dst
	}
	for len(dst)-start < d.width {
		dst = slices.Insert(dst, start, d.pad)
	}
	return dst
}

// unreadable is why no time can be read by these parts, and what helps.
func unreadable(parts []directive) (why, help string) {
	has := map[byte]bool{}
	for _, d := range parts {
		has[d.verb] = true
	}
	for _, verb := range []byte("CgUW") {
		if has[verb] {
			return fmt.Sprintf("has %%%c, which is for writing only", verb), "the year is %Y, the week of ISO 8601 %G-W%V-%u"
		}
	}
	switch {
	case (has['I'] || has['l']) && !has['p'] && !has['P']:
		return "has an hour of twelve without %p", "hours of 24 are %H"
	case has['G'] != has['V']:
		return "has one of %G and %V without the other", "a week of ISO 8601 is %G-W%V-%u"
	case !has['Y'] && !has['y'] && !has['G'] && !has['s']:
		return "tells no year", ""
	}
	return "", ""
}
