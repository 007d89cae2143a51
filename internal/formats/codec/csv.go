package codec

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/csv"
	"github.com/flowd-io/flowd/schema"
)

// CSV reads and writes comma-separated values (RFC 4180).
type CSV struct {
	Columns   []string  `yaml:"columns" doc:"Names of the columns, for payloads without a header line: a message is then one record, and decodes to one object. Without them the first line names the columns, and a message decodes to a list of objects."`
	Delimiter Delimiter `yaml:"delimiter" doc:"The character between values; a comma by default."`
	Numbers   bool      `yaml:"numbers" doc:"Decoding turns values that are JSON numbers into numbers."`
}

// CheckConfig rejects duplicate names.
func (c *CSV) CheckConfig(report func(path, message, remedy string)) {
	if twice, ok := duplicate(c.Columns); ok {
		report("columns", "two columns are named "+twice, "name each once")
	}
}

// Decode decodes one record to an object, or several to a list of objects.
func (c *CSV) Decode(dst, payload []byte) ([]byte, error) {
	return c.DecodeWithin(dst, payload, MaxSize)
}

// Working returns 0: rows are read one at a time.
func (c *CSV) Working([]byte) int { return 0 }

// DecodeWithin is Decode with a limit. Every record repeats all names, so a wide header can produce a large result.
func (c *CSV) DecodeWithin(dst, payload []byte, limit int) ([]byte, error) {
	t := csv.NewText(payload, c.comma())
	var err error
	if len(c.Columns) > 0 {
		dst, err = c.record(dst, t)
	} else {
		dst, err = c.table(dst, t, limit)
	}
	if err != nil {
		err = fmt.Errorf("csv: %w", err)
	}
	return dst, err
}

func (c *CSV) comma() rune { return rune(cmp.Or(c.Delimiter, ',')) }

// record decodes a payload that is one record.
func (c *CSV) record(dst []byte, t *csv.Text) ([]byte, error) {
	switch err := t.Next(); {
	case errors.Is(err, io.EOF):
		return dst, errors.New("the payload is empty")
	case err != nil:
		return dst, err
	case t.Len() != len(c.Columns):
		return dst, fmt.Errorf("%d values for %d columns", t.Len(), len(c.Columns))
	}
	dst, err := c.object(dst, c.Columns, t)
	if err != nil {
		return dst, err
	}
	if err := t.Next(); !errors.Is(err, io.EOF) {
		return dst,
			errors.New("more than one record (split the lines first, or leave out `columns` and give a header line)")
	}
	return dst, nil
}

// table decodes a payload whose first line is the header.
func (c *CSV) table(dst []byte, t *csv.Text, limit int) ([]byte, error) {
	err := t.Next()
	if errors.Is(err, io.EOF) {
		return dst,
			errors.New("the payload is empty, without even a header line (name the `columns` if it has none)")
	}
	if err != nil {
		return dst, err
	}
	header := t.Texts()
	if twice, ok := duplicate(header); ok {
		return dst, fmt.Errorf("column %q appears twice in the header line", twice)
	}
	start := len(dst)
	dst = append(dst, '[')
	for n := 0; ; n++ {
		err := t.Next()
		if errors.Is(err, io.EOF) {
			return append(dst, ']'), nil
		}
		if err != nil {
			return dst, err
		}
		if t.Len() != len(header) {
			return dst, fmt.Errorf("line %d: %d values for %d columns", t.Line, t.Len(), len(header))
		}
		if n > 0 {
			dst = append(dst, ',')
		}
		if dst, err = c.object(dst, header, t); err != nil {
			return dst, err
		}
		if err := checkSize(dst, start, limit); err != nil {
			return dst, err
		}
	}
}

func (c *CSV) object(dst []byte, names []string, t *csv.Text) ([]byte, error) {
	o := newObject(dst, c.Numbers)
	for i, value := range t.Fields() {
		if err := o.add(names[i], str(value)); err != nil {
			return o.dst, err
		}
	}
	return o.end(), nil
}

