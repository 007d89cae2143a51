package guard

import "unicode"

// maxReason is how much of a text [Reason] looks at, in bytes.
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
		start := i
		switch c := text[i]; {
		case c == '"' || c == '\'' && (i == 0 || !wordByte(text[i-1])): // not an apostrophe
			i = quoteEnd(text, i)
			add(`""`)
		case wordByte(c):
			varies := false
			for ; i < len(text) && wordByte(text[i]); i++ {
				varies = varies || '0' <= text[i] && text[i] <= '9'
			}
			if varies {
				add("0")
			} else {
				add(text[start:i])
			}
		default:
			i++
			add(text[start:i])
		}
	}
	return h
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
