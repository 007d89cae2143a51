package controls

import (
	"strings"
	"testing"
)

func TestIn(t *testing.T) {
	for _, fine := range []string{"", "a b.txt", "é/日本語/🙂", "a\u00a0b", "a\u200db", "latin1: \xe9\xff"} {
		if got := In(fine); got != "" {
			t.Errorf("%q %s", fine, got)
		}
	}
	for _, r := range "\x00\t\n\r\x1b\x7f\u0080\u009b\u009f\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069" {
		if got := In("a" + string(r) + "b"); !strings.Contains(got, "control character U+") {
			t.Errorf("%q: %q", r, got)
		}
	}
	if In("a\x9b31m") == "" { // CSI in one byte, for some terminals
		t.Error("a C1 byte is taken")
	}
}
