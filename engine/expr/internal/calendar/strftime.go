package calendar

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/itchyny/timefmt-go"
)

// directive is a part of a layout of strftime: a value of the time, or text.
type directive struct {
	verb  byte
	pad   byte // '0', ' ' or, for none, '-'
	width int  // in digits
	text  string
}

// textVerb is the verb of a directive that is text.
const textVerb = 0

// numberVerbs are the verbs of numbers, with their padding and width.
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

// composed are the verbs that stand for several others.
var composed = [256]string{
	'F': "%Y-%m-%d", 'T': "%H:%M:%S", 'R': "%H:%M", 'D': "%m/%d/%y", 'x': "%m/%d/%y", 'X': "%H:%M:%S", 'r': "%I:%M:%S %p",
	'c': "%a %b %e %H:%M:%S %Y", '+': "%a %b %e %H:%M:%S %Z %Y", 'v': "%e-%b-%Y", 'n': "\n", 't': "\t", '%': "%",
}

// appendDirectives appends the parts of text. wrong begins with what is not a directive; it is "" if all are.
func appendDirectives(parts []directive, text string) (all []directive, wrong string) {
	for text != "" {
		at := strings.IndexByte(text, '%')
		if at < 0 {
			at = len(text)
		}
		if at > 0 {
			parts, text = append(parts, directive{text: text[:at]}), text[at:]
			continue
		}
		d, rest := cutDirective(text)
		switch {
		case d.verb == '%' || d.verb == 'n' || d.verb == 't':
			parts = append(parts, directive{text: composed[d.verb]})
		case composed[d.verb] != "":
			parts, _ = appendDirectives(parts, composed[d.verb])
		case d.verb == textVerb:
			return parts, text
		default:
			parts = append(parts, d)
		}
		text = rest
	}
	return parts, ""
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

// appendStrftime writes a time.
func appendStrftime(dst []byte, pieces []timePiece, t time.Time) []byte {
	for i := range pieces {
		p := &pieces[i]
		dst = timefmt.AppendFormat(dst, t, p.layout)
		for unit, n := int(1e8), t.Nanosecond(); unit >= p.least; unit, n = unit/10, n%unit {
			dst = append(dst, byte('0'+n/unit))
		}
	}
	return dst
}

// timePiece is a layout of [timefmt.AppendFormat], and the fraction of a second that follows it. The library itself has no
// fraction but %f.
type timePiece struct {
	layout string
	least  int // the last digit of the fraction, in nanoseconds; more than all digits: none follows
}

const noFraction = 1e9

// pieces are the parts of a layout in the form that the library takes.
func pieces(parts []directive) []timePiece {
	all := []timePiece{{least: noFraction}}
	for _, d := range parts {
		last := &all[len(all)-1]
		switch d.verb {
		case textVerb:
			last.layout += strings.ReplaceAll(d.text, "%", "%%")
		case 'f', 'L', 'N':
			for last.least = 1e8; d.width > 1; d.width-- {
				last.least /= 10
			}
			all = append(all, timePiece{least: noFraction})
		case 'z':
			last.layout += "%" + strings.Repeat(":", d.width) + "z"
		default:
			last.layout += "%" + d.flag() + string(rune(d.verb))
		}
	}
	return all
}

// flag is the library's flag for the padding of a directive.
func (d *directive) flag() string {
	switch {
	case d.pad == numberVerbs[d.verb].pad:
		return ""
	case d.pad == ' ':
		return "_"
	}
	return string(rune(d.pad))
}

// unreadable is why no time can be read by these parts, or "", and what helps.
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
		return noYear("%Y")
	}
	return "", ""
}
