package cli

import (
	"fmt"
	"io"
	"sync"
)

// console writes to stderr, which the log, problems, summaries and the progress line share. It is safe for
// concurrent use.
type console struct {
	terminal bool
	color    bool

	mu   sync.Mutex // guards the fields below and keeps writes whole
	out  *screen
	line bool // a progress line is on the screen
}

func newConsole(w io.Writer) *console {
	return &console{out: newScreen(w), terminal: isTerminal(w), color: colored(w)}
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
		fmt.Fprint(c.out, ink+"\r"+ink+"K")
		c.line = false
	}
}
