package cli

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"sync"
	"unicode/utf8"

	"github.com/flowd-io/flowd/internal/components/controls"
	"golang.org/x/term"
)

// screen is text for people. Everything that commands write to stdout and stderr passes through one, except requested
// messages. It shows control characters as \u001b, which is valid in JSON, too. Only [ink], which data can't contain,
// controls the terminal.
type screen struct {
	out io.Writer

	mu   sync.Mutex // guards the fields below, and keeps writes whole
	rest []byte     // an incomplete character that the next write completes
	text []byte
}

// newScreen returns w as a screen.
func newScreen(w io.Writer) *screen {
	if s, ok := w.(*screen); ok {
		return s
	}
	return &screen{out: w}
}

// ink begins the control sequences that flowd itself sends: it stands for ESC and bracket, or precedes a carriage
// return.
var ink = "\x00" + rand.Text()

// Write writes p up to its last whole character. It reports p's length, even if it wrote more or less.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := append(s.rest, p...)
	whole := len(text)
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				whole -= n
			}
			break
		}
	}
	s.text = shownBytes(s.text[:0], text[:whole])
	s.rest = bytes.Clone(text[whole:])
	if _, err := s.out.Write(s.text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes an incomplete last character.
func (s *screen) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.out.Write(shownBytes(nil, s.rest)) // nobody is left to report an error to
	s.rest = nil
}

// shownBytes appends text in the form that a screen shows.
func shownBytes(to, text []byte) []byte {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == 0 && bytes.HasPrefix(text, []byte(ink)):
			if n = len(ink); len(text) > n && text[n] == '\r' {
				to, n = append(to, '\r'), n+1
			} else {
				to = append(to, "\x1b["...)
			}
		case r == utf8.RuneError && n == 1:
			to = fmt.Appendf(to, `\x%02x`, text[0])
		case steers(r):
			to = fmt.Appendf(to, `\u%04x`, r)
		default:
			to = append(to, text[:n]...)
		}
		text = text[n:]
	}
	return to
}

// steers reports whether a character may control a terminal. Line breaks and tabs are allowed.
func steers(r rune) bool { return r != '\n' && r != '\t' && controls.Is(r) }

// messages returns the writer below a screen, for data that must not be changed.
func messages(w io.Writer) io.Writer {
	if s, ok := w.(*screen); ok {
		return s.out
	}
	return w
}

// fileOf returns the file that w writes to, or nil.
func fileOf(w any) *os.File {
	for {
		switch x := w.(type) {
		case *console:
			w = x.out
		case *screen:
			w = x.out
		case *os.File:
			return x
		default:
			return nil
		}
	}
}

// isTerminal reports whether w is a terminal.
func isTerminal(w any) bool {
	f := fileOf(w)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// colored reports whether to write colours to w: to a terminal that supports them, unless NO_COLOR is set.
func colored(w any) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// width returns the columns of the terminal that w writes to, or 0.
func width(w any) int {
	if f := fileOf(w); f != nil {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil {
			return n
		}
	}
	return 0
}

// Colours.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	yellow = "33"
)

// paint colours text for a screen if on.
func paint(on bool, color, text string) string {
	if !on || text == "" {
		return text
	}
	return ink + color + "m" + text + ink + "0m"
}
