package text

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

var printing = lang.Builtins{
	{"printf(format, [value...]) text",
		"The format with its verbs replaced by the values, one each: %s or %v (any value, as string() gives it), %q" +
			" (the same, as quote() gives it), %d %b %o %c (whole numbers), %x %X (whole numbers, texts, bytes), %f %e" +
			" %g (numbers), %t (true or false), %% (a percent sign). The letter may be preceded by flags (- + 0 # and" +
			" a space), a width and, after a dot, a precision, of at most 1000 each; they mean what they do in C.",
		`printf("%05d %s: %.2f%%", 42, "disk", 99.5) → "00042 disk: 99.50%"
printf("%-6s|%6s|", "ab", "cd") → "ab    |    cd|"
printf("%d items", "x") → error: printf(): %d needs a whole number, not text "x"`,
		printf},
	{"quote(text) text",
		"The text between double quotes, with quotes, backslashes and control characters inside escaped as in JSON.",
		`quote("say \"hi\"\n") → "\"say \\\"hi\\\"\\u000a\""`,
		func(f *lang.Frame, s *lang.Site, args []any) any { return quoteText(f, s, args[0].(string)) }},
	{"unquote(text) text|bytes",
		`The text that is between quotes, as in JSON or as in an expression: "…", '…', or between backticks.`,
		`unquote("\"a\\tb\\u00e9\"") → "a\tbé"
unquote("'it\\'s'") → "it's"
unquote("a") → error: unquote(): text "a" is not a text between quotes`,
		unquote},
}

var _ = lang.Role("format", value.Text, func(s *lang.Site, v any) any { return parseFormat(s, v.(string)) })

// checkPrintf checks, at load, the values of a call whose format is known.
func checkPrintf(s *lang.Site, args []lang.Node) {
	l, ok := s.Prepared(0).(*printFormat)
	if !ok {
		return
	}
	l.count(s, len(args)-1)
	for i, v := range l.verbs {
		if a := args[i+1]; a.Kinds&v.takes() == 0 {
			v.mismatch(&lang.Site{Offset: a.Offset, Name: s.Name}, s.ShowNode(0, a))
		}
	}
}

// printFormat is a parsed format.
type printFormat struct {
	text  string // for package fmt
	verbs []verb
	room  int // the sum of all widths and precisions
}

// verb is the letter of a verb.
type verb byte

// maxWidth is the largest width or precision. Each takes as many characters of memory.
const maxWidth = 1000

// takes is the kinds of values that a verb formats.
func (v verb) takes() value.Kinds {
	switch v {
	case 's', 'v', 'q':
		return value.Any &^ value.Nil
	case 'x', 'X':
		return value.Number | value.Text | value.Bytes
	case 't':
		return value.Bool
	case 'c':
		return value.Int | value.Float
	}
	return value.Number
}

// mismatch ends the evaluation or compilation because the verb does not format such a value.
func (v verb) mismatch(s *lang.Site, given string) {
	needed := "a whole number"
	switch v {
	case 't':
		needed = "true or false"
	case 'x', 'X':
		needed = "a whole number, a text or bytes"
	case 'f', 'F', 'e', 'E', 'g', 'G':
		needed = "a number"
	case 's', 'v', 'q':
		needed = "a value"
	}
	s.Fail("%s(): %%%c needs %s, not %s", s.Name, v, needed, given)
}

// count checks that there is a value for each verb.
func (l *printFormat) count(s *lang.Site, values int) {
	if len(l.verbs) != values {
		s.Fail("%s(): the format has %s for %s", s.Name, counted(len(l.verbs), "verb"),
			counted(values, "value"))
	}
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// parseFormat reads a format.
func parseFormat(s *lang.Site, text string) *printFormat {
	l := &printFormat{}
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "%")
		b.WriteString(before)
		if !ok {
			l.text = b.String()
			return l
		}
		if text, ok = strings.CutPrefix(rest, "%"); ok {
			b.WriteString("%%")
			continue
		}
		flags := len(rest) - len(strings.TrimLeft(rest, "+-# 0"))
		width := l.number(s, rest[flags:])
		end := flags + width
		if strings.HasPrefix(rest[end:], ".") {
			end += 1 + l.number(s, rest[end+1:])
		}
		b.WriteString("%" + rest[:end])
		b.WriteByte(l.verb(s, rest[end:]))
		text = rest[end+1:]
	}
}

// number is the length of the width or precision with which text begins.
func (l *printFormat) number(s *lang.Site, text string) int {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	if digits == 0 {
		return 0
	}
	n, err := strconv.Atoi(text[:digits])
	if err != nil || n > maxWidth {
		s.Fail("%s(): a width or precision in the format is above %d", s.Name, maxWidth)
	}
	l.room += n
	return digits
}

