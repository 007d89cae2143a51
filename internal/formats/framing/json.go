package framing

import (
	"bytes"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
)

// documents reads consecutive JSON documents, or the elements of one array. If brackets do not match, nothing after
// them can be trusted: the rest of the stream is one broken record.
type documents struct {
	offset int64         // of the next scan, in the stream
	want   want          // between values
	broken *engine.Error // why the rest can't be read

	inside   bool   // of a value:
	open     []byte // its open brackets
	deeper   int    // further open brackets, which are not remembered
	inString bool
	escaped  bool
	scalar   bool // it is a number or a word
}

// want is what may follow between values.
type want uint8

const (
	wantFirst     want = iota // a value, or the bracket of the array
	wantDocument              // a value
	wantElements              // an element, or the array's end
	wantElement               // an element
	wantSeparator             // a comma, or the array's end
	wantNothing               // the array has ended
)

// maxOpen is how many open brackets are remembered: no document may be deeper.
const maxOpen = 512

var utf8BOM = []byte("\xef\xbb\xbf")

func (j *documents) scan(data []byte, from int, eof bool) (end, next int, err *engine.Error) {
	end, next, err = j.find(data, from, eof)
	j.offset += int64(next - from)
	return end, next, err
}

func (j *documents) find(data []byte, from int, eof bool) (end, next int, err *engine.Error) {
	if j.offset == 0 && !eof && len(data) < len(utf8BOM) && bytes.HasPrefix(utf8BOM, data) {
		return -1, 0, nil
	}
	if j.broken == nil && !j.inside {
		n, begins := j.between(data)
		if n > 0 { // not a record
			return 0, n, nil
		}
		j.inside = begins
	}
	if j.inside {
		if end = j.value(data, from); end >= 0 {
			j.inside = false
			return end, end, nil
		}
	}
	if !eof {
		return -1, len(data), nil
	}
	return len(data), len(data), j.atEnd(data, from)
}

// between handles the text between values: n bytes of it, or none if a value begins.
func (j *documents) between(data []byte) (n int, begins bool) {
	if j.offset == 0 && bytes.HasPrefix(data, utf8BOM) {
		return len(utf8BOM), false
	}
	for n < len(data) && isBlank(data[n]) {
		n++
	}
	if n > 0 || len(data) == 0 {
		return n, false
	}
	c := data[0]
	switch {
	case j.want == wantFirst && c == '[':
		j.want = wantElements
		return 1, false
	case j.want == wantSeparator && c == ',':
		j.want = wantElement
		return 1, false
	case (j.want == wantSeparator || j.want == wantElements) && c == ']':
		j.want = wantNothing
		return 1, false
	case j.want == wantNothing:
		j.fail(0, "unexpected %q after the array: only one array is read (for one array per line use framing lines)", c)
	case j.want == wantSeparator:
		j.fail(0, "unexpected %q between elements of the array, want a comma or the array's end", c)
	case strings.IndexByte(`{["-0123456789tfn`, c) < 0:
		j.fail(0, "unexpected %q where a JSON value begins", c)
	case j.want == wantFirst || j.want == wantDocument:
		j.want = wantDocument
		begins = true
	default:
		j.want = wantSeparator
		begins = true
	}
	j.scalar = c != '{' && c != '[' && c != '"'
	return 0, begins
}

// value scans the current value and returns its end, or -1.
func (j *documents) value(data []byte, from int) int {
	for i := from; i < len(data); i++ {
		c := data[i]
		switch {
		case j.scalar:
			if isBlank(c) || c == ',' || c == '}' || c == ']' || c == '{' || c == '[' || c == '"' {
				return i
			}
		case j.escaped:
			j.escaped = false
		case j.inString:
			if c == '\\' {
				j.escaped = true
			} else if c == '"' {
				j.inString = false
				if len(j.open) == 0 {
					return i + 1
				}
			}
		case c == '"':
			j.inString = true
		case c == '{' || c == '[':
			if len(j.open) == maxOpen {
				j.deeper++
			} else {
				j.open = append(j.open, c)
			}
		case c == '}' || c == ']':
			if j.deeper > 0 {
				j.deeper--
				continue
			}
			last := len(j.open) - 1
			if j.open[last] != c-2 { // '[' is ']'-2 and '{' is '}'-2
				j.fail(i-from, "%q closes %q", c, j.open[last])
				j.inside = false
				return -1
			}
			if j.open = j.open[:last]; last == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// fail gives up the rest of the stream. ahead is the distance from the beginning of this scan to the mistake.
func (j *documents) fail(ahead int, format string, args ...any) {
	args = append(args, j.offset+int64(ahead))
	j.broken = engine.Errorf(engine.Decode, "not JSON: "+format+
		", at byte %d of the stream; what follows can't be read", args...)
}

// atEnd returns, once, what is wrong if the stream ends here.
func (j *documents) atEnd(data []byte, from int) *engine.Error {
	err := j.broken
	switch at := j.offset + int64(len(data)-from); {
	case err != nil:
	case j.inside && j.scalar:
	case j.inside:
		err = engine.Errorf(engine.Decode, "not JSON: the document is cut off at byte %d of the stream", at)
	case j.want != wantFirst && j.want != wantDocument && j.want != wantNothing:
		err = engine.Errorf(engine.Decode, "not JSON: the array is cut off at byte %d of the stream", at)
	}
	if j.inside && j.scalar && j.want == wantSeparator { // the last number of an array without an end
		j.inside = false
		return nil
	}
	*j = documents{want: wantNothing}
	return err
}

// record checks that text with matching brackets is valid JSON.
func (j *documents) record(body []byte) (Record, bool) {
	if len(body) == 0 {
		return Record{}, false
	}
	var d doc.Doc
	d.Reset(body, nil)
	if err := d.Valid(); err != nil {
		return Record{Body: body, Err: &engine.Error{Class: engine.Decode, Err: err}}, true
	}
	return Record{Body: body}, true
}

func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }
