package doc

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
	"unsafe"
)

// Eight bytes are checked in one word: a test sets the top bit of every byte that it finds. Borrows may set more
// bits, but only above a true one, so the lowest is always right.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// word returns the eight bytes at i, which must exist: a bounds check would cost more than the load.
func word(data []byte, i int) uint64 {
	return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(data)), i))[:])
}

// first returns the index of the byte with the lowest bit.
func first(found uint64) int { return bits.TrailingZeros64(found) >> 3 }

// notDigit finds bytes that are not digits.
func notDigit(w uint64) uint64 {
	d := w ^ '0'*ones // digits become 0 to 9
	return (d + (0x80-10)*ones | d) & highs
}

// byteAt returns the byte of w with the lowest bit of found.
func byteAt(w, found uint64) byte { return byte(w >> (bits.TrailingZeros64(found) & 56)) }

// special finds bytes that a string can't contain unescaped, which are quotes, backslashes and control characters,
// and bytes beyond ASCII, which need a closer look.
func special(w uint64) uint64 {
	// Flipping bit 1 puts the quote (0x22) directly after the controls (0–0x1f).
	quoteOrControl := (w ^ 0x02*ones) - 0x21*ones
	backslash := (w ^ '\\'*ones) - ones
	return (quoteOrControl | backslash | w) & highs
}

// special8 returns the word at i and its special bytes. Near the end of data, it returns zeros.
func special8(data []byte, i int) (w, found uint64) {
	if i+8 <= len(data) {
		w = word(data, i)
		found = special(w)
	}
	return w, found
}

// plain skips ordinary characters of a string, up to the next special byte.
func plain(data []byte, i int) int {
	for i+16 <= len(data) {
		first8, second8 := special(word(data, i)), special(word(data, i+8))
		if first8|second8 == 0 {
			i += 16
			continue
		}
		if first8 != 0 {
			return i + first(first8)
		}
		return i + 8 + first(second8)
	}
	if i+8 <= len(data) {
		if found := special(word(data, i)); found != 0 {
			return i + first(found)
		}
		i += 8
	}
	if n := len(data) - i; n > 0 && len(data) >= 8 {
		// Of the last word, the bytes before i are shifted out. The zeros that replace them are special, so the
		// search ends there.
		return i + first(special(word(data, len(data)-8)>>(8*(8-n))))
	}
	for i < len(data) && isPlain(data[i]) {
		i++
	}
	return i
}

func isPlain(c byte) bool { return ' ' <= c && c < utf8.RuneSelf && c != '"' && c != '\\' }

// text checks a string from after its opening quote.
func (s *scanner) text(i int) int {
	for {
		if i = plain(s.data, i); i >= len(s.data) {
			return s.fail(i, msgEnd)
		}
		if s.data[i] == '"' {
			return i + 1
		}
		if i = s.unusual(i); i < 0 {
			return i
		}
	}
}

// unusual checks an escape, or a run beyond ASCII.
func (s *scanner) unusual(i int) int {
	data := s.data
	if data[i] < ' ' {
		return s.fail(i, "a control character in a string must be escaped")
	}
	if data[i] == '\\' {
		s.escaped = true
		return s.escape(i + 1)
	}
	if i = beyond(data, i); i < len(data) && data[i] >= utf8.RuneSelf {
		return s.fail(i, "invalid UTF-8")
	}
	return i
}

// beyond skips characters beyond ASCII, up to an ASCII or invalid one.
func beyond(data []byte, i int) int {
	for i < len(data) && data[i] >= utf8.RuneSelf {
		// Most characters have two or three bytes, of which every pair is allowed.
		if c := data[i]; 0xc2 <= c && c < 0xe0 && i+1 < len(data) && data[i+1]&0xc0 == 0x80 {
			i += 2
			continue
		} else if 0xe0 < c && c < 0xf0 && c != 0xed && i+2 < len(data) && data[i+1]&0xc0 == 0x80 &&
			data[i+2]&0xc0 == 0x80 {
			i += 3
			continue
		}
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return i
}

// escape checks an escape from after its backslash.
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
