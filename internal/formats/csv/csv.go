// Package csv reads and writes delimited text (RFC 4180), in the same way everywhere in flowd. Start at [Row] for a
// stream, and at [Text] for a complete text.
//
// A field is the text between two delimiters, byte for byte, or between quotes, where a doubled quote means one. In a
// field that does not begin with a quote, quotes are text. Records end with   or \r . Empty lines are not records.
package csv

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode/utf8"
)

// Row finds and parses records, one at a time. It is not safe for concurrent use.
type Row struct {
	Comma string // the delimiter

	// Of the record whose end is searched:
	inQuotes bool
	quoted   bool // the current field began with a quote
	inField  bool // the current field has begun

	fields []int  // of the parsed record: the ends of fields in text
	text   []byte // its fields, unquoted
}

// End returns the index of the line feed that ends a record, or -1. A record may be passed in pieces that do not
// split a delimiter: End remembers earlier pieces.
func (r *Row) End(data []byte) int {
	if !r.inQuotes && !r.quoted {
		// fast path: most records have no quotes
		if i := bytes.IndexByte(data, '\n'); i >= 0 && bytes.IndexByte(data[:i], '"') < 0 {
			r.inField = false
			return i
		}
	}
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"' && r.quoted:
			r.inQuotes = !r.inQuotes
		case c == '"' && !r.inField:
			r.inQuotes, r.quoted = true, true
		case r.inQuotes:
		case c == r.Comma[0] && (len(r.Comma) == 1 || bytes.HasPrefix(data[i:], []byte(r.Comma))):
			r.quoted, r.inField = false, false
			i += len(r.Comma) - 1
			continue
		case c == '\n':
			r.quoted, r.inField = false, false
			return i
		}
		r.inField = true
	}
	return -1
}

// Rest ends the text, and reports whether a quote is still open.
func (r *Row) Rest() (open bool) {
	open = r.inQuotes
	r.inQuotes, r.quoted, r.inField = false, false, false
	return open
}

// errCR is the error for text whose lines end with \r, which looks like one line.
var errCR = errors.New(`a carriage return inside a field without quotes (if lines end with \r alone, convert them to \n)`)

// Read parses a record without its line end. Its fields are valid until the next Read.
func (r *Row) Read(record []byte) error {
	if !utf8.Valid(record) {
		return errors.New("the record is not valid UTF-8")
	}
	r.fields, r.text = r.fields[:0], r.text[:0]
	for rest := record; ; {
		var err error
		if len(rest) > 0 && rest[0] == '"' {
			rest, err = r.unquote(rest[1:])
		} else {
			rest, err = r.plain(rest)
		}
		if err != nil {
			return fmt.Errorf("field %d: %w", len(r.fields)+1, err)
		}
		r.fields = append(r.fields, len(r.text))
		if len(rest) == 0 {
			return nil
		}
		rest = rest[len(r.Comma):]
	}
}

// plain parses a field without quotes.
func (r *Row) plain(rest []byte) ([]byte, error) {
	i := 0
	if len(r.Comma) == 1 {
		i = bytes.IndexByte(rest, r.Comma[0])
	} else {
		i = bytes.Index(rest, []byte(r.Comma))
	}
	if i < 0 {
		i = len(rest)
	}
	if bytes.IndexByte(rest[:i], '\r') >= 0 {
		return nil, errCR
	}
	r.text = append(r.text, rest[:i]...)
	return rest[i:], nil
}

// unquote parses a quoted field, after its first quote.
func (r *Row) unquote(rest []byte) ([]byte, error) {
	for {
		i := bytes.IndexByte(rest, '"')
		if i < 0 {
			return nil, errors.New("its quote is not closed")
		}
		r.text = append(r.text, rest[:i]...)
		rest = rest[i+1:]
		switch {
		case len(rest) == 0 || bytes.HasPrefix(rest, []byte(r.Comma)):
			return rest, nil
		case rest[0] != '"':
			return nil, errors.New("text follows its closing quote")
		}
		r.text = append(r.text, '"')
		rest = rest[1:]
	}
}

// Len returns the number of fields.
func (r *Row) Len() int { return len(r.fields) }

// Size returns the length of all fields, in bytes.
func (r *Row) Size() int { return len(r.text) }

// Fields yields the fields of the record.
func (r *Row) Fields() iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		from := 0
		for i, to := range r.fields {
			if !yield(i, r.text[from:to]) {
				return
			}
			from = to
		}
	}
}

// Texts returns copies of the fields.
func (r *Row) Texts() []string {
	text, from := string(r.text), 0
	all := make([]string, len(r.fields))
	for i, to := range r.fields {
		all[i], from = text[from:to], to
	}
	return all
}

// Text parses the records of a text.
type Text struct {
	Row
	Line   int    // where the record begins, from 1
	Record []byte // without its line end

	rest  []byte
	lines int // before rest
}

// NewText starts at the beginning of the text, after a byte order mark.
func NewText(text []byte, comma rune) *Text {
	return &Text{Row: Row{Comma: string(comma)}, rest: bytes.TrimPrefix(text, []byte("\ufeff"))}
}

// Next parses the next record. It returns io.EOF after the last one. Other errors name the line.
func (t *Text) Next() error {
	for len(t.rest) > 0 {
		record := t.rest
		i := t.End(record)
		if i >= 0 {
			record, t.rest = record[:i], record[i+1:]
		} else {
			t.rest = nil
		}
		open := i < 0 && t.Rest()
		t.Line = t.lines + 1
		t.lines += 1 + bytes.Count(record, []byte("\n"))
		if record = bytes.TrimSuffix(record, []byte("\r")); len(record) == 0 {
			continue
		}
		t.Record = record
		err := t.Read(record)
		if open {
			err = errors.New("a quote is not closed")
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", t.Line, err)
		}
		return nil
	}
	return io.EOF
}

// AppendField appends field i of n, with the delimiter or line end after it.
func AppendField(dst []byte, text string, comma rune, i, n int) []byte {
	// A single empty field would be an empty line, which is not a record. Some readers drop leading blanks.
	quote := text == "" && n == 1 || strings.HasPrefix(text, " ") || strings.ContainsRune(text, comma) ||
		strings.ContainsAny(text, "\"\r\n")
	if quote {
		dst = append(dst, '"')
		for j := range len(text) {
			if text[j] == '"' {
				dst = append(dst, '"')
			}
			dst = append(dst, text[j])
		}
		dst = append(dst, '"')
	} else {
		dst = append(dst, text...)
	}
	if i == n-1 {
		return append(dst, '\n')
	}
	return utf8.AppendRune(dst, comma)
}
