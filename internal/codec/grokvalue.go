package codec

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
)

// append appends the object of a match; m is as of regexp.
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
			at := c.group(m)
			o.dst, err = c.value(o.dst, string(payload[m[2*at]:m[2*at+1]]))
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

// matched says whether the field has a value.
func (f *grokField) matched(m []int) bool {
	for _, c := range f.fields {
		if c.matched(m) {
			return true
		}
	}
	return f.group(m) >= 0
}

// group is the first that took part, or -1.
func (f *grokField) group(m []int) int {
	for _, g := range f.groups {
		if m[2*g] >= 0 {
			return g
		}
	}
	return -1
}

// value appends text as what it is to be.
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
