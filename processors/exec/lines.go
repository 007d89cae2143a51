package exec

import (
	"bytes"
	"errors"
)

// bounded keeps what is written to it, up to a limit.
type bounded struct {
	max  int
	over func() // called when the limit is exceeded

	buf  bytes.Buffer
	full bool
}

var errFull = errors.New("output is too long")

// Write keeps p.
func (b *bounded) Write(p []byte) (int, error) {
	if b.buf.Len()+len(p) > b.max {
		b.full = true
		b.over()
		return 0, errFull
	}
	return b.buf.Write(p)
}

// splitter splits what is written to it into lines.
type splitter struct {
	max int
	// handle is called with each line, and must not keep it. cut reports that the line is longer than max and only
	// its beginning is passed. After an error, the splitter discards everything.
	handle func(line []byte, cut bool) error

	buf  []byte // an incomplete line
	skip bool   // skip to the end of a line that was cut
}

// Write splits p.
func (s *splitter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		line, rest, ends := bytes.Cut(p, []byte("\n"))
		p = rest
		if err := s.add(line, ends); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// add adds a piece of a line.
func (s *splitter) add(piece []byte, ends bool) error {
	if s.skip {
		s.skip = !ends
		return nil
	}
	if room := s.max - len(s.buf); len(piece) > room {
		s.skip = !ends
		return s.give(append(s.buf, piece[:room]...), true)
	}
	if !ends || len(s.buf) > 0 {
		s.buf = append(s.buf, piece...)
		piece = s.buf
	}
	if !ends {
		return nil
	}
	return s.give(bytes.TrimSuffix(piece, []byte("\r")), false)
}

func (s *splitter) give(line []byte, cut bool) error {
	s.buf = s.buf[:0]
	return s.handle(line, cut)
}

// flush passes on a last line without a line end.
func (s *splitter) flush() {
	if len(s.buf) > 0 {
		_ = s.give(s.buf, false)
	}
}
