package framing

import (
	"bytes"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/csv"
)

// table turns each record of a CSV text into a JSON object, with the header's names.
type table struct {
	csv.Row
	header bool     // the first record names the fields
	keys   [][]byte // by column: `"name":`; nil: records are arrays
	out    arena

	begun    bool          // a record was parsed
	unusable *engine.Error // why the header can't name fields
	more     bool          // there are records after it
}

func newTable(comma string, header bool, columns []string) *table {
	t := &table{Row: csv.Row{Comma: comma}, header: header && columns == nil}
	for _, c := range columns {
		t.keys = append(t.keys, append(doc.AppendString(nil, []byte(c)), ':'))
	}
	return t
}

func (t *table) scan(data []byte, from int, eof bool) (end, next int, err *engine.Error) {
	if t.unusable != nil {
		t.more = t.more || len(data) > from
		switch {
		case !eof:
			return -1, len(data), nil
		case t.more:
			t.more = false
			return len(data), len(data), t.unusable
		}
		return len(data), len(data), nil
	}
	if !t.begun && from == 0 { // skips a byte order mark
		switch {
		case !eof && len(data) < len(utf8BOM) && bytes.HasPrefix(utf8BOM, data):
			return -1, 0, nil
		case bytes.HasPrefix(data, utf8BOM):
			from = len(utf8BOM)
		}
	}
	if i := t.End(data[from:]); i >= 0 {
		end = from + i
		return len(trimLine(data[:end+1])), end + 1, nil
	}
	if !eof {
		return -1, len(data), nil
	}
	if t.Rest() {
		err = engine.Errorf(engine.Decode, "not CSV: a quoted field is not closed")
	}
	return len(trimLine(data)), len(data), err
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
			t.unusable = engine.Errorf(engine.Decode, "the rows can't be read: CSV header: %w", err)
			return Record{Body: row, Err: t.unusable}, true
		}
		return Record{}, false
	}
	if err == nil && t.keys != nil && t.Len() != len(t.keys) {
		err = engine.Errorf(engine.Decode, "CSV row has %d fields, the header %d", t.Len(), len(t.keys))
	}
	if err != nil {
		return Record{Body: row, Err: err}, true
	}
	return Record{Body: t.object()}, true
}

func (t *table) parse(row []byte) *engine.Error {
	if err := t.Read(row); err != nil {
		return engine.Errorf(engine.Decode, "not CSV: %w", err)
	}
	return nil
}

func (t *table) setHeader() *engine.Error {
	seen := map[string]bool{}
	for _, name := range t.Fields() {
		if seen[string(name)] {
			return engine.Errorf(engine.Decode, "two columns are named %q (name all with `columns`; the header is then a row, which "+
				"`filter: meta(\"line\") > 1` drops)", name)
		}
		seen[string(name)] = true
		t.keys = append(t.keys, append(doc.AppendString(nil, name), ':'))
	}
	return nil
}

// object turns the row into a JSON object, or an array if nothing names the fields.
func (t *table) object() []byte {
	dst := t.out.room(2*t.Size() + 16*t.Len())
	open, end := byte('{'), byte('}')
	if t.keys == nil {
		open, end = '[', ']'
	}
	dst = append(dst, open)
	for i, v := range t.Fields() {
		if i > 0 {
			dst = append(dst, ',')
		}
		if t.keys != nil {
			dst = append(dst, t.keys[i]...)
		}
		dst = doc.AppendString(dst, v)
	}
	return t.out.keep(append(dst, end))
}
