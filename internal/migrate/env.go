package migrate

import (
	"strings"
	"unicode/utf8"

	"github.com/flowd-io/flowd/internal/migrate/bloblang"
)

// Placeholders of the environment are replaced before YAML is parsed, so they may be in places where YAML allows no
// such text. They are parsed as runs of private characters of the same length, so that places stay right: the first
// character begins a run, the others encode the placeholder's number.
const (
	hiddenFirst = '\U00100000'
	hiddenDigit = '\U00100001'
	hiddenBase  = 1000
)

var (
	placeholder = pattern(`\$\{[0-9A-Za-z_.]+(:((\$\{[^}]+\})|[^}])*)?\}`)
	escaped     = pattern(`\$\{(\{[0-9A-Za-z_.]+(:((\$\{[^}]+\})|[^}])*)?\})\}`)
	hiddenRun   = pattern(`\x{100000}[\x{100001}-\x{1003E8}]*`)
)

// hidden are the placeholders of a file, by number.
type hidden []string

// hide replaces placeholders by runs of private characters.
func (h *hidden) hide(text string) string {
	note := func(shown string, length int) string {
		*h = append(*h, shown)
		run := []rune{hiddenFirst}
		for n := len(*h) - 1; len(run) < length; n /= hiddenBase {
			run = append(run, hiddenDigit+rune(n%hiddenBase))
		}
		return string(run)
	}
	text = escaped().ReplaceAllStringFunc(text, func(s string) string {
		return note("$$"+s[1:2]+s[3:len(s)-1], utf8.RuneCountInString(s))
	})
	return placeholder().ReplaceAllStringFunc(text, func(s string) string {
		name, otherwise, given := strings.Cut(s[2:len(s)-1], ":")
		shown := "${" + name
		if given {
			shown += ":-" + otherwise
		}
		return note(shown+"}", utf8.RuneCountInString(s))
	})
}

// placeholder returns the placeholder of a run.
func (h hidden) placeholder(run string) string {
	n, unit := 0, 1
	for _, r := range []rune(run)[1:] {
		n += int(r-hiddenDigit) * unit
		if unit *= hiddenBase; n < 0 || unit > 1<<40 {
			break
		}
	}
	if n < 0 || n >= len(h) {
		return run
	}
	return h[n]
}

// show writes the placeholders of a text in flowd's form, and escapes text that looks like one.
func (h hidden) show(text string) string {
	text = strings.ReplaceAll(text, "${", "$${")
	return hiddenRun().ReplaceAllStringFunc(strings.ReplaceAll(text, string(bloblang.Dollar), "$"), h.placeholder)
}

// original returns a text as written in the file.
func (h hidden) original(text string) string {
	return hiddenRun().ReplaceAllStringFunc(text, func(run string) string {
		shown := h.placeholder(run)
		if rest, ok := strings.CutPrefix(shown, "$${"); ok {
			return "${{" + rest + "}"
		}
		name, otherwise, given := strings.Cut(shown, ":-")
		if given {
			return name + ":" + otherwise
		}
		return name
	})
}

// has reports whether a text contains a placeholder.
func (h hidden) has(text string) bool { return strings.ContainsRune(text, hiddenFirst) }
