package codec

import (
	"fmt"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/doc"
)

// object appends one JSON object, field by field.
type object struct {
	dst     []byte
	start   int // of this value in dst
	numbers bool
	fields  int
}

func newObject(dst []byte, numbers bool) object {
	return object{dst: append(dst, '{'), start: len(dst), numbers: numbers}
}

// add appends a field. Its value is text, or a number where the text is one and
// numbers are asked for.
func (o *object) add(key, value string) error {
	if o.numbers && isNumber(value) {
		return o.addRaw(key, value)
	}
	return o.addText(key, value)
}

func (o *object) addText(key, value string) error {
	if err := o.addRaw(key, ""); err != nil {
		return err
	}
	var err error
	if o.dst, err = appendText(o.dst, value); err != nil {
		return fmt.Errorf("field %q %w", key, err)
	}
	return checkSize(o.dst, o.start, MaxSize)
}

// addRaw appends a field whose value is JSON text.
func (o *object) addRaw(key, json string) error {
	if o.fields > 0 {
		o.dst = append(o.dst, ',')
	}
	o.fields++
	var err error
	if o.dst, err = appendText(o.dst, key); err != nil {
		return fmt.Errorf("field name %q %w", key, err)
	}
	o.dst = append(o.dst, ':')
	o.dst = append(o.dst, json...)
	return nil
}

func (o *object) end() []byte { return append(o.dst, '}') }

func checkSize(dst []byte, start, limit int) error {
	switch n := len(dst) - start; {
	case n > MaxSize:
		return errTooLarge
	case n > limit:
		return ErrLimit
	}
	return nil
}

// appendText appends s as a JSON string.
func appendText(dst []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return dst, errUTF8
	}
	return doc.AppendString(dst, s), nil
}

// AppendText appends s as a JSON string; bytes that are not UTF-8 are an error.
func AppendText(dst, s []byte) ([]byte, error) { return appendText(dst, string(s)) }

// isNumber says whether s is a number as JSON spells it.
func isNumber(s string) bool {
	i := 0
	if i < len(s) && s[i] == '-' {
		i++
	}
	n := digits(s, i)
	if n == 0 || n > 1 && s[i] == '0' {
		return false
	}
	i += n
	if i < len(s) && s[i] == '.' {
		n := digits(s, i+1)
		if n == 0 {
			return false
		}
		i += 1 + n
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		n := digits(s, i)
		if n == 0 {
			return false
		}
		i += n
	}
	return i == len(s)
}

func digits(s string, from int) int {
	i := from
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i - from
}

// kind is what a JSON value is called in a complaint.
func kind(json []byte) string {
	switch json[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "text"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}
