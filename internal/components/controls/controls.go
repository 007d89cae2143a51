// Package controls knows the characters that do more than show: [Is] for one, [In] for names
// that are built from data.
package controls

import (
	"fmt"
	"unicode/utf8"
)

// Is reports whether a terminal, a log or an editor may act upon a character beyond showing it: the controls C0, DEL
// and C1, what changes the direction of writing, and what ends a line.
func Is(r rune) bool {
	return r < ' ' || r >= 0x7f && r < 0xa0 ||
		r == 0x061c || r == 0x200e || r == 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// In returns what is wrong with a name that is built from data, or "". A name with a control character ([Is]) looks like
// another name, or like several lines, in a listing. A byte that is not valid UTF-8 is read as ISO 8859.
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
