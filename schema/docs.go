package schema

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Field is one line of a type's reference.
type Field struct {
	Path     string   // "tls.cert"
	Type     string   // "duration", "list of text"
	Default  string   // as written in a file; "" means none
	Doc      string   // sentences
	Allowed  []string // the only values, if they are few
	Required bool
	Main     bool   // the type's short form
	Choice   string // the group of fields of which only one may be set
	Min, Max string
	Pending  string // what is missing before it has an effect
}

// Fields returns the fields of a struct type and of the structs in it, in order. It leaves out the fields of
// components, which have references of their own.
func (t *Type) Fields() []Field {
	if t.shape() == nil {
		return nil
	}
	return listed(nil, "", t.shape(), t.value(), map[*shape]bool{})
}

// Keys returns the names of the fields of a struct type, in order, without those of nested structs.
func (t *Type) Keys() []string {
	s := t.shape()
	if s == nil {
		return nil
	}
	return s.names()
}

// Text returns the docs' name for the type: "duration", "list of text".
func (t *Type) Text() string {
	if t.text != "" {
		return t.text
	}
	return t.shape().text()
}

// noun returns Text for a sentence: "a duration such as 2s".
func (t *Type) noun() string {
	if t.text != "" {
		return t.text
	}
	return t.shape().expected()
}

func listed(all []Field, prefix string, s *shape, v reflect.Value, open map[*shape]bool) []Field {
	if s.kind == pointerKind {
		if s = s.elem; v.IsNil() {
			v = reflect.New(s.rt).Elem()
		} else {
			v = v.Elem()
		}
	}
	if s.kind == listKind || s.kind == mapKind || s.kind == orderedKind {
		prefix += map[bool]string{true: "[]", false: ".NAME"}[s.kind == listKind]
		s = s.elem
		v = reflect.New(s.rt).Elem()
	}
	if s.kind == customKind {
		if t := s.described(); t != nil {
			for _, alternative := range t.anyOf {
				if one := alternative.shape(); one != nil {
					all = listed(all, prefix, one, alternative.value(), open)
				}
			}
		}
		return all
	}
	if s.kind != recordKind || open[s] || s.variant != nil && len(open) > 0 {
		return all
	}
	open[s] = true
	defer delete(open, s)
	for _, f := range s.list {
		fv := v.FieldByIndex(f.index)
		path := strings.TrimPrefix(prefix+"."+f.name, ".")
		all = append(all, Field{
			Path: path, Type: f.shape.text(), Default: defaultText(f, fv), Doc: f.doc,
			Allowed: f.check.oneof, Required: f.check.required, Main: s.main == f,
			Choice: f.group, Min: f.check.min, Max: f.check.max, Pending: f.pending,
		})
		all = listed(all, path, f.shape, fv, open)
	}
	return all
}

// text returns the docs' name for a value of this shape.
func (s *shape) text() string {
	switch s.kind {
	case pointerKind:
		return s.elem.text()
	case listKind, mapKind, orderedKind:
		return nouns[s.kind].docs + s.elem.plural()
	case customKind:
		if t := s.described(); t != nil {
			return t.Text()
		}
	case recordKind:
		return s.recordText()
	}
	return nouns[s.kind].docs
}

func (s *shape) recordText() string {
	if s.variant != nil {
		return s.variants().Kind()
	}
	var forms []string
	for _, g := range s.groups {
		forms = append(forms, strings.Join(g.names(), ", "))
	}
	if s.main != nil {
		forms = append(forms, s.main.shape.text())
	}
	return strings.Join(append(forms, "mapping"), " or ")
}

// plural returns the plural of text.
func (s *shape) plural() string {
	text := s.text()
	switch {
	case text == "text" || strings.Contains(text, " "):
		return strings.Replace(text, "number", "numbers", 1)
	case strings.HasSuffix(text, "s"):
		return text
	}
	return text + "s"
}

// defaultText returns a field's default as written in a file, or "".
func defaultText(f *field, v reflect.Value) string {
	if f.check.required {
		return ""
	}
	if v.IsZero() && f.def != "" {
		return f.def
	}
	return written(f.shape, v)
}

// written returns a value as written in a file, on one line. It returns "" for zero values, which usually mean
// "none", and for values that do not fit on one line.
func written(s *shape, v reflect.Value) string {
	switch {
	case s.kind == boolKind:
		return strconv.FormatBool(v.Bool())
	case v.IsZero():
		return ""
	}
	switch s.kind {
	case textKind:
		return v.String()
	case intKind:
		return strconv.FormatInt(v.Int(), 10)
	case uintKind:
		return strconv.FormatUint(v.Uint(), 10)
	case floatKind:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case durationKind:
		return DurationText(time.Duration(v.Int()))
	case sizeKind:
		return Size(v.Int()).String()
	case secretKind:
		return mask
	case pointerKind:
		return written(s.elem, v.Elem())
	case customKind, textualKind:
		return printed(v)
	case listKind:
		items := make([]string, v.Len())
		for i := range items {
			items[i] = written(s.elem, v.Index(i))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case recordKind:
		for _, f := range s.list {
			if fv := v.FieldByIndex(f.index); f.group != "" && !fv.IsNil() && f.shape.elem.kind == recordKind {
				return f.name
			}
		}
	}
	return ""
}

// printed returns a value of a type that defines how it is printed.
func printed(v reflect.Value) string {
	if s, ok := settable(v).Addr().Interface().(fmt.Stringer); ok {
		return s.String()
	}
	switch v.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
		return fmt.Sprint(v.Interface())
	case reflect.Slice:
		if words := reflect.TypeFor[[]string](); v.CanConvert(words) {
			return "[" + strings.Join(v.Convert(words).Interface().([]string), ", ") + "]"
		}
	}
	return ""
}

// DurationText formats a duration without the zero units that Go prints: 1h, not 1h0m0s.
func DurationText(t time.Duration) string {
	text := t.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
