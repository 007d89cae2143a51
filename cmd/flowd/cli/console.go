package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// console writes to stderr, which the log, problems, summaries and the progress line share. It is safe for
// concurrent use.
type console struct {
	terminal bool
	color    bool

	mu      sync.Mutex // guards the fields below and keeps writes whole
	out     *screen
	line    bool         // a progress line is on the screen
	records slog.Handler // nil: text; otherwise everything that is written becomes records
}

func newConsole(w io.Writer) *console {
	return &console{out: newScreen(w), terminal: isTerminal(w), color: colored(w)}
}

// Write erases the progress line and writes p, or a record for each line of p.
func (c *console) Write(p []byte) (int, error) {
	if c.handler() == nil {
		return lines{c}.Write(p)
	}
	for line := range strings.Lines(string(p)) {
		c.record(slog.LevelInfo, strings.TrimRight(line, "\n"))
	}
	return len(p), nil
}

// useRecords makes the console write everything as records of a handler, or as text again.
func (c *console) useRecords(h slog.Handler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.records = h
}

func (c *console) handler() slog.Handler {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.records
}

// record writes a record, whatever the lowest level of the log is. It returns false if the console writes text.
func (c *console) record(level slog.Level, message string, attrs ...slog.Attr) bool {
	h := c.handler()
	if h == nil {
		return false
	}
	r := slog.NewRecord(time.Now(), level, message, 0)
	r.AddAttrs(attrs...)
	_ = h.Handle(context.Background(), r) // nobody is left to report an error to
	return true
}

// lines is the way of whole lines to a console's screen.
type lines struct{ con *console }

func (l lines) Write(p []byte) (int, error) {
	l.con.mu.Lock()
	defer l.con.mu.Unlock()
	l.con.erase()
	return l.con.out.Write(p)
}

// status replaces the progress line; "" erases it.
func (c *console) status(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	if text != "" && c.records == nil {
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
