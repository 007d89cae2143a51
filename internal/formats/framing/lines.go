package framing

import (
	"bytes"

	"github.com/flowd-io/flowd/engine"
)

// lines splits at line feeds, and removes a carriage return before them. The last line needs no line feed. Empty
// lines are not records.
type lines struct{}

func (lines) scan(data []byte, from int, eof bool) (end, next int, err *engine.Error) {
	end, next = bytes.IndexByte(data[from:], '\n'), 0
	switch {
	case end >= 0:
		end += from
		next = end + 1
	case eof:
		end, next = len(data), len(data)
	default:
		return -1, len(data), nil
	}
	if end > 0 && data[end-1] == '\r' {
		end--
	}
	return end, next, nil
}

func (lines) record(body []byte) (Record, bool) { return Record{Body: body}, len(body) > 0 }

// textLines are the lines of a text, without a byte order mark.
type textLines struct {
	lines
	begun bool
}

func (l *textLines) record(body []byte) (Record, bool) {
	if !l.begun {
		l.begun = true
		body = bytes.TrimPrefix(body, utf8BOM)
	}
	return l.lines.record(body)
}

// delimiter splits at a text. Empty text between two delimiters is not a record.
type delimiter []byte

func (d delimiter) scan(data []byte, from int, eof bool) (end, next int, err *engine.Error) {
	if i := bytes.Index(data[from:], d); i >= 0 {
		return from + i, from + i + len(d), nil
	}
	if eof {
		return len(data), len(data), nil
	}
	// The end of data may be the beginning of a delimiter.
	return -1, max(from, len(data)-len(d)+1), nil
}

func (delimiter) record(body []byte) (Record, bool) { return Record{Body: body}, len(body) > 0 }

// whole takes everything as one record. An empty stream is an empty record.
type whole struct{}

func (whole) scan(data []byte, _ int, eof bool) (end, next int, err *engine.Error) {
	if eof {
		return len(data), len(data), nil
	}
	return -1, len(data), nil
}

func (whole) record(body []byte) (Record, bool) { return Record{Body: body}, true }
