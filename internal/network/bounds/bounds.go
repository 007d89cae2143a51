// Package bounds protects client libraries from malicious servers. Many libraries trust a length, count or depth
// before they have seen the data, and crash the process if it exceeds the memory. A [Check] sees each byte first.
// [Conn] ends the connection when the check fails, and the client reconnects. [Recover] is for libraries that panic.
package bounds

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Check follows what one server sends on one connection.
type Check interface {
	// Check sees the next bytes before the client does. One goroutine calls it at a time. It must not keep p. An
	// error ends the connection.
	Check(p []byte) error
}

// ErrTooLarge says that something exceeds its limit, so that the client may ask for less. Other errors of a [Check]
// mean that the server does not speak its protocol.
var ErrTooLarge = errors.New("too large")

type tooLarge string

func (e tooLarge) Error() string      { return string(e) }
func (tooLarge) Is(target error) bool { return target == ErrTooLarge }

// TooLarge returns an error that wraps [ErrTooLarge].
func TooLarge(format string, args ...any) error { return tooLarge(fmt.Sprintf(format, args...)) }

// Conn wraps c. When check fails, the data is not delivered, and this and all later reads return the error.
func Conn(c net.Conn, check Check) net.Conn { return Raw(&conn{c, reader{from: c, check: check}}, c) }

// Raw wraps inner like outer, and exposes inner's file descriptor if there is one: some clients use it to detect that
// an idle connection was closed.
func Raw(outer, inner net.Conn) net.Conn {
	if raw, ok := inner.(syscall.Conn); ok {
		return struct {
			net.Conn
			descriptor
		}{outer, raw}
	}
	return outer
}

type descriptor interface{ syscall.Conn }

type conn struct {
	net.Conn
	in reader
}

// Read reads from the server, and ends the connection when the check fails.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if c.in.wrong != nil {
		c.Conn.Close()
	}
	return n, err
}

// Reader applies check to r, for a connection that another component ends: see [Conn].
func Reader(r io.Reader, check Check) io.Reader { return &reader{from: r, check: check} }

type reader struct {
	from  io.Reader
	check Check
	wrong error // error of the check, or nil
}

// Read implements [io.Reader].
func (r *reader) Read(p []byte) (int, error) {
	if r.wrong != nil {
		return 0, r.wrong
	}
	n, err := r.from.Read(p)
	if r.wrong = r.check.Check(p[:n]); r.wrong != nil {
		return 0, r.wrong
	}
	return n, err
}

// Frames is a [Check] of frames that begin with their length. Use a pointer, and set the fields first.
type Frames struct {
	// First is how many bytes of a frame Next needs at first; at least 1.
	First int
	// Next gets the beginning of a frame. It returns the length of the whole frame in bytes, or how many more bytes
	// it needs, or an error.
	Next func(head []byte) (length int64, more int, err error)
	// Body gets the rest of each frame as it arrives, and may return an error; nil: the rest is not checked.
	Body func(p []byte) error

	head []byte
	need int   // bytes that Next needs
	pass int64 // bytes of the frame that are still to come
}

// Check implements [Check].
func (f *Frames) Check(p []byte) error {
	for {
		if n := min(f.pass, int64(len(p))); n > 0 {
			if f.Body != nil {
				if err := f.Body(p[:n]); err != nil {
					return err
				}
			}
			p, f.pass = p[n:], f.pass-n
		}
		if len(p) == 0 {
			return nil
		}
		f.need = max(f.need, f.First)
		take := min(f.need-len(f.head), len(p))
		f.head, p = append(f.head, p[:take]...), p[take:]
		if len(f.head) < f.need {
			return nil
		}
		length, more, err := f.Next(f.head)
		switch {
		case err != nil:
			return err
		case more > 0:
			f.need += more
			continue
		case length < int64(len(f.head)):
			return fmt.Errorf("the server announces a frame of %d bytes, which is impossible", length)
		}
		f.pass, f.head, f.need = length-int64(len(f.head)), f.head[:0], 0
	}
}

// Lines is a [Check] of lines, some of which announce data after them. Use a pointer, and set the fields first.
type Lines struct {
	// First gets the first byte of a line. It returns the maximum length of the line, or an error.
	First func(first byte) (most int, err error)
	// Next gets a whole line, with its end. It returns how many bytes of data precede the next line, or an error.
	Next func(line []byte) (pass int64, err error)
	// Strange is the error of a server that does not speak the protocol. The error about a line that is too long
	// wraps it.
	Strange error

	line []byte // the line so far
	most int    // maximum length of the line
	pass int64  // bytes of data before the next line
}

// Check implements [Check].
func (l *Lines) Check(p []byte) error {
	for {
		n := min(l.pass, int64(len(p)))
		p, l.pass = p[n:], l.pass-n
		if len(p) == 0 {
			return nil
		}
		if len(l.line) == 0 {
			var err error
			if l.most, err = l.First(p[0]); err != nil {
				return err
			}
		}
		end := bytes.IndexByte(p, '\n') + 1
		line := p[:cmp.Or(end, len(p))]
		if len(l.line)+len(line) > l.most {
			return fmt.Errorf("%w: a line has over %d bytes", l.Strange, l.most)
		}
		p = p[len(line):]
		if end == 0 || len(l.line) > 0 {
			l.line = append(l.line, line...)
			line = l.line
		}
		if end == 0 {
			return nil
		}
		var err error
		if l.pass, err = l.Next(line); err != nil {
			return err
		}
		l.line = l.line[:0]
	}
}

// Rate counts messages that a server may send at any time but rarely does: each causes work, and no size bounds them.
// The zero value is ready.
type Rate struct {
	n     int
	since time.Time
}

// Over counts a message, and reports whether there are more than most within a second.
func (r *Rate) Over(most int) bool {
	if now := time.Now(); now.Sub(r.since) > time.Second {
		r.n, r.since = 0, now
	}
	r.n++
	return r.n > most
}

// Recover turns a panic of a client library into the error of the call that defers Recover: data of the server has
// broken the library. The connection can't be used any more.
func Recover(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("what the server sent made the client library panic: %v%s", p, place())
	}
}

// place returns where a recovered panic began.
func place() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, "runtime.") {
			return fmt.Sprintf(" (in %s)", f.Function)
		}
		if !more {
			return ""
		}
	}
}
