package http

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/framing"
)

// events reads server-sent events, as the HTML standard defines them. An event without its end is dropped.
type events struct {
	r     *bufio.Reader
	limit int
	retry func(time.Duration)

	afterCR bool // a line feed that follows belongs to the previous line
	begun   bool
	line    []byte // the beginning of the current one
	length  int    // of all of it
	number  int    // of events so far

	kind   string
	id     string // of the last event
	data   []byte // its beginning, each line with a line feed
	size   int    // of all of it
	filled bool   // there was a line of data
}

// maxID bounds the Last-Event-ID that is sent back, in bytes.
const maxID = 4 << 10

// newEvents reads events that follow the one with this id. It calls retry when the server says how long to wait before
// reconnecting.
func newEvents(r io.Reader, limit int, id string, retry func(time.Duration)) *events {
	return &events{r: bufio.NewReaderSize(r, 32<<10), limit: limit, id: id, retry: retry}
}

// Place returns how many events were read.
func (e *events) Place() framing.Place { return framing.Place{Offset: int64(e.number)} }

// Close does nothing.
func (e *events) Close() error { return nil }

// Next returns the next event.
func (e *events) Next() (framing.Record, error) {
	for {
		if err := e.readLine(); err != nil {
			return framing.Record{}, err
		}
		if e.length > 0 {
			e.field()
			continue
		}
		if e.filled {
			return e.dispatch(), nil
		}
		e.kind = ""
	}
}

// dispatch returns the event that an empty line has ended as a record.
func (e *events) dispatch() framing.Record {
	e.number++
	kind, id := e.kind, e.id
	if kind == "" {
		kind = "message"
	}
	rec := framing.Record{Line: e.number, Meta: func(base engine.Meta) engine.Meta {
		base = base.WithOwn("event", kind)
		if id != "" {
			base = base.WithOwn("event_id", id)
		}
		return base
	}}
	size := e.size - 1 // without the last line feed
	if size > e.limit {
		rec.Err = engine.Errorf(engine.Decode, "event of %d bytes is longer than max_record (%d bytes)", size, e.limit)
		rec.Size, size = int64(size), e.limit
	}
	rec.Body = bytes.Clone(e.data[:min(size, len(e.data))])
	e.data, e.size, e.filled, e.kind = e.data[:0], 0, false, ""
	return rec
}

// field handles the current line, which is not empty.
func (e *events) field() {
	name, value, _ := bytes.Cut(e.line, []byte(":"))
	value, spaced := bytes.CutPrefix(value, []byte(" "))
	cut := e.length > len(e.line) // only the beginning of the line is in memory
	switch string(name) {
	case "data":
		prefix := len(name) + 1
		if spaced {
			prefix++
		}
		e.filled = true
		e.add(value, max(0, e.length-prefix))
	case "event":
		if !cut {
			e.kind = string(value)
		}
	case "id":
		if !cut && sendable(value) {
			e.id = string(value)
		}
	case "retry":
		ms, err := strconv.ParseUint(string(value), 10, 31)
		if err == nil && !cut && value[0] != '+' {
			e.retry(time.Duration(ms) * time.Millisecond)
		}
	}
}

// add adds a line of data, of which value is the beginning.
func (e *events) add(value []byte, length int) {
	if room := e.limit + 1 - len(e.data); len(e.data) == e.size && room > 0 {
		e.data = append(e.data, value[:min(len(value), room)]...)
		if len(value) == length && len(value) < room {
			e.data = append(e.data, '\n')
		}
	}
	e.size += length + 1
}

// sendable reports whether an id can be a header's value.
func sendable(id []byte) bool {
	return len(id) <= maxID && utf8.Valid(id) && bytes.IndexFunc(id, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0
}

// readLine reads a line, which ends with a line feed, a carriage return, or both. It keeps only the beginning of a long line.
func (e *events) readLine() error {
	e.line, e.length = e.line[:0], 0
	for {
		if _, err := e.r.Peek(1); err != nil {
			return err
		}
		data, _ := e.r.Peek(e.r.Buffered())
		if e.afterCR {
			e.afterCR = false
			if data[0] == '\n' {
				_, _ = e.r.Discard(1)
				continue
			}
		}
		end := bytes.IndexAny(data, "\r\n")
		part := data
		if end >= 0 {
			part = data[:end]
		}
		e.length += len(part)
		e.line = append(e.line, part[:min(len(part), max(0, e.limit+64-len(e.line)))]...)
		if end < 0 {
			_, _ = e.r.Discard(len(data))
			continue
		}
		e.afterCR = data[end] == '\r'
		_, _ = e.r.Discard(end + 1)
		if !e.begun {
			e.begun = true
			rest, had := bytes.CutPrefix(e.line, []byte("\xef\xbb\xbf"))
			if e.line = rest; had {
				e.length -= 3
			}
		}
		return nil
	}
}

var _ framing.Reader = (*events)(nil)
