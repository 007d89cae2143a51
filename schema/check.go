package schema

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// check is the tag `check` of a field.
type check struct {
	required bool
	nonempty bool
	min, max string // in the field's own spelling
	oneof    []string
}

// parseCheck parses the tag of a field whose scalars have the shape leaf.
func parseCheck(tag string, leaf *shape) (check, error) {
	var c check
	if tag == "" {
		return c, nil
	}
	kind, scalar := leaf.scalar()
	for rule := range strings.SplitSeq(tag, ",") {
		word, arg, _ := strings.Cut(rule, "=")
		switch word {
		case "required":
			c.required = true
		case "nonempty":
			c.nonempty = true
		case "min", "max":
			if _, err := compare(kind, "0", arg); !scalar || err != nil {
				return c, fmt.Errorf("check %q is not valid for the field", rule)
			}
			if word == "min" {
				c.min = arg
			} else {
				c.max = arg
			}
		case "oneof":
			if !scalar || arg == "" {
				return c, fmt.Errorf("check %q is not valid for the field", rule)
			}
			c.oneof = strings.Split(arg, "|")
		default:
			return c, fmt.Errorf("unknown check %q", rule)
		}
	}
	return c, nil
}

// broken returns what is wrong with a scalar, given as text, and what to do about it.
func (c *check) broken(kind kind, text string) (message, remedy string) {
	if c.oneof != nil && !slices.Contains(c.oneof, text) {
		remedy := didYouMean(text, c.oneof)
		for _, word := range c.oneof { // warning, for warn
			if remedy == "" && len(word) > 3 && strings.HasPrefix(text, word) {
				remedy = didYouMean(word, c.oneof)
			}
		}
		return "must be one of " + strings.Join(c.oneof, ", "), remedy
	}
	if c.min != "" {
		if order, err := compare(kind, text, c.min); err == nil && order < 0 {
			return "must be at least " + c.min, "write " + c.min + " or more"
		}
	}
	if c.max != "" {
		if order, err := compare(kind, text, c.max); err == nil && order > 0 {
			return "must be at most " + c.max, "write " + c.max + " or less"
		}
	}
	return "", ""
}

// oneOf is the remedy for a value of the wrong kind in a field that takes some words, or "".
func oneOf(f *field) string {
	if f == nil || f.check.oneof == nil {
		return ""
	}
	return "write one of " + strings.Join(f.check.oneof, ", ")
}

// compare orders two scalars of a kind by their texts.
func compare(k kind, a, b string) (int, error) {
	switch k {
	case intKind:
		return order(a, b, func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) })
	case uintKind:
		return order(a, b, func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
	case floatKind:
		return order(a, b, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
	case durationKind:
		return order(a, b, parseDuration)
	case sizeKind:
		return order(a, b, ParseSize)
	}
	return 0, fmt.Errorf("values can't be ordered")
}

func order[T cmp.Ordered](a, b string, parse func(string) (T, error)) (int, error) {
	x, err := parse(a)
	if err != nil {
		return 0, err
	}
	y, err := parse(b)
	return cmp.Compare(x, y), err
}

// empty reports whether a decoded value is empty, for the rule nonempty.
func empty(v reflect.Value, s *shape) bool {
	switch s.kind {
	case orderedKind:
		return v.Addr().Interface().(ordered).Len() == 0
	case listKind, mapKind, textKind:
		return v.Len() == 0
	case customKind: // a list, mapping or text underneath
		if k := v.Kind(); k == reflect.Slice || k == reflect.Map || k == reflect.String {
			return v.Len() == 0
		}
	case pointerKind:
		return v.IsNil() || empty(v.Elem(), s.elem)
	}
	return v.IsZero()
}
