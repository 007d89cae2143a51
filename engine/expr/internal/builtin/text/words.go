package text

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

var wording = lang.Builtins{
	{"pad_left(text, int, [text]) text",
		"The text, padded on the left to this many characters with spaces, or with the last text, repeated.",
		`pad_left("42", 5) → "   42"
pad_left("42", 5, "0") → "00042"`,
		func(f *lang.Frame, s *lang.Site, args []any) any { return padding(f, s, args) + args[0].(string) }},
	{"pad_right(text, int, [text]) text",
		"The text, padded on the right to this many characters with spaces, or with the last text, repeated.",
		`pad_right("ab", 4) → "ab  "
pad_right("ab", 5, ".-") → "ab.-."`,
		func(f *lang.Frame, s *lang.Site, args []any) any { return args[0].(string) + padding(f, s, args) }},
	{"substring(text, int, [int]) text",
		"The characters from the first position up to, but not including, the second, or to the end: text[1:4]." +
			" A negative position counts from the end.",
		`substring("héllo", 1, 4) → "éll"
substring("héllo", -2) → "lo"`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			var to any
			if len(args) == 3 {
				to = args[2]
			}
			return lang.Slice(s, args[0], args[1], to)
		}},
	{"truncate(text, int, [text]) text",
		"The text, cut to at most this many characters. If it is cut, it ends with the last text, which is included in the count.",
		`truncate("a long story", 6) → "a long"
truncate("a long story", 7, "…") → "a long…"`,
		truncate},
	{"capitalize(text) text",
		"The text with its first character in upper case.",
		`capitalize("ann lee") → "Ann lee"`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			text := args[0].(string)
			first, size := utf8.DecodeRuneInString(text)
			if upper := unicode.ToTitle(first); size > 0 && upper != first {
				f.CheckRoom(s.Offset, len(text)+utf8.UTFMax)
				return string(upper) + text[size:]
			}
			return text
		}},
	{"title(text) text",
		"The text with the first character of each word in upper case, the others as they are.",
		`title("ann's new IP") → "Ann's New IP"
title(lower("ANN LEE")) → "Ann Lee"`,
		onUTF8(title)},
	{"unaccent(text) text",
		"The text without accents: the letters of the Latin, Greek and Cyrillic scripts lose their marks, and æ, ß, ø" +
			" and the like become ae, ss, o. Marks of other scripts stay.",
		`unaccent("Ærøskøbing, déjà vu") → "AEroskobing, deja vu"`,
		onUTF8(func(f *lang.Frame, s *lang.Site, args []any) any { return unaccent(f, s, args[0].(string)) })},
	{"slug(text) text",
		"The text as a part of a URL or a file name: in lower case, without accents and apostrophes, with a hyphen" +
			" for whatever else is neither a letter nor a digit.",
		`slug("Crème brûlée & Ann's tea!") → "creme-brulee-anns-tea"`,
		onUTF8(slug)},
	{"lines(text) list",
		"The lines of the text, without their endings, which are \\n or \\r\\n.",
		`lines("a\r\nb\n") → ["a", "b"]`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			return collect(f, s, strings.Lines(args[0].(string)), func(line string) string {
				return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
			})
		}},
	{"words(text) list",
		"The parts of the text between white space.",
		`words(" a  new\tday ") → ["a", "new", "day"]`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			return collect(f, s, strings.FieldsSeq(args[0].(string)), func(word string) string { return word })
		}},
}

// padding is the characters that a text lacks to have as many as the second argument says.
func padding(f *lang.Frame, s *lang.Site, args []any) string {
	with := " "
	if len(args) == 3 {
		with = args[2].(string)
	}
	if with == "" {
		s.Fail("%s() can't pad with a text that is empty", s.Name)
	}
	text := args[0].(string)
	missing := args[1].(int) - utf8.RuneCountInString(text)
	if missing <= 0 {
		return ""
	}
	whole := utf8.RuneCountInString(with)
	times, rest := missing/whole, value.PrefixLen(with, missing%whole)
	if times > (f.MemoryLeft()-len(text)-rest)/len(with) {
		f.FailMemory(s.Offset)
	}
	f.Alloc(s.Offset, times*len(with)+rest)
	return strings.Repeat(with, times) + with[:rest]
}

