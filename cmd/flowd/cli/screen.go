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

// screen is what people read: everything that a command writes to stdout and stderr passes
// through one, except messages that it was asked for. Control characters are shown as
// \u001b, which is valid in JSON, too. A terminal acts only upon [ink], which data can't
// contain.
type screen struct {
	out io.Writer

	mu   sync.Mutex // guards the fields below, and keeps writes whole
	rest []byte     // the beginning of a character that the next write ends
	text []byte
}

// newScreen is w as a screen.
func newScreen(w io.Writer) *screen {
	if s, ok := w.(*screen); ok {
		return s
	}
	return &screen{out: w}
}

// ink begins what flowd itself has a terminal do: a control sequence, without its ESC
// and bracket, or a carriage return.
var ink = "\x00" + rand.Text()

// Write writes p, as far as it ends with a whole character. It has p's length whatever
// that became.
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

// Close writes what is left of a character that never ended.
func (s *screen) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.out.Write(shownBytes(nil, s.rest)) // nobody is left to report to
	s.rest = nil
}

// shownBytes appends text as a screen shows it.
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

// steers says whether a terminal may act upon a character beyond showing it, but for lines and columns.
func steers(r rune) bool { return r != '\n' && r != '\t' && controls.Is(r) }

// messages is where to write data that goes elsewhere as it is: what w is a screen of.
func messages(w io.Writer) io.Writer {
	if s, ok := w.(*screen); ok {
		return s.out
	}
	return w
}

// fileOf is the file that w writes to, or nil.
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

// isTerminal says whether w is a terminal.
func isTerminal(w any) bool {
	f := fileOf(w)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// colored says whether to write colours to w: a terminal that knows them, whose
// user has not set NO_COLOR.
func colored(w any) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// width is the number of columns of the terminal that w is, or 0.
func width(w any) int {
	if f := fileOf(w); f != nil {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil {
			return n
		}
	}
	return 0
}

// The colours in use.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	yellow = "33"
)

// paint puts text in a colour when on, for a screen.
func paint(on bool, color, text string) string {
	if !on || text == "" {
		return text
	}
	return ink + color + "m" + text + ink + "0m"
}
