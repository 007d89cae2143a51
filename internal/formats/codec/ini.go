package codec

import (
	"errors"
	"fmt"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
)

// INI reads and writes configuration with [section] lines before groups of key=value.
//
// It does not use gopkg.in/ini.v1, which changes data silently: a key "-" becomes "#1", quotes are removed from keys
// and single-quoted values, [DEFAULT] is merged into the keys before all sections, and it can't distinguish "5" from
// 5, or a key alone from key=true. Its errors have no line. (Version 1.67.0 of 2022, the last, with all relevant
// options set.)
type INI struct {
	Numbers bool `yaml:"numbers" doc:"Decoding turns values that are JSON numbers into numbers."`
}

var _ Expanding = (*INI)(nil)

// Decode decodes to an object of the keys before the first section, and of an object per section. Lines that begin
// with ; or # are comments, a key without a value is true, and a repeated key becomes a list.
func (c *INI) Decode(dst, payload []byte) ([]byte, error) {
	sections, err := parseINI(strings.TrimPrefix(string(payload), "\ufeff"))
	if err != nil {
		return dst, fmt.Errorf("ini: %w", err)
	}
	o := newObject(dst, c.Numbers)
	for i, s := range sections {
		if i > 0 {
			if err := o.addRaw(s.name, ""); err != nil {
				return dst, fmt.Errorf("ini: %w", err)
			}
			o.dst = append(o.dst, '{')
			o.fields = 0
		}
		for _, p := range s.keys.list {
			if err := o.addPair(p); err != nil {
				return dst, fmt.Errorf("ini: %w", err)
			}
		}
		if i > 0 {
			o.dst = append(o.dst, '}')
			o.fields = 1
		}
	}
	return o.end(), nil
}

type iniSection struct {
	name string
	keys pairs
}

// parseINI returns the keys before the first section, and the sections.
func parseINI(s string) ([]*iniSection, error) {
	sections := []*iniSection{{}}
	named := map[string]*iniSection{}
	in := sections[0]
	n := 0
	for line := range strings.Lines(s) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == ';' || line[0] == '#' {
			continue
		}
		if line[0] != '[' {
			p, err := iniPair(line)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
			in.keys.put(p)
			continue
		}
		name, ok := strings.CutSuffix(line[1:], "]")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, fmt.Errorf("line %d: %.40q is not a section such as [name]", n, line)
		}
		if in, ok = named[name]; !ok {
			if sections[0].keys.find(name) >= 0 {
				return nil, fmt.Errorf("line %d: section %q has the name of a key before all sections", n, name)
			}
			in = &iniSection{name: name}
			named[name] = in
			sections = append(sections, in)
		}
	}
	return sections, nil
}

func iniPair(line string) (pair, error) {
	i := strings.IndexAny(line, "=:")
	if i < 0 {
		return pair{key: line, flag: true}, nil
	}
	p := pair{key: strings.TrimSpace(line[:i]), value: strings.TrimSpace(line[i+1:])}
	if p.key == "" {
		return p, fmt.Errorf("there is no key before %q", line[i:i+1])
	}
	if strings.HasPrefix(p.value, `"`) {
		if text, rest, err := unquote(p.value); err == nil && rest == "" {
			p.value, p.quoted = text, true
		}
	}
	return p, nil
}

// Working returns the memory for the lists of keys.
func (c *INI) Working(payload []byte) int {
	return pairsWorking(payload, '\n') + 340*strings.Count(str(payload), "[")
}

// DecodeWithin is like Decode: the result is hardly longer than the input.
func (c *INI) DecodeWithin(dst, payload []byte, _ int) ([]byte, error) { return c.Decode(dst, payload) }

// Encode writes an object: first the fields that are not objects, then a section for each object. Null is empty.
func (c *INI) Encode(dst, json []byte) ([]byte, error) {
	if json[0] != '{' {
		return dst, fmt.Errorf("ini: %s is not an object", kind(json))
	}
	before := dst
	dst, err := appendINI(dst, json, true)
	if err != nil {
		return before, fmt.Errorf("ini: %w", err)
	}
	for name, section := range doc.Members(json) {
		if section[0] != '{' {
			continue
		}
		if name != strings.TrimSpace(name) || name == "" || strings.ContainsAny(name, "\r\n") {
			return before, fmt.Errorf("ini: %q can't be the name of a section (give it another name with `rename`)", name)
		}
		if len(dst) > len(before) {
			dst = append(dst, '\n')
		}
		dst = append(dst, '[')
		dst = append(dst, name...)
		dst = append(dst, "]\n"...)
		if dst, err = appendINI(dst, section, false); err != nil {
			return before, fmt.Errorf("ini: %w", Under(name, err))
		}
	}
	return dst, nil
}

// appendINI appends keys and values.
func appendINI(dst, object []byte, sections bool) ([]byte, error) {
	for key, value := range repeated(object) {
		switch {
		case value[0] == '{' && sections:
			continue
		case value[0] == '{' || value[0] == '[':
			return dst, Under(key, fmt.Errorf("%s has no place in INI (write it as text, with `encode: {json: {}, from: …}`)",
				kind(value)))
		case key == "" || strings.TrimSpace(key) != key || strings.ContainsAny(key, "=:\r\n") ||
			strings.ContainsAny(key[:1], "[;#"):
			return dst, Under(key, errINIKey)
		}
		dst = append(dst, key...)
		dst = append(dst, " = "...)
		text := Cell(value)
		if value[0] == '"' && (strings.TrimSpace(text) != text || strings.ContainsAny(text, "\r\n\"\\")) {
			text = `"` + quoteEscapes.Replace(text) + `"`
		}
		dst = append(dst, text...)
		dst = append(dst, '\n')
	}
	return dst, nil
}

var errINIKey = errors.New("can't be a key of INI (give it another name with `rename`)")
