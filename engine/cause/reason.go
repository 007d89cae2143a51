package cause

import (
	"strings"
	"unicode"
)

// maxReason is how much of a text [Reason] and [Template] look at, in bytes.
const maxReason = 4 << 10

// Reason identifies the reason that the text of an error gives. Texts that differ only in quoted parts, or in words with
// digits such as numbers, times, addresses and ids, have the same reason. It does not allocate.
func Reason(text string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	h := uint64(offset)
	add := func(s string) {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * prime
		}
	}
	text = text[:min(len(text), maxReason)]
	for i := 0; i < len(text); {
		end, kind := nextPart(text, i)
		switch kind {
		case quotedPart:
			add(`""`)
		case variablePart:
			add("0")
		default:
			add(text[i:end])
		}
		i = end
	}
	return h
}

// Template returns the text of an error with … in place of the parts that [Reason] ignores. Texts with the same reason
// have the same template.
func Template(text string) string {
	var b strings.Builder
	text = text[:min(len(text), maxReason)]
	for i := 0; i < len(text); {
		end, kind := nextPart(text, i)
		switch kind {
		case quotedPart:
			b.WriteString(`"…"`)
		case variablePart:
			b.WriteString("…")
		default:
			b.WriteString(text[i:end])
		}
		i = end
	}
	return b.String()
}

// part is a kind of part of a text.
type part int

const (
	fixedPart part = iota
	quotedPart
	variablePart // a word with digits
)

// nextPart returns the end and the kind of the part that begins at start.
func nextPart(text string, start int) (end int, kind part) {
	switch c := text[start]; {
	case c == '"' || c == '\'' && (start == 0 || !wordByte(text[start-1])): // not an apostrophe
		return quoteEnd(text, start), quotedPart
	case !wordByte(c):
		return start + 1, fixedPart
	}
	for end = start; end < len(text) && wordByte(text[end]); end++ {
		if '0' <= text[end] && text[end] <= '9' {
			kind = variablePart
		}
	}
	return end, kind
}

// quoteEnd returns the offset behind the quoted text that begins at start. A quote that is not closed is a character.
func quoteEnd(text string, start int) int {
	for i := start + 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case text[start]:
			return i + 1
		case '\n':
			return start + 1
		}
	}
	return start + 1
}

// wordByte says whether c is part of a word: dates, versions, addresses and most ids are one.
func wordByte(c byte) bool {
	return c == '-' || c == '_' || c == '.' || c >= 0x80 || unicode.IsLetter(rune(c)) || '0' <= c && c <= '9'
}
