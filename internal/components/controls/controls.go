// Package controls finds characters that a terminal acts upon: [Is] for one character, [In] for names that contain
// data.
package controls

import (
	"fmt"
	"unicode/utf8"
)

// Is reports whether a terminal, log or editor may act upon a character: C0 and C1 controls, DEL, and characters that
// change the writing direction or end a line.
func Is(r rune) bool {
	return r < ' ' || r >= 0x7f && r < 0xa0 ||
		r == 0x061c || r == 0x200e || r == 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// In returns what is wrong with a name that contains data, or "". A name with a control character ([Is]) could look
// like another name, or like several lines. Bytes that are not valid UTF-8 are read as ISO 8859.
func In(text string) string {
	for i, r := range text {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(text[i:]); n == 1 {
				r = rune(text[i])
			}
		}
		if Is(r) {
			return fmt.Sprintf("contains the control character U+%04X", r)
		}
	}
	return ""
}
