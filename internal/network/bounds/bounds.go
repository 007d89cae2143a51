// Package bounds protects client libraries from the servers that they talk to. Many libraries believe a length, a count
// or a depth before they have seen what it announces, and end the process when that is more than there is memory for. A
// [Check] sees each byte first; [Conn] ends the connection when it objects, and the client makes a new one. [Recover] is
// for libraries that panic.
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

// Check follows what one server sends over one connection.
type Check interface {
	// Check is given the next bytes before anybody else sees them, by one goroutine at a time. It keeps nothing of p.
	// With an error, the connection ends.
	Check(p []byte) error
}

// ErrTooLarge says that something is larger than its limit, so that less of it may be asked for. Other errors of a
// [Check] mean that the server does not speak its protocol.
var ErrTooLarge = errors.New("too large")

type tooLarge string

func (e tooLarge) Error() string      { return string(e) }
func (tooLarge) Is(target error) bool { return target == ErrTooLarge }

// TooLarge is an error that is [ErrTooLarge].
func TooLarge(format string, args ...any) error { return tooLarge(fmt.Sprintf(format, args...)) }

// Conn is c, which check follows. What check objects to is not read, and becomes the error of this and every later read.
func Conn(c net.Conn, check Check) net.Conn { return Raw(&conn{c, reader{from: c, check: check}}, c) }

// Raw is outer, which wraps inner, with inner's file descriptor if it has one: some clients look there whether an idle
// connection was closed.
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

// Read reads what the server sends, and ends the connection where the check objects.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if c.in.wrong != nil {
		c.Conn.Close()
	}
	return n, err
}

// Reader is r, which check follows, for a connection that somebody else ends: see [Conn].
func Reader(r io.Reader, check Check) io.Reader { return &reader{from: r, check: check} }

type reader struct {
	from  io.Reader
	check Check
	wrong error // what check has objected to; nil: nothing
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

// Frames is a [Check] of frames that begin with their length. It is used by pointer; its fields are set before.
type Frames struct {
	// First is how many bytes of a frame Next sees at first; at least 1.
	First int
	// Next is given how a frame begins. It returns the length of the whole frame in bytes, or how many more bytes it must
	// see before it knows, or what is wrong.
	Next func(head []byte) (length int64, more int, err error)
	// Body is given what follows that of each frame, as it comes, and says what is wrong; nil: nothing ever is.
	Body func(p []byte) error

	head []byte
	need int   // the bytes that Next must see
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

// Lines is a [Check] of lines, some of which announce bytes that follow them. It is used by pointer; its fields are set
// before.
type Lines struct {
	// First is given the first byte of a line, and returns how many bytes the line may have, or what is wrong.
	First func(first byte) (most int, err error)
	// Next is given a whole line, with its end. It returns how many bytes come before the next line, or what is wrong.
	Next func(line []byte) (pass int64, err error)
	// Strange is the error of a server that does not speak the protocol, which one about a line that is too long wraps.
	Strange error

	line []byte // as much of a line as has come
	most int    // bytes that it may have
	pass int64  // bytes that are still to come before the next line
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

// Rate counts what a server may say at any time and seldom does. Each is work, and none has a size that bounds it. The
// zero value is ready.
type Rate struct {
	n     int
	since time.Time
}

// Over counts one more, and says that there are more than most within a second.
func (r *Rate) Over(most int) bool {
	if now := time.Now(); now.Sub(r.since) > time.Second {
		r.n, r.since = 0, now
	}
	r.n++
	return r.n > most
}

// Recover makes a panic of a client library the error of the call that it is deferred in: what the server has sent broke
// the library. The connection can't be used any more.
func Recover(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("what the server sent made the client library panic: %v%s", p, place())
	}
}

// place is where a panic began, that Recover has recovered.
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
