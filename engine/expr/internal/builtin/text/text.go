// Package text has the functions for texts: cutting, padding, joining, words (words.go), printf and quotes (printf.go), and texts
// for bytes, such as to_hex (encoding.go).
package text

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/expr/internal/lang"
)

// Declare declares the functions of texts.
func Declare() {
	texts.Declare("text", true)
	wording.Declare("text", true)
	printing.Declare("text", true)
	lang.Lookup("printf").CheckArgs = checkPrintf

	encodings.Declare("text", true)
	for name, e := range map[string]encoding{
		"to_hex": inHex, "to_base64": inBase64, "to_base64url": inBase64URL, "to_base32": inBase32,
	} {
		lang.Lookup(name).Shortcuts = e.shortcuts
	}
}

var texts = lang.Builtins{
	{"upper(text) text",
		"The text in upper case.",
		`upper("Ann") → "ANN"`,
		onUTF8(lang.Upstream("upper"))},
	{"lower(text) text",
		"The text in lower case.",
		`lower("Ann") → "ann"`,
		onUTF8(lang.Upstream("lower"))},
	{"trim(text, [text]) text",
		"The text without white space, or the given characters, at both ends.",
		`trim("  a ") → "a"
trim("--a-", "-") → "a"`,
		lang.Upstream("trim")},
	{"trim_prefix(text, [text]) text",
		"The text without a prefix.",
		`trim_prefix("v1.2", "v") → "1.2"`,
		lang.Upstream("trimPrefix")},
	{"trim_suffix(text, [text]) text",
		"The text without a suffix.",
		`trim_suffix("a.json", ".json") → "a"`,
		lang.Upstream("trimSuffix")},
	{"has_prefix(text, text) bool",
		"Whether the first text begins with the second.",
		`has_prefix("order-1", "order") → true`,
		lang.Upstream("hasPrefix")},
	{"has_suffix(text, text) bool",
		"Whether the first text ends with the second.",
		`has_suffix("a.json", ".json") → true`,
		lang.Upstream("hasSuffix")},
	{"index_of(text, text) int",
		"The position of the first occurrence of the second text in the first, in characters from 0, or -1.",
		`index_of("a-b-c", "-") → 1`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			return characters(args[0].(string), strings.Index(args[0].(string), args[1].(string)))
		}},
	{"last_index_of(text, text) int",
		"The position of the last occurrence of the second text in the first, in characters from 0, or -1.",
		`last_index_of("a-b-c", "-") → 3`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			return characters(args[0].(string), strings.LastIndex(args[0].(string), args[1].(string)))
		}},
	{"split(text, text, [int]) list",
		"The parts between separators; at most this many.",
		`split("a,b,c", ",") → ["a", "b", "c"]
split("a,b,c", ",", 2) → ["a", "b,c"]`,
		splitter(strings.SplitN)},
	{"split_after(text, text, [int]) list",
		"The parts, each with its separator; at most this many.",
		`split_after("a,b", ",") → ["a,", "b"]`,
		splitter(strings.SplitAfterN)},
	{"join(list, [text]) text",
		"The texts of a list, with a separator between them.",
		`join(["a", "b"], "-") → "a-b"`,
		join},
	{"replace(text, text, text, [int]) text",
		"The first text with the second replaced by the third; at most this many times.",
		`replace("a-b-c", "-", "+") → "a+b+c"`,
		replace},
	{"repeat(text, int) text",
		"The text, repeated this many times.",
		`repeat("ab", 2) → "abab"`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			text, n := args[0].(string), args[1].(int)
			if n < 0 {
				s.Fail("repeat() can't repeat a text %d times", n)
			}
			if len(text) > 0 && n > f.MemoryLeft()/len(text) {
				f.FailMemory(s.Offset)
			}
			return strings.Repeat(text, n)
		}},
	{"to_base64(text|bytes) text",
		"The text or bytes in base64.",
		`to_base64("flow") → "Zmxvdw=="`,
		inBase64.text},
	{"from_base64(text) text|bytes",
		"What base64 encodes: text, or bytes if it is not text.",
		`from_base64("Zmxvdw==") → "flow"`,
		decoded("base64", base64.StdEncoding.DecodeString)},
}

// characters turns an offset in bytes into one in characters.
func characters(text string, at int) int {
	if at < 0 {
		return at
	}
	return utf8.RuneCountInString(text[:at])
}

func splitter(split func(text, sep string, n int) []string) func(*lang.Frame, *lang.Site, []any) any {
	return func(f *lang.Frame, s *lang.Site, args []any) any {
		n := -1
		if len(args) == 3 {
			n = args[2].(int)
		}
		text, sep := args[0].(string), args[1].(string)
		if n < 0 || n > len(text) {
			// Package strings makes a list of its own beside ours.
			f.CheckRoom(s.Offset, 2*lang.ElementSize*(strings.Count(text, sep)+1))
		}
		return lang.Normal(s, split(text, sep, n))
	}
}

func join(f *lang.Frame, s *lang.Site, args []any) any {
	sep := ""
	if len(args) == 2 {
		sep = args[1].(string)
	}
	list := args[0].([]any)
	size := max(len(list)-1, 0) * len(sep)
	for _, v := range list {
		text, ok := v.(string)
		if !ok {
			s.FailWith("map(list, string(#)) turns its elements into texts",
				"join() needs a list of texts, but one element is %s", s.Show(v))
		}
		size += len(text)
	}
	f.CheckRoom(s.Offset, size)
	var b strings.Builder
	b.Grow(size)
	for i, v := range list {
		if i > 0 {
			b.WriteString(sep)
		}
		b.WriteString(v.(string))
	}
	return b.String()
}

func replace(f *lang.Frame, s *lang.Site, args []any) any {
	text, from, to := args[0].(string), args[1].(string), args[2].(string)
	n := strings.Count(text, from)
	if len(args) == 4 && args[3].(int) >= 0 {
		n = min(n, args[3].(int))
	}
	f.CheckRoom(s.Offset, len(text)+n*max(len(to)-len(from), 0))
	return strings.Replace(text, from, to, n)
}

// onUTF8 is a function that changes the characters of a text. It fails for a text that is not UTF-8.
func onUTF8(of func(f *lang.Frame, s *lang.Site, args []any) any) func(f *lang.Frame, s *lang.Site, args []any) any {
	return func(f *lang.Frame, s *lang.Site, args []any) any {
		if !utf8.ValidString(args[0].(string)) {
			s.FailWith("to_base64(x) and to_hex(x) give text of any bytes", "%s() needs text in UTF-8", s.Name)
		}
		return of(f, s, args)
	}
}
