// Package stdout writes messages to standard output and standard error.
package stdout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/disk/files"
	"github.com/flowd-io/flowd/internal/formats/framing"
)

// Config configures the outputs.
type Config struct {
	framing.OutConfig `yaml:",inline"`
}

// Traits reports whether messages are lines.
func (c Config) Traits() engine.Traits { return engine.Traits{OneLine: c.OneLine()} }

const aboutStdout = `
Writes to standard output, one message per line. When its reader closes it, the
pipeline stops; if it is closed from the start, the pipeline does not start.

    outputs:
      out: {stdout: {}}
`

const aboutStderr = `
Writes to standard error, one message per line.

    outputs:
      malformed: {stderr: {framing: messages}}
`

func init() {
	engine.Register(engine.Outputs, "stdout", aboutStdout, Config{},
		func(c Config, _ engine.Env) (engine.Output, error) {
			return newOutput(c, os.Stdout, "standard output"), nil
		})
	engine.Register(engine.Outputs, "stderr", aboutStderr, Config{},
		func(c Config, _ engine.Env) (engine.Output, error) {
			return newOutput(c, os.Stderr, "standard error"), nil
		})
}

type output struct {
	file *os.File
	name string
	wr   *framing.Writer

	mu   sync.Mutex // guards the fields below and the file
	buf  []byte
	ends []int  // where each message ends in buf
	head bool   // the header must still be written
	debt []byte // the rest of a record that a failed write has begun
}

var (
	_ engine.Traited = (*output)(nil)
	_ engine.Opener  = (*output)(nil)
	_ engine.Closer  = (*output)(nil)
)

func newOutput(c Config, f *os.File, name string) *output {
	return &output{file: f, name: name, wr: c.Writer(), head: true}
}

// Open refuses a closed stream, and subscribes to SIGPIPE. Otherwise the Go runtime would end the process instead of having writes
// return an error.
func (o *output) Open(context.Context) error {
	if wasClosed(o.file) {
		return engine.Errorf(engine.Permanent,
			"%s is closed, or it is %s opened for reading and writing, which looks the same: what is written would be lost (redirect it, or use "+
				"the output `drop`)", o.name, os.DevNull)
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return nil
}

// maxKept bounds the buffer that is kept between writes.
const maxKept = 1 << 20

// Write writes the batch with one call.
func (o *output) Write(ctx context.Context, b *engine.Batch) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf, o.ends = append(o.buf[:0], o.debt...), o.ends[:0]
	if o.head {
		o.buf = append(o.buf, o.wr.Head...)
	}
	head, refused := len(o.buf), false
	for m := range b.All() {
		if refused && m.Key != nil {
			m.Fail(engine.ErrBehind)
			continue
		}
		var err error
		if o.buf, err = o.wr.Append(o.buf, m); err != nil {
			m.Fail(err)
			refused = true
			continue
		}
		o.ends = append(o.ends, len(o.buf))
	}
	if len(o.buf) == 0 || len(o.ends) == 0 {
		return nil
	}
	deadline, _ := ctx.Deadline()
	_ = o.file.SetWriteDeadline(deadline) // terminals and files have no deadlines, and need none
	n, err := o.file.Write(o.buf)
	if err == nil {
		o.debt = o.debt[:0]
	} else {
		n = o.cutBack(n, head)
		o.owe(n, head)
	}
	if cap(o.buf) > maxKept {
		o.buf = nil
	}
	o.head = o.head && n == 0
	if err == nil {
		return nil
	}
	o.markWritten(b, n)
	return o.explain(err)
}

// cutBack removes what a failed write of n bytes has begun from the end of a file to which
// the stream is redirected, and returns how much is left of the write.
func (o *output) cutBack(n, head int) (whole int) {
	if n >= head {
		whole = head
	}
	if i, found := slices.BinarySearch(o.ends, n); found {
		whole = n
	} else if i > 0 {
		whole = o.ends[i-1]
	}
	info, err := o.file.Stat()
	if whole == n || err != nil || !info.Mode().IsRegular() {
		return n
	}
	end, err := o.file.Seek(0, io.SeekCurrent)
	if err != nil || end != info.Size() { // others write to it, too
		return n
	}
	good := end - int64(n-whole)
	if o.file.Truncate(good) != nil {
		return n
	}
	_, _ = o.file.Seek(good, io.SeekStart)
	return whole
}

// owe keeps the rest of the record that a failed write of n bytes has begun, because the next record must not start in the middle of
// a line.
func (o *output) owe(n, head int) {
	if n == 0 {
		return
	}
	i, _ := slices.BinarySearch(o.ends, n)
	end := o.ends[i]
	if n <= head {
		end = head
	}
	o.debt = bytes.Clone(o.buf[n:end])
}

// markWritten marks messages as written: all that end within the first n bytes.
func (o *output) markWritten(b *engine.Batch, n int) {
	i := 0
	for m := range b.All() {
		if i == len(o.ends) || o.ends[i] > n {
			return
		}
		m.Done()
		i++
	}
}

func (o *output) explain(err error) error {
	switch {
	case errors.Is(err, syscall.EPIPE):
		return engine.Errorf(engine.Permanent, "%s was closed by its reader: %w", o.name, engine.ErrGone)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return engine.Errorf(engine.Timeout, "%s: the reader of the pipe does not read: %w", o.name, err)
	case errors.Is(err, os.ErrClosed), errors.Is(err, syscall.EBADF):
		return engine.Errorf(engine.Permanent, "%s is closed: %w", o.name, engine.ErrGone)
	}
	if remedy, yes := files.Outage(err); yes {
		return &engine.Error{Class: engine.Transient, Holds: true, Err: fmt.Errorf("%s: %w (%s)", o.name, err, remedy)}
	}
	return fmt.Errorf("%s: %w", o.name, err)
}

// Traits says that it is sequential: a write keeps the order and ends at the first error. With order keys, it also ends where the
// framing refuses a message.
func (*output) Traits() engine.Traits { return engine.Traits{Sequential: true} }

// Close removes the write deadline from the stream, for other writes of the process.
func (o *output) Close(context.Context) error {
	_ = o.file.SetWriteDeadline(time.Time{})
	return nil
}
