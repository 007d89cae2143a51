package framing

import (
	"bytes"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
)

// table reads delimited text (RFC 4180) and makes a JSON object of each row,
// its fields named by the header. A quote inside an unquoted field is text.
type table struct {
	comma  byte
	header bool     // the first row names the fields
	keys   [][]byte // by column: `"name":`; nil: rows are arrays
	out    arena

	inQuotes bool
	quoted   bool          // the current field began with a quote
	inField  bool          // the current field has begun
	begun    bool          // a row was read
	unusable *engine.Error // why the header names no fields
	rest     bool          // and there are rows after it

	fields []int  // of the row: where each field ends in text
	text   []byte // of the row: its fields, unquoted
}

func newTable(comma byte, header bool, columns []string) *table {
	t := &table{comma: comma, header: header && columns == nil}
	for _, c := range columns {
		t.keys = append(t.keys, append(doc.AppendString(nil, []byte(c)), ':'))
	}
	return t
}

func (t *table) scan(data []byte, from int, eof bool) (end, next int, err *engine.Error) {
	if t.unusable != nil {
		t.rest = t.rest || len(data) > from
		switch {
		case !eof:
			return -1, len(data), nil
		case t.rest:
			t.rest = false
			return len(data), len(data), t.unusable
		}
		return len(data), len(data), nil
	}
	if i := t.rowEnd(data[from:]); i >= 0 {
		end = from + i
		return len(trimLine(data[:end+1])), end + 1, nil
	}
	if !eof {
		return -1, len(data), nil
	}
	if t.inQuotes {
		err = engine.Errorf(engine.Decode, "not CSV: a quoted field is not closed")
	}
	t.inQuotes, t.quoted, t.inField = false, false, false
	return len(trimLine(data)), len(data), err
}

// rowEnd is the line feed that ends the row, or -1.
func (t *table) rowEnd(data []byte) int {
	if !t.inQuotes && !t.quoted {
		// Most rows have no quotes at all.
		if i := bytes.IndexByte(data, '\n'); i >= 0 && bytes.IndexByte(data[:i], '"') < 0 {
			t.inField = false
			return i
		}
	}
	for i, c := range data {
		switch {
		case c == '"' && t.quoted:
			t.inQuotes = !t.inQuotes
		case c == '"' && !t.inField:
			t.inQuotes, t.quoted = true, true
		case t.inQuotes:
		case c == t.comma:
			t.quoted, t.inField = false, false
			continue
		case c == '\n':
			t.quoted, t.inField = false, false
			return i
		}
		t.inField = true
	}
	return -1
}

func (t *table) record(row []byte) (Record, bool) {
	if !t.begun {
		t.begun = true
		row = bytes.TrimPrefix(row, utf8BOM)
	}
	if len(row) == 0 {
		return Record{}, false
	}
	err := t.parse(row)
	if t.header {
		t.header = false
		if err == nil {
			err = t.setHeader()
		}
		if err != nil {
			t.unusable = engine.Errorf(engine.Decode, "CSV header: %w; the rows can't be read", err)
			return Record{Body: row, Err: t.unusable}, true
		}
		return Record{}, false
	}
	if err == nil && t.keys != nil && len(t.fields) != len(t.keys) {
		err = engine.Errorf(engine.Decode, "CSV row has %d fields, the header %d", len(t.fields), len(t.keys))
	}
	if err != nil {
		return Record{Body: row, Err: err}, true
	}
	return Record{Body: t.object()}, true
}

// parse cuts a row into fields.
func (t *table) parse(row []byte) *engine.Error {
	if !utf8.Valid(row) {
		return engine.Errorf(engine.Decode, "CSV row is not UTF-8")
	}
	t.fields, t.text = t.fields[:0], t.text[:0]
	for {
		var rest []byte
		if len(row) > 0 && row[0] == '"' {
			row = row[1:]
			for {
				i := bytes.IndexByte(row, '"')
				if i < 0 {
					return engine.Errorf(engine.Decode, "not CSV: field %d is not closed", len(t.fields)+1)
				}
				t.text = append(t.text, row[:i]...)
				row = row[i+1:]
				if len(row) == 0 || row[0] != '"' {
					break
				}
				t.text = append(t.text, '"')
				row = row[1:]
			}
			if len(row) > 0 && row[0] != t.comma {
				return engine.Errorf(engine.Decode, "not CSV: text after the closing quote of field %d",
					len(t.fields)+1)
			}
			rest = row
		} else {
			i := bytes.IndexByte(row, t.comma)
			if i < 0 {
				i = len(row)
			}
			t.text = append(t.text, row[:i]...)
			rest = row[i:]
		}
		t.fields = append(t.fields, len(t.text))
		if len(rest) == 0 {
			return nil
		}
		row = rest[1:]
	}
}

func (t *table) setHeader() *engine.Error {
	seen := map[string]bool{}
	for name := range t.values {
		if seen[string(name)] {
			return engine.Errorf(engine.Decode, "two columns are named %q", name)
		}
		seen[string(name)] = true
		t.keys = append(t.keys, append(doc.AppendString(nil, name), ':'))
	}
	return nil
}

// values yields the fields of the row.
func (t *table) values(yield func([]byte) bool) {
	from := 0
	for _, to := range t.fields {
		if !yield(t.text[from:to]) {
			return
		}
		from = to
	}
}

// object makes a JSON object of the row, or an array where nothing names the fields.
func (t *table) object() []byte {
	dst := t.out.room(2*len(t.text) + 16*len(t.fields))
	open, end := byte('{'), byte('}')
	if t.keys == nil {
		open, end = '[', ']'
	}
	dst = append(dst, open)
	i := 0
	for v := range t.values {
		if i > 0 {
			dst = append(dst, ',')
		}
		if t.keys != nil {
			dst = append(dst, t.keys[i]...)
		}
		dst = doc.AppendString(dst, v)
		i++
	}
	return t.out.keep(append(dst, end))
}
