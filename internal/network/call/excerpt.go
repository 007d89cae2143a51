package call

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/flowd-io/flowd/schema"
)

// Head returns the beginning of what the other side said, at most max bytes, safe for errors and logs: one line,
// without control characters, and with secrets masked.
func Head(said []byte, max int, secrets *schema.Secrets) string {
	text := clean(said, secrets)
	if len(text) <= max {
		return text
	}
	for max > 0 && !utf8.RuneStart(text[max]) {
		max--
	}
	return text[:max] + "…"
}

// Tail is Head for the end.
func Tail(said []byte, max int, secrets *schema.Secrets) string {
	text := clean(said, secrets)
	if len(text) <= max {
		return text
	}
	from := len(text) - max
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	return "…" + text[from:]
}

func clean(said []byte, secrets *schema.Secrets) string {
	text := secrets.Mask(strings.ToValidUTF8(string(said), ""))
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text))
}
