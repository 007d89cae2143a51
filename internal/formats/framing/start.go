package framing

import (
	"bytes"
	"regexp"

	"github.com/flowd-io/flowd/engine"
)

// start begins a record at each line that matches: log entries followed by stack traces.
// What precedes the first match is a record, too.
type start struct {
	re     *regexp.Regexp
	max    int  // a line is judged by so much of its head
	inside bool // the record's first line has been seen
	line   int  // of the current line, what contains no line feed
	judged bool // the current line continues the record, whose end is being looked for
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
		default: // too long a line: its end is not needed in one piece with its head
			s.judged = true
			return -1, len(data), nil
		}
	}
}

func (s *start) record(body []byte) (Record, bool) {
	body = trimLine(body)
	return Record{Body: body}, len(body) > 0
}

// trimLine takes the line end off.
func trimLine(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
	}
	if n := len(b); n > 0 && b[n-1] == '\r' {
		b = b[:n-1]
	}
	return b
}