// duplicate returns a name that occurs twice.
func duplicate(names []string) (string, bool) {
	if len(names) < 2 {
		return "", false
	}
	seen := make(map[string]bool, len(names))
	for _, n := range names {
		if seen[n] {
			return n, true
		}
		seen[n] = true
	}
	return "", false
}

// Encode writes an object as one record of the named columns, and a list of objects as one line each, after a header
// line if no columns are named.
func (c *CSV) Encode(dst, json []byte) ([]byte, error) {
	t := Table{CSV: c}
	switch {
	case json[0] == '{' && len(c.Columns) > 0:
		return t.Append(dst, json)
	case json[0] == '{':
		return dst,
			errors.New("csv: one object needs `columns`, so that every message has the same (or encode a list of objects)")
	case json[0] != '[':
		return dst, fmt.Errorf("csv: %s is neither an object nor a list of objects", kind(json))
	}
	var err error
	for element := range doc.Elements(json) {
		if dst, err = t.Append(dst, element); err != nil {
			return dst, err
		}
	}
	if t.at == nil && len(c.Columns) == 0 {
		return dst, errors.New("csv: an empty list has no columns (name them with `columns`)")
	}
	return dst, nil
}

// Table appends objects as lines of one CSV text. Without named columns, the keys of the first object become the
// columns and the header line.
type Table struct {
	*CSV
	names []string
	at    map[string]int // column of a name
}

// Append appends an object, which must be valid JSON, as a line. A field without a column is an error. A missing
// field is empty.
func (t *Table) Append(dst, object []byte) ([]byte, error) {
	if object[0] != '{' {
		return dst, fmt.Errorf("csv: %s is not an object", kind(object))
	}
	if err := doc.Surrogate(object); err != nil {
		return dst, err
	}
	before := dst
	if t.at == nil {
		t.columns(object)
		if len(t.names) == 0 {
			return dst, errors.New("csv: an object without fields has no columns (name them with `columns`)")
		}
		if len(t.Columns) == 0 {
			dst = appendRecord(dst, t.comma(), t.names)
		}
	}
	values := make([]string, len(t.names))
	for key, value := range doc.Members(object) {
		i, ok := t.at[key]
		if !ok {
			return before, fmt.Errorf("csv: field %q has no column (name all `columns`, or drop it with `keep`)", key)
		}
		values[i] = Cell(value)
	}
	return appendRecord(dst, t.comma(), values), nil
}

// columns determines the columns.
func (t *Table) columns(first []byte) {
	t.names, t.at = nil, map[string]int{}
	add := func(name string) {
		if _, ok := t.at[name]; !ok {
			t.at[name] = len(t.names)
			t.names = append(t.names, name)
		}
	}
	if len(t.Columns) > 0 {
		for _, name := range t.Columns {
			add(name)
		}
		return
	}
	for name := range doc.Members(first) {
		add(name)
	}
}

// Cell returns a JSON value as CSV text: text without quotes, null empty, other values as JSON.
func Cell(json []byte) string {
	if string(json) == "null" {
		return ""
	}
	return text(json)
}

func appendRecord(dst []byte, comma rune, values []string) []byte {
	for i, v := range values {
		dst = csv.AppendField(dst, v, comma, i, len(values))
	}
	return dst
}

// Delimiter is a config field that holds one character.
type Delimiter rune

// UnmarshalConfig decodes one character.
func (d *Delimiter) UnmarshalConfig(dec *schema.Decoder, n *schema.Node) {
	text, ok := dec.Text(n)
	if !ok {
		return
	}
	r, size := utf8.DecodeRuneInString(text)
	if size == 0 || size != len(text) || r == utf8.RuneError || strings.ContainsRune("\"\r\n", r) {
		dec.Report(n, schema.Problem{Code: schema.BadValue, Message: fmt.Sprintf("%q is not a valid delimiter", text),
			Remedy: `give one character, such as ";" or "\t"`})
		return
	}
	*d = Delimiter(r)
}

// DescribeConfig describes text.
func (d *Delimiter) DescribeConfig() *schema.Type { return schema.AnyOf("character", "") }
