package cli

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// console is stderr: log, problems, summaries and the progress line share it.
// It may be used from several goroutines.
type console struct {
	terminal bool
	color    bool

	mu   sync.Mutex // guards the fields below and keeps writes whole
	out  io.Writer
	line bool // a progress line is on the screen
}

func newConsole(w io.Writer) *console {
	return &console{out: w, terminal: isTerminal(w), color: colored(w)}
}

// Write erases the progress line and writes p.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	return c.out.Write(p)
}

// status replaces the progress line; "" erases it.
func (c *console) status(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	if text != "" {
		fmt.Fprint(c.out, text)
		c.line = true
	}
}

func (c *console) erase() {
	if c.line {
		fmt.Fprint(c.out, "\r\x1b[K")
		c.line = false
	}
}

// isTerminal says whether w is a terminal, or a console on one.
func isTerminal(w any) bool {
	if c, ok := w.(*console); ok {
		return c.terminal
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// colored says whether to write colours to w: a terminal that knows them, whose
// user has not set NO_COLOR.
func colored(w any) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// The colours in use.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	yellow = "33"
)

// paint puts text in a colour when on.
func paint(on bool, color, text string) string {
	if !on || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}
