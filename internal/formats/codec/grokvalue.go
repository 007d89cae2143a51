package codec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
)

// append appends the object of a match. m is as in package regexp.
func (f *grokField) append(dst, payload []byte, m []int, most int) ([]byte, error) {
	o := newObject(dst, false)
	for _, c := range f.fields {
		if !c.matched(m) {
			continue
		}
		if err := o.addRaw(c.name, ""); err != nil {
			return dst, err
		}
		var err error
		if len(c.fields) > 0 {
			o.dst, err = c.append(o.dst, payload, m, most)
		} else {
			o.dst, err = c.values(o.dst, payload, m)
		}
		switch {
		case err != nil:
			return dst, Under(c.name, err)
		case len(o.dst) > most:
			return dst, ErrLimit
		}
	}
	return o.end(), nil
}

// matched reports whether the field has a value.
func (f *grokField) matched(m []int) bool {
	for _, c := range f.fields {
		if c.matched(m) {
			return true
		}
	}
	return slices.ContainsFunc(f.groups, func(g int) bool { return m[2*g] >= 0 })
}

// values appends what the field's groups have matched: a list if several have.
func (f *grokField) values(dst, payload []byte, m []int) (_ []byte, err error) {
	n, start := 0, len(dst)
	for _, g := range f.groups {
		if m[2*g] < 0 {
			continue
		}
		if n++; n > 1 {
			dst = append(dst, ',')
		}
		if dst, err = f.value(dst, string(payload[m[2*g]:m[2*g+1]])); err != nil {
			return dst, err
		}
	}
	if n > 1 {
		dst = append(slices.Insert(dst, start, '['), ']')
	}
	return dst, nil
}

// value appends text as the field's type.
func (f *grokField) value(dst []byte, s string) ([]byte, error) {
	switch f.kind {
	case "int":
		n := strings.TrimPrefix(s, "+")
		if digits := strings.TrimPrefix(n, "-"); digits != "" && strings.Trim(digits, "0123456789") == "" {
			digits = strings.TrimLeft(digits[:len(digits)-1], "0") + digits[len(digits)-1:]
			if n[0] == '-' {
				dst = append(dst, '-')
			}
			return append(dst, digits...), nil
		}
		return dst, fmt.Errorf("%.40q is not a whole number", s)
	case "float":
		x, err := strconv.ParseFloat(s, 64)
		if err != nil || x-x != 0 || x == 0 && !doc.SpellsZero(s) {
			return dst, fmt.Errorf("%.40q is not a number", s)
		}
		return AppendFloat(dst, x, 64), nil
	case "bool":
		b, err := strconv.ParseBool(s)
		if err != nil {
			return dst, fmt.Errorf("%.40q is neither true nor false", s)
		}
		return strconv.AppendBool(dst, b), nil
	}
	return appendText(dst, s)
}
