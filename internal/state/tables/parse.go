package tables

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
	"github.com/flowd-io/flowd/internal/formats/csv"
	"github.com/flowd-io/flowd/schema"
)

// content is one version of a table: its rows, or a database of networks.
type content interface {
	// find returns the value of a key, or nil. The value is shared and must not be changed.
	find(keys []any) (any, error)
	// size returns the number of rows, or 0 if unknown, and how much memory they take.
	size() (rows int, bytes schema.Size)
}

// parse parses a file, which must not change afterwards: rows may refer to it.
func parse(c *Config, format string, data []byte) (content, error) {
	if len(data) == 0 {
		return nil, errors.New("the file is empty")
	}
	if format == "mmdb" {
		return openNetworks(c, data)
	}
	b := &builder{cfg: c, unit: "line"}
	if c.SQL != nil {
		b.unit = "row"
	}
	var err error
	switch format {
	case "csv":
		err = b.csv(data)
	case "ndjson":
		err = b.lines(data)
	case "yaml":
		err = b.yaml(data)
	default:
		err = b.document(data)
	}
	if err != nil {
		return nil, err
	}
	return b.finish()
}

// csv parses records. The first one names the columns unless the configuration does.
func (b *builder) csv(data []byte) error {
	t := csv.NewText(data, rune(cmp.Or(b.cfg.Delimiter, ',')))
	columns := b.cfg.Columns
	if len(columns) == 0 {
		if err := t.Next(); err != nil {
			return err
		}
		columns = t.Texts()
	}
	names, at, err := b.header(columns)
	if err != nil {
		return err
	}
	b.rows.text, b.rows.parse = data, &records{names: names, comma: t.Comma, numbers: b.cfg.Numbers}
	key := make([]any, len(at))
	for {
		err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if t.Len() != len(names) {
			return fmt.Errorf("line %d: %d values for %d columns", t.Line, t.Len(), len(names))
		}
		for column, value := range t.Fields() {
			if i := slices.Index(at, column); i >= 0 {
				key[i] = b.rows.parse.cell(string(value))
			}
		}
		if i := slices.Index(key, ""); i >= 0 {
			return b.keyless(t.Line, i)
		}
		if err := b.add(b.spanOf(t.Record), t.Line, key); err != nil {
			return err
		}
	}
}

// header returns the columns as the beginnings of JSON fields, and the indexes of the key's columns.
func (b *builder) header(columns []string) (names [][]byte, key []int, err error) {
	seen := make(map[string]bool, len(columns))
	for i, c := range columns {
		if seen[c] {
			return nil, nil, fmt.Errorf("column %q appears twice", c)
		}
		seen[c] = true
		if !utf8.ValidString(c) {
			return nil, nil, fmt.Errorf("the name of column %d is not valid UTF-8", i+1)
		}
		names = append(names, append(doc.AppendString([]byte{','}, c), ':'))
	}
	for _, k := range b.cfg.Key {
		i := slices.Index(columns, k)
		if i < 0 {
			return nil, nil, fmt.Errorf("there is no column %q (%s)", k, schema.Suggest(k, columns, "name one in `key`"))
		}
		key = append(key, i)
	}
	names[0][0] = '{'
	return names, key, nil
}

// records converts CSV records to JSON when they are looked up: with all names in each row, a table would take
// several times the memory of its file.
type records struct {
	names   [][]byte
	comma   string
	numbers bool
}

// object converts a record, which was checked before, to a JSON object.
func (r *records) object(record []byte) ([]byte, error) {
	row := csv.Row{Comma: r.comma}
	if err := row.Read(record); err != nil {
		return nil, err
	}
	var text []byte
	for i, value := range row.Fields() {
		if text = append(text, r.names[i]...); r.number(string(value)) {
			text = append(text, value...)
			continue
		}
		text = doc.AppendString(text, string(value))
	}
	return append(text, '}'), nil
}

// number reports whether a CSV value becomes a number.
func (r *records) number(value string) bool { return r.numbers && codec.IsNumber(value) }

