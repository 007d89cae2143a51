package codec

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/doc"
)

// object appends one JSON object, field by field.
type object struct {
	dst     []byte
	start   int // where this value begins in dst
	numbers bool
	fields  int
}

func newObject(dst []byte, numbers bool) object {
	return object{dst: append(dst, '{'), start: len(dst), numbers: numbers}
}

// add appends a field. If numbers is set and value is a number, it becomes a number.
func (o *object) add(key, value string) error {
	if o.numbers && isNumber(value) {
		return o.addRaw(key, value)
	}
	return o.addText(key, value)
}

// value appends text, or a number, as a value.
func (o *object) value(s string) (err error) {
	if o.numbers && isNumber(s) {
		o.dst = append(o.dst, s...)
	} else {
		o.dst, err = appendText(o.dst, s)
	}
	if err == nil {
		err = checkSize(o.dst, o.start, MaxSize)
	}
	return err
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

// AppendText appends s as a JSON string. Bytes that are not UTF-8 are an error.
func AppendText(dst, s []byte) ([]byte, error) { return appendText(dst, string(s)) }

// isNumber reports whether s is a valid JSON number.
func isNumber(s string) bool {
	s = strings.TrimPrefix(s, "-")
	rest, ok := digits(s)
	if !ok || s[0] == '0' && len(s)-len(rest) > 1 {
		return false
	}
	if fraction, found := strings.CutPrefix(rest, "."); found {
		if rest, ok = digits(fraction); !ok {
			return false
		}
	}
	if rest != "" && (rest[0] == 'e' || rest[0] == 'E') {
		rest = rest[1:]
		if rest != "" && (rest[0] == '+' || rest[0] == '-') {
			rest = rest[1:]
		}
		rest, ok = digits(rest)
	}
	return ok && rest == ""
}

// digits skips the digits at the beginning of s. ok is false if there are none.
func digits(s string) (rest string, ok bool) {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return s[n:], n > 0
}

// Kind names a JSON value in errors.
func Kind(json []byte) string { return kind(json) }

// kind names a JSON value in errors.
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
