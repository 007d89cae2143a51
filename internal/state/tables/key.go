package tables

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
)

// appendKeys appends a text that is the same exactly for equal keys: the text of one value, or the texts of several,
// each after its length.
func appendKeys(dst []byte, values []any) ([]byte, error) {
	if len(values) == 1 {
		return appendKey(dst, values[0])
	}
	var room [64]byte
	for _, v := range values {
		part, err := appendKey(room[:0], v)
		if err != nil {
			return dst, err
		}
		dst = strconv.AppendInt(dst, int64(len(part)), 10)
		dst = append(append(dst, ':'), part...)
	}
	return dst, nil
}

// appendKey appends the text of a value. Numbers have one form, so that 5, 5.0 and the text "5" are the same key.
// Texts are unchanged: "05" and "5.0" are different keys.
func appendKey(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case string:
		return append(dst, v...), nil
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<63 {
			return strconv.AppendInt(dst, int64(v), 10), nil
		}
		return strconv.AppendFloat(dst, v, 'f', -1, 64), nil
	case doc.Number:
		return append(dst, v...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	}
	return dst, fmt.Errorf("a key is text, a number, or true or false, not %s", kindOf(v))
}

// kindOf names a value that can't be a key.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "nothing (?? gives a missing field a default)"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "a time" // or a duration, or a zone
}

// shownKey is how many bytes of a key an error shows.
const shownKey = 80

// shown formats a key for errors.
func shown(values []any) string {
	all := make([]string, len(values))
	for i, v := range values {
		text, _ := appendKey(nil, v) // it was a valid key before
		all[i] = strconv.Quote(string(text[:min(len(text), shownKey)]))
	}
	return strings.Join(all, ", ")
}