func truncate(_ *lang.Frame, s *lang.Site, args []any) any {
	text, most, ending := args[0].(string), args[1].(int), ""
	if len(args) == 3 {
		ending = args[2].(string)
	}
	if most < 0 {
		s.Fail("%s() can't make a text of fewer than 0 characters, as %s asks for", s.Name, s.Show(args[1]))
	}
	room := most - utf8.RuneCountInString(ending)
	if room < 0 {
		s.Fail("%s() can't make a text of at most %d characters that ends with %d", s.Name, most, most-room)
	}
	if value.PrefixLen(text, most) == len(text) {
		return text
	}
	return text[:value.PrefixLen(text, room)] + ending
}

func title(f *lang.Frame, s *lang.Site, args []any) any {
	text := args[0].(string)
	f.CheckRoom(s.Offset, 2*len(text)) // a letter may take a byte more in upper case
	within := false
	return strings.Map(func(c rune) rune {
		first := !within
		within = unicode.In(c, unicode.L, unicode.M, unicode.N) || within && (c == '\'' || c == '’')
		if first && within {
			return unicode.ToTitle(c)
		}
		return c
	}, text)
}

// plainLetters replace Latin letters that Unicode does not take apart into a letter and a mark.
var plainLetters = map[rune]string{
	'ß': "ss", 'ẞ': "SS", 'æ': "ae", 'Æ': "AE", 'œ': "oe", 'Œ': "OE", 'ø': "o", 'Ø': "O", 'đ': "d", 'Đ': "D",
	'ð': "d", 'Ð': "D", 'þ': "th", 'Þ': "TH", 'ł': "l", 'Ł': "L", 'ħ': "h", 'Ħ': "H", 'ŧ': "t", 'Ŧ': "T", 'ı': "i",
}

func unaccent(f *lang.Frame, s *lang.Site, text string) string {
	if !strings.ContainsFunc(text, func(c rune) bool { return c >= utf8.RuneSelf }) {
		return text
	}
	f.Step(s.Offset, len(text)>>3)
	f.CheckRoom(s.Offset, 8*len(text)) // taken apart, a character has up to three times as many bytes
	apart := norm.NFD.String(text)
	var b strings.Builder
	b.Grow(len(apart))
	for _, c := range apart {
		plain, ok := plainLetters[c]
		switch {
		case ok:
			b.WriteString(plain)
		case c < '\u0300' || c > '\u036f':
			b.WriteRune(c)
		}
	}
	return norm.NFC.String(b.String())
}

func slug(f *lang.Frame, s *lang.Site, args []any) any {
	text := args[0].(string)
	f.CheckRoom(s.Offset, 2*len(text))
	text = unaccent(f, s, strings.ToLower(text))
	b := make([]byte, 0, len(text))
	apart := false // something else was between the last letter and the next
	for _, c := range text {
		switch {
		case unicode.In(c, unicode.L, unicode.M, unicode.N):
			if apart && len(b) > 0 {
				b = append(b, '-')
			}
			b, apart = utf8.AppendRune(b, c), false
		case c != '\'' && c != '’':
			apart = true
		}
	}
	return string(b)
}

// collect is a list of the results of a function for the parts of a text. It is charged for as it grows.
func collect(f *lang.Frame, s *lang.Site, parts iter.Seq[string], of func(part string) string) any {
	list := []any{}
	for part := range parts {
		if len(list) == cap(list) {
			f.CheckRoom(s.Offset, 3*len(list)*lang.ElementSize)
		}
		list = append(list, of(part))
	}
	return list
}