// verb adds the verb with which text begins, and returns the one to use with package fmt.
func (l *printFormat) verb(s *lang.Site, text string) byte {
	const remedy = "write %s %d %x %f %e %g %q %t %c %b %o, or %% for a percent sign"
	if text == "" {
		s.FailWith(remedy, "%s(): the format ends within a verb", s.Name)
	}
	c := text[0]
	switch {
	case c == 'i' || c == 'u':
		s.FailWith("write %d", "%s(): the format has the verb %%%c", s.Name, c)
	case c == '*' || c == '[':
		s.FailWith("write widths as numbers, and the values in the order of their verbs",
			"%s(): the format has a %c behind a %%", s.Name, c)
	case strings.IndexByte("svqdbocxXfFeEgGt", c) < 0:
		shown := strconv.QuoteRune([]rune(text)[0])
		if s.Secret[0] {
			shown = "something else"
		}
		s.FailWith(remedy, "%s(): the format has %s behind a %%, which is not a verb", s.Name, shown)
	}
	l.verbs = append(l.verbs, verb(c))
	if c == 'q' || c == 'v' {
		return 's' // the value has become text
	}
	return c
}

func printf(f *lang.Frame, s *lang.Site, args []any) any {
	l, ok := s.Prepared(0).(*printFormat)
	if !ok {
		l = parseFormat(s, args[0].(string))
		f.Alloc(s.Offset, len(l.text)+len(l.verbs))
	}
	values := args[1:]
	l.count(s, len(values))
	f.Step(s.Offset, 2*len(values))
	size := len(l.text) + l.room
	for i, v := range l.verbs {
		values[i] = v.value(f, s, values[i])
		switch v := values[i].(type) {
		case string:
			size += 5 * len(v) // `%# x`
		case []byte:
			size += 5 * len(v)
		case *big.Int:
			size += 8 + v.BitLen()
		default:
			size += 330 // the largest float has 309 digits
		}
		f.CheckRoom(s.Offset, size)
	}
	return fmt.Sprintf(l.text, values...)
}

// maxDigits is how long an integer may be. The time to format one is not linear in its digits.
const maxDigits = 2000

// value is the value that package fmt formats for a verb.
func (v verb) value(f *lang.Frame, s *lang.Site, x any) any {
	if value.KindOf(x)&v.takes() == 0 {
		v.mismatch(s, s.Show(x))
	}
	switch v {
	case 's', 'v', 'q':
		text, ok := x.(string)
		if !ok {
			f.ChargeText(s.Offset, x)
			text = string(lang.AppendText(s, nil, x))
		}
		if v == 'q' {
			return quoteText(f, s, text)
		}
		if ok {
			return x
		}
		return text
	case 'f', 'F', 'e', 'E', 'g', 'G':
		if _, ok := x.(float64); ok {
			return x
		}
		return lang.ToFloat(f, s, []any{x})
	case 't':
		return x
	}
	switch n := x.(type) {
	case float64:
		if n != math.Trunc(n) || math.Abs(n) >= 1<<62 {
			v.mismatch(s, s.Show(x))
		}
		return int(n)
	case doc.Number:
		if len(n) > maxDigits {
			s.Fail("%s(): a number has more than %d digits", s.Name, maxDigits)
		}
		if i, ok := new(big.Int).SetString(string(n), 10); ok {
			return i
		}
		v.mismatch(s, s.Show(x))
	}
	return x
}

// quoteText is a text between quotes.
func quoteText(f *lang.Frame, s *lang.Site, text string) string {
	size := len(text) + 2
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ':
			size += len(`\u000a`) - 1
		case c == '"' || c == '\\':
			size++
		}
	}
	f.CheckRoom(s.Offset, size)
	return string(codetext.AppendQuoted(make([]byte, 0, size), text))
}

func unquote(f *lang.Frame, s *lang.Site, args []any) any {
	text := args[0].(string)
	n := len(text)
	if n < 2 || text[0] != text[n-1] || strings.IndexByte("\"'`", text[0]) < 0 {
		s.Fail("%s(): %s is not a text between quotes", s.Name, s.Show(text))
	}
	f.CheckRoom(s.Offset, 2*n)
	quote, inner := text[0], text[1:n-1]
	if quote == '`' {
		return inner
	}
	if quote == '"' {
		if v, err := doc.Decode([]byte(text)); err == nil {
			return v
		}
	}
	out := make([]byte, 0, n)
	for inner != "" {
		c, multibyte, rest, err := strconv.UnquoteChar(inner, quote)
		if err != nil {
			s.Fail("%s(): %s has a quote or a backslash inside that means nothing", s.Name, s.Show(text))
		}
		inner = rest
		if multibyte {
			out = append(out, string(c)...)
		} else {
			out = append(out, byte(c))
		}
	}
	return value.TextOrBytes(out)
}
