package avro

import (
	"encoding/json"
	"fmt"
	"strings"
)

// mostDefaults bounds the values in all defaults of a schema. A default {} of a record contains the defaults of its
// fields, which may have defaults of their own: thirty records that use each other twice would have 2³⁰. The library
// writes all of them when it parses a schema.
const mostDefaults = 250_000

// defaults counts the values of defaults before the library parses the schema.
type defaults struct {
	named map[string][]*shape // by name without namespace
	total int
}

// shape is a type of a schema, reduced to its defaults.
type shape struct {
	name   string   // the name of another type that it stands for
	parts  []*shape // items, values, branches or types of fields
	values []int    // of a record: objects in the default of each field; -1: no default
	size   int      // values in a default {}, or in one element; 0: not known yet
}

// expands returns an error for schemas whose defaults contain too many values. Texts are JSON, or names of types.
func expands(texts []string) error {
	d := defaults{named: map[string][]*shape{}}
	all := make([]*shape, 0, len(texts))
	for _, text := range texts {
		var v any
		if json.Unmarshal([]byte(text), &v) == nil { // the library reports invalid JSON
			all = append(all, d.shape(v))
		}
	}
	for _, s := range all {
		d.sizeOf(s)
	}
	if d.total > mostDefaults {
		return fmt.Errorf("its defaults consist of more than %d values, as they contain each other "+
			"(let fewer records with defaults be defaults themselves)", mostDefaults)
	}
	return nil
}

func (d *defaults) shape(v any) *shape {
	s := &shape{}
	switch v := v.(type) {
	case string:
		s.name = short(v)
	case []any:
		for _, branch := range v {
			s.parts = append(s.parts, d.shape(branch))
		}
	case map[string]any:
		if name, ok := v["name"].(string); ok {
			d.named[short(name)] = append(d.named[short(name)], s)
		}
		for _, key := range [...]string{"type", "items", "values"} {
			if part, ok := v[key]; ok {
				s.parts = append(s.parts, d.shape(part))
			}
		}
		fields, _ := v["fields"].([]any)
		s.values = make([]int, len(s.parts), len(s.parts)+len(fields))
		for i := range s.values {
			s.values[i] = -1
		}
		for _, field := range fields {
			f, _ := field.(map[string]any)
			objects := -1
			if value, ok := f["default"]; ok {
				objects = objectsIn(value)
			}
			delete(f, "name") // the field's name, which is not that of its type unless the type is inline
			s.parts, s.values = append(s.parts, d.shape(f)), append(s.values, objects)
		}
	}
	return s
}

func short(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

func objectsIn(v any) (n int) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			n += objectsIn(item)
		}
	case map[string]any:
		n = 1
		for _, item := range v {
			n += objectsIn(item)
		}
	}
	return n
}

// sizeOf returns how many values a default {} of a type contains, or one element of it. A type inside itself can't
// have such a default.
func (d *defaults) sizeOf(s *shape) int {
	if s.size > 0 || d.total > mostDefaults {
		return max(s.size, 1)
	}
	s.size = 1
	most, sum := 1, 1
	for _, other := range d.named[s.name] {
		most = max(most, d.sizeOf(other))
	}
	for i, part := range s.parts {
		size := d.sizeOf(part)
		most = max(most, size)
		if i >= len(s.values) || s.values[i] < 0 {
			continue
		}
		if size = max(1, s.values[i]*size); size > mostDefaults {
			size = mostDefaults + 1
		}
		sum += size
		d.total += size
	}
	s.size = max(most, sum)
	return s.size
}
