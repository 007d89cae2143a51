package call

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// shortest is the length from which on a secret is masked: shorter ones stand in
// any text.
const shortest = 4

// Head is the beginning of what another side said, at most max bytes, safe for
// an error or a log: one line, nothing that a terminal would act upon, *** for
// the secrets.
func Head(said []byte, max int, secrets []string) string {
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
func Tail(said []byte, max int, secrets []string) string {
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

func clean(said []byte, secrets []string) string {
	text := strings.ToValidUTF8(string(said), "")
	for _, s := range secrets {
		if len(s) >= shortest {
			text = strings.ReplaceAll(text, s, "***")
		}
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text))
}