// cell returns a CSV value as part of a key.
func (r *records) cell(value string) any {
	if r.number(value) {
		if n, err := doc.ParseNumber([]byte(value)); err == nil {
			return n
		}
	}
	return value
}

func (b *builder) keyless(at, column int) error {
	return fmt.Errorf("%s %d has no %s, which is its key", b.unit, at, strconv.Quote(b.cfg.Key[column]))
}

// lines parses an object from each line.
func (b *builder) lines(data []byte) error {
	b.rows.text = data
	for from, line := 0, 1; from < len(data); line++ {
		end := len(data)
		if n := bytes.IndexByte(data[from:], '\n'); n >= 0 {
			end = from + n
		}
		if text := bytes.TrimSpace(data[from:end]); len(text) > 0 {
			if err := valid(text); err != nil {
				return fmt.Errorf("line %d: %w", line, err)
			}
			if err := b.row(text, line); err != nil {
				return err
			}
		}
		from = end + 1
	}
	return nil
}

func valid(text []byte) error {
	var d doc.Doc
	d.Reset(text, nil)
	return d.Valid()
}

// yaml parses what would be a list or an object in JSON.
func (b *builder) yaml(data []byte) error {
	var y codec.YAML
	if working := y.Working(data); working > 4*int(b.cfg.MaxSize) {
		return engine.Errorf(engine.TooLarge,
			"to read it as YAML takes about %s of memory (write it as NDJSON, or raise `max_size`)", schema.Size(working))
	}
	text, err := y.DecodeWithin(nil, data, int(b.cfg.MaxSize))
	if errors.Is(err, codec.ErrLimit) {
		return b.cfg.fits(int(b.cfg.MaxSize) + 1)
	}
	if err != nil {
		return err
	}
	b.unit = "row"
	return b.document(text)
}

// document parses a list of objects, or an object by key.
func (b *builder) document(data []byte) error {
	if err := valid(data); err != nil {
		return err
	}
	data = bytes.TrimSpace(data)
	b.rows.text = data
	place := places{data: data, line: 1, unit: b.unit}
	switch {
	case data[0] == '[' && len(b.cfg.Key) == 0:
		return errors.New("the file is a list of rows (name the fields of their key: `key: id`)")
	case data[0] == '[':
		for row := range doc.Elements(data) {
			if err := b.row(row, place.of(row)); err != nil {
				return err
			}
		}
		return nil
	case data[0] != '{':
		return errors.New("the file is neither a list of objects nor an object by key")
	case len(b.cfg.Key) > 0:
		return errors.New("the file is an object, whose fields are keys (remove `key`, or write a list of rows)")
	}
	for key, value := range doc.Members(data) {
		at := place.of(value)
		if err := b.add(b.spanOf(value), at, []any{key}); err != nil {
			return err
		}
	}
	return nil
}

// row adds an object in b.rows.text that was checked.
func (b *builder) row(row []byte, at int) error {
	if row[0] != '{' {
		return fmt.Errorf("%s %d is %s, not an object", b.unit, at, doc.Kind(row))
	}
	key := make([]any, len(b.cfg.Key))
	for name, raw := range doc.Members(row) {
		i := slices.Index(b.cfg.Key, name)
		if i < 0 {
			continue
		}
		v, err := doc.DecodeRaw(raw)
		if err != nil {
			return fmt.Errorf("%s %d: %q: %w", b.unit, at, name, err)
		}
		key[i] = v
	}
	if i := slices.Index(key, nil); i >= 0 {
		return b.keyless(at, i)
	}
	return b.add(b.spanOf(row), at, key)
}

// spanOf returns the place of a part of b.rows.text. Both end with the same array.
func (b *builder) spanOf(part []byte) span {
	from := offset(b.rows.text, part)
	return span{uint32(from), uint32(from + len(part))}
}

// places returns the line of values in a document. They must be asked for in order.
type places struct {
	data []byte
	unit string
	at   int // end of the text examined so far
	line int
	row  int
}

func (p *places) of(value []byte) int {
	if p.row++; p.unit == "row" {
		return p.row
	}
	from := offset(p.data, value)
	p.line += bytes.Count(p.data[p.at:from], []byte{'\n'})
	p.at = from
	return p.line
}
