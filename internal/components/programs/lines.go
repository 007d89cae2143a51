package programs

import (
	"bytes"
	"errors"
)

// Bounded is a writer that keeps what is written to it, up to a limit. It is for one goroutine at a time.
type Bounded struct {
	Max      int    // bytes
	Exceeded func() // called by each Write that would exceed Max, for example to kill the program

	// Full reports that the limit was exceeded. Bytes then returns what was written before.
	Full bool

	buf bytes.Buffer // not embedded, because ReadFrom must not bypass the limit
}

var errFull = errors.New("output is too long")

// Write keeps p, or fails and keeps nothing of p.
func (b *Bounded) Write(p []byte) (int, error) {
	if b.buf.Len()+len(p) > b.Max {
		b.Full = true
		b.Exceeded()
		return 0, errFull
	}
	return b.buf.Write(p)
}

// Bytes returns what was kept, valid until the next Write.
func (b *Bounded) Bytes() []byte { return b.buf.Bytes() }

// Lines is a writer that splits what is written to it into lines. It is for one goroutine at a time, and holds at most Max
// bytes.
type Lines struct {
	Max int // bytes of a line, without its end

	// Handle is called with each line, without "\n" or "\r\n". It must not keep the line. cut reports that the line is
	// longer than Max, and that only its beginning is passed. Write returns the error of Handle, which ends the copying of
	// a program's output.
	Handle func(line []byte, cut bool) error

	buf  []byte // an incomplete line
	skip bool   // skip to the end of a line that was cut
}

// Write splits p.
func (l *Lines) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		line, rest, ends := bytes.Cut(p, []byte("\n"))
		p = rest
		if err := l.add(line, ends); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// add adds a piece of a line.
func (l *Lines) add(piece []byte, ends bool) error {
	if l.skip {
		l.skip = !ends
		return nil
	}
	if room := l.Max - len(l.buf); len(piece) > room {
		l.skip = !ends
		return l.pass(append(l.buf, piece[:room]...), true)
	}
	if !ends || len(l.buf) > 0 {
		l.buf = append(l.buf, piece...)
		piece = l.buf
	}
	if !ends {
		return nil
	}
	return l.pass(bytes.TrimSuffix(piece, []byte("\r")), false)
}

func (l *Lines) pass(line []byte, cut bool) error {
	l.buf = l.buf[:0]
	return l.Handle(line, cut)
}

// Flush passes on a last line without a line end.
func (l *Lines) Flush() error {
	if len(l.buf) == 0 {
		return nil
	}
	return l.pass(l.buf, false)
}
