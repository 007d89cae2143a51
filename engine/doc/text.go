package doc

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Eight bytes are looked at in one word: a test leaves the top bit of every
// byte that it finds. Borrows can leave more bits, but only above a true one,
// so the lowest is always right.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// first is the number of the byte of the lowest bit.
func first(found uint64) int { return bits.TrailingZeros64(found) >> 3 }

// special finds what a string can't hold as it is: quotes, backslashes, control
// characters; and what must be looked at: bytes beyond ASCII.
func special(w uint64) uint64 {
	// Flipping bit 1 puts the quote (0x22) right behind the controls (0–0x1f).
	quoteOrControl := (w ^ 0x02*ones) - 0x21*ones
	backslash := (w ^ '\\'*ones) - ones
	return (quoteOrControl | backslash | w) & highs
}

// text checks a string from behind its opening quote.
func (s *scanner) text(i int) int {
	data := s.data
	for i+8 <= len(data) {
		found := special(word(data[i:]))
		if found == 0 {
			i += 8
			continue
		}
		i += first(found)
		if data[i] == '"' {
			return i + 1
		}
		if i = s.unusual(i); i < 0 {
			return i
		}
	}
	for i < len(data) {
		switch c := data[i]; {
		case c == '"':
			return i + 1
		case c == '\\' || c < ' ' || c >= utf8.RuneSelf:
			if i = s.unusual(i); i < 0 {
				return i
			}
		default:
			i++
		}
	}
	return s.fail(i, msgEnd)
}

// unusual checks an escape or a run beyond ASCII.
func (s *scanner) unusual(i int) int {
	data := s.data
	if data[i] < ' ' {
		return s.fail(i, "a control character in a string must be escaped")
	}
	if data[i] == '\\' {
		s.escaped = true
		return s.escape(i + 1)
	}
	for i < len(data) && data[i] >= utf8.RuneSelf {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return s.fail(i, "invalid UTF-8")
		}
		i += size
	}
	return i
}

// escape checks an escape from behind its backslash.
func (s *scanner) escape(i int) int {
	data := s.data
	if i >= len(data) {
		return s.fail(i, msgEnd)
	}
	switch data[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		for end := i + 5; i+1 < end; i++ {
			if i+1 >= len(data) {
				return s.fail(i+1, msgEnd)
			}
			if unhex(data[i+1]) < 0 {
				return s.fail(i+1, `\u needs four hexadecimal digits`)
			}
		}
		return i + 1
	}
	return s.fail(i, "unknown escape in a string")
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
