package codec

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
)

// Form reads and writes the fields of HTML forms and URL queries.
type Form struct {
	Numbers bool `yaml:"numbers" doc:"Decoding turns values that are JSON numbers into numbers."`
}

// Decode decodes to an object. A repeated field becomes a list.
func (c *Form) Decode(dst, payload []byte) ([]byte, error) {
	var fields formFields
	for field := range strings.SplitSeq(strings.TrimRight(string(payload), "\r\n"), "&") {
		if field == "" {
			continue
		}
		name, value, _ := strings.Cut(field, "=")
		name, err := url.QueryUnescape(name)
		if err == nil {
			value, err = url.QueryUnescape(value)
		}
		if err != nil {
			return dst, fmt.Errorf("form: %.40q: %w", field, err)
		}
		fields.put(name, value)
	}
	o := newObject(dst, c.Numbers)
	for _, f := range fields.list {
		if err := f.add(&o); err != nil {
			return dst, fmt.Errorf("form: %w", err)
		}
	}
	return o.end(), nil
}

// formFields are fields that may be repeated, in the order of their first occurrence.
type formFields struct {
	list []formField
	at   map[string]int // index in list, by name
}

func (fs *formFields) put(name, value string) {
	i, known := fs.at[name]
	if !known {
		if fs.at == nil {
			fs.at = map[string]int{}
		}
		i = len(fs.list)
		fs.at[name] = i
		fs.list = append(fs.list, formField{name: name})
	}
	fs.list[i].values = append(fs.list[i].values, value)
}

type formField struct {
	name   string
	values []string
}

func (f formField) add(o *object) error {
	if len(f.values) == 1 {
		return o.add(f.name, f.values[0])
	}
	if err := o.addRaw(f.name, "["); err != nil {
		return err
	}
	for i, v := range f.values {
		if i > 0 {
			o.dst = append(o.dst, ',')
		}
		if err := o.value(v); err != nil {
			return fmt.Errorf("field %q %w", f.name, err)
		}
	}
	o.dst = append(o.dst, ']')
	return nil
}

// Working returns the memory for the list of values.
func (c *Form) Working(payload []byte) int { return pairsWorking(payload, '&') + 2*len(payload) }

// DecodeWithin is like Decode: the result is hardly longer than the input.
func (c *Form) DecodeWithin(dst, payload []byte, _ int) ([]byte, error) {
	return c.Decode(dst, payload)
}

// Encode writes the fields of an object: a list as a repeated field, null as an empty value.
func (c *Form) Encode(dst, json []byte) ([]byte, error) {
	if json[0] != '{' {
		return dst, fmt.Errorf("form: %s is not an object", kind(json))
	}
	start := len(dst)
	field := func(name string, value []byte) {
		if len(dst) > start {
			dst = append(dst, '&')
		}
		dst = append(dst, url.QueryEscape(name)...)
		dst = append(dst, '=')
		dst = append(dst, url.QueryEscape(Cell(value))...)
	}
	for name, value := range doc.Members(json) {
		if value[0] != '[' {
			field(name, value)
			continue
		}
		for item := range doc.Elements(value) {
			field(name, item)
		}
	}
	return dst, nil
}
