package framing

import (
	"bytes"
	"regexp"

	"github.com/flowd-io/flowd/engine"
)

// start begins a record at each line that matches, for log entries followed by stack traces. Text before the first
// match is a record, too.
type start struct {
	re     *regexp.Regexp
	max    int  // how much of a line is matched
	inside bool // the record's first line was seen
	line   int  // bytes of the current line known to have no line feed
	judged bool // the current line continues the record; its end is searched
}

func (s *start) scan(data []byte, from int, eof bool) (end, next int, err *engine.Error) {
	for {
		i := bytes.IndexByte(data[from+s.line:], '\n')
		rest := data[from:]
		long := len(rest) > s.max
		if i < 0 && !eof && !long {
			s.line = len(rest)
			return -1, from, nil
		}
		if i >= 0 {
			rest = rest[:s.line+i+1]
		}
		if s.inside && !s.judged && len(rest) > 0 && s.re.Match(trimLine(rest)) {
			s.inside, s.line = false, 0
			return from, from, nil
		}
		s.inside, s.line, s.judged = true, 0, false
		switch {
		case i >= 0:
			from += len(rest)
		case eof:
			s.inside = false
			return len(data), len(data), nil
		default: // a line too long to be kept in one piece
			s.judged = true
			return -1, len(data), nil
		}
	}
}

func (s *start) record(body []byte) (Record, bool) {
	body = trimLine(body)
	return Record{Body: body}, len(body) > 0
}

// trimLine removes the line end.
func trimLine(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
	}
	if n := len(b); n > 0 && b[n-1] == '\r' {
		b = b[:n-1]
	}
	return b
}
