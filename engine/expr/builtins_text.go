package expr

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

var texts = builtins{
	{"upper(text) text", "The text in upper case.", upstream("upper")},
	{"lower(text) text", "The text in lower case.", upstream("lower")},
	{"trim(text, [text]) text", "The text without white space, or the given characters, at both ends.",
		upstream("trim")},
	{"trimPrefix(text, [text]) text", "The text without a prefix.", upstream("trimPrefix")},
	{"trimSuffix(text, [text]) text", "The text without a suffix.", upstream("trimSuffix")},
	{"hasPrefix(text, text) bool", "Whether the first text begins with the second.", upstream("hasPrefix")},
	{"hasSuffix(text, text) bool", "Whether the first text ends with the second.", upstream("hasSuffix")},
	{"indexOf(text, text) int",
		"The position of the first occurrence of the second text in the first, in characters from 0, or -1.",
		func(f *frame, s *site, args []any) any {
			return characters(args[0].(string), strings.Index(args[0].(string), args[1].(string)))
		}},
	{"lastIndexOf(text, text) int",
		"The position of the last occurrence of the second text in the first, in characters from 0, or -1.",
		func(f *frame, s *site, args []any) any {
			return characters(args[0].(string), strings.LastIndex(args[0].(string), args[1].(string)))
		}},
	{"split(text, text, [int]) list", "The parts between separators; at most this many.", splitter(strings.SplitN)},
	{"splitAfter(text, text, [int]) list", "The parts, each with its separator; at most this many.",
		splitter(strings.SplitAfterN)},
	{"join(list, [text]) text", "The texts of a list, with a separator between them.", join},
	{"replace(text, text, text, [int]) text",
		"The first text with the second replaced by the third; at most this many times.", replace},
	{"repeat(text, int) text", "The text, repeated this many times.", func(f *frame, s *site, args []any) any {
		text, n := args[0].(string), args[1].(int)
		if n < 0 {
			fail(s.offset, "repeat() can't repeat a text %d times", n)
		}
		if len(text) > 0 && n > f.memory/len(text) {
			f.tooMuch(s.offset)
		}
		return strings.Repeat(text, n)
	}},
	{"toBase64(text) text", "The text in base64.", func(f *frame, s *site, args []any) any {
		f.room(s.offset, base64.StdEncoding.EncodedLen(len(args[0].(string))))
		return base64.StdEncoding.EncodeToString([]byte(args[0].(string)))
	}},
	{"fromBase64(text) text", "The text that base64 encodes.", func(f *frame, s *site, args []any) any {
		b, err := base64.StdEncoding.DecodeString(args[0].(string))
		if err != nil {
			fail(s.offset, "fromBase64(): %s is not base64", s.left(args[0]))
		}
		if !utf8.Valid(b) {
			fail(s.offset, "fromBase64(): the decoded bytes are not text")
		}
		return string(b)
	}},
}

// characters turns an offset in bytes into one in characters.
func characters(text string, at int) int {
	if at < 0 {
		return at
	}
	return utf8.RuneCountInString(text[:at])
}

func splitter(split func(text, sep string, n int) []string) func(*frame, *site, []any) any {
	return func(f *frame, s *site, args []any) any {
		n := -1
		if len(args) == 3 {
			n = args[2].(int)
		}
		text, sep := args[0].(string), args[1].(string)
		if n < 0 || n > len(text) {
			// Beside the list, there is the one that package strings makes.
			f.room(s.offset, 2*elementSize*(strings.Count(text, sep)+1))
		}
		return normal(s, split(text, sep, n))
	}
}

func join(f *frame, s *site, args []any) any {
	sep := ""
	if len(args) == 2 {
		sep = args[1].(string)
	}
	list := args[0].([]any)
	size := max(len(list)-1, 0) * len(sep)
	for _, v := range list {
		text, ok := v.(string)
		if !ok {
			failFor(s.offset, "map(list, string(#)) turns its elements into texts",
				"join() needs a list of texts, but one element is %s", s.left(v))
		}
		size += len(text)
	}
	f.room(s.offset, size)
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

func replace(f *frame, s *site, args []any) any {
	text, from, to := args[0].(string), args[1].(string), args[2].(string)
	n := strings.Count(text, from)
	if len(args) == 4 && args[3].(int) >= 0 {
		n = min(n, args[3].(int))
	}
	f.room(s.offset, len(text)+n*max(len(to)-len(from), 0))
	return strings.Replace(text, from, to, n)
}
