package doc

import (
	"bytes"
	"encoding"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"
)

// Text is JSON text in the form of Append, not nested too deep. Append copies the text that a *Text points to. This
// saves encoding a value again.
type Text []byte

// Append encodes v: keys sorted, numbers in their shortest form, HTML not escaped. Bytes become text if they are
// UTF-8, else base64. A time becomes RFC 3339, in UTC if RFC 3339 can't express its offset. A duration becomes the
// text that it prints. The error, a *[ValueError], says where v contains something that is not JSON, such as NaN. dst
// is unchanged then.
func Append(dst []byte, v any) ([]byte, error) {
	out, err := appendValue(dst, v, 0)
	if err != nil {
		return dst, err
	}
	return out, nil
}

// Timestamp returns t as RFC 3339 can express it. Offsets are whole minutes there, so a time with an older offset by
// the sun is converted to UTC.
func Timestamp(t time.Time) time.Time {
	if _, offset := t.Zone(); offset%60 != 0 {
		return t.UTC()
	}
	return t
}

func appendValue(dst []byte, v any, depth int) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case string:
		return appendValid(dst, v)
	case float64:
		return appendFloat(dst, v, 64)
	case []any:
		return appendList(dst, v, depth)
	case map[string]any:
		return appendMap(dst, v, depth)
	case Number:
		return appendNumber(dst, string(v))
	case *Text:
		return append(dst, *v...), nil
	case []byte:
		if utf8.Valid(v) {
			return AppendString(dst, alias(v)), nil
		}
		return AppendString(dst, base64.StdEncoding.EncodeToString(v)), nil
	case time.Time:
		return AppendString(dst, Timestamp(v).Format(time.RFC3339Nano)), nil
	case time.Duration:
		return AppendString(dst, v.String()), nil
	case []string:
		return appendList(dst, v, depth)
	case map[string]string:
		return appendMap(dst, v, depth)
	case json.Number:
		return appendNumber(dst, string(v))
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case int32, int16, int8:
		return strconv.AppendInt(dst, reflect.ValueOf(v).Int(), 10), nil
	case uint, uint64, uint32, uint16, uint8:
		return strconv.AppendUint(dst, reflect.ValueOf(v).Uint(), 10), nil
	case float32:
		return appendFloat(dst, float64(v), 32)
	}
	return appendOther(dst, v, depth)
}

// appendList and appendMap are generic so that callers need not convert one type to another.
func appendList[T any](dst []byte, list []T, depth int) (_ []byte, err error) {
	if depth >= MaxDepth {
		return nil, errTooDeep
	}
	dst = append(dst, '[')
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendValue(dst, list[i], depth+1); err != nil {
			return nil, within(i, err)
		}
	}
	return append(dst, ']'), nil
}

func appendMap[T any](dst []byte, m map[string]T, depth int) (_ []byte, err error) {
	if depth >= MaxDepth {
		return nil, errTooDeep
	}
	var few [16]member[T] // the members of an ordinary map need no allocation
	list := few[:0]
	for k, v := range m {
		list = append(list, member[T]{k, v})
	}
	slices.SortFunc(list, func(a, b member[T]) int { return strings.Compare(a.key, b.key) })
	dst = append(dst, '{')
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendValid(dst, list[i].key); err != nil {
			return nil, err
		}
		dst = append(dst, ':')
		if dst, err = appendValue(dst, list[i].value, depth+1); err != nil {
			return nil, within(list[i].key, err)
		}
	}
	return append(dst, '}'), nil
}

// member is a key of a map with its value, which saves a look-up.
type member[T any] struct {
	key   string
	value T
}

var errTooDeep = &ValueError{Msg: "nested deeper than 512"}

// within adds a key or index to the front of the path of err.
func within(key any, err error) error {
	if err == error(errTooDeep) { // a path of 512 keys helps nobody
		return err
	}
	return at(MakePath(key), err)
}

func appendNumber(dst []byte, n string) ([]byte, error) {
	s := scanner{data: []byte(n)}
	if n == "" || n[0] != '-' && (n[0] < '0' || n[0] > '9') || s.number(0) != len(n) {
		return nil, &ValueError{Msg: fmt.Sprintf("%q is not a number", excerpt(n))}
	}
	return append(dst, n...), nil
}

// appendOther encodes by reflection. Contents of slices, maps and pointers go back to appendValue. encoding/json
// encodes structs, and types that encode themselves.
func appendOther(dst []byte, v any, depth int) ([]byte, error) {
	switch v.(type) {
	case json.Marshaler, encoding.TextMarshaler:
		return appendMarshaled(dst, v, depth)
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer, reflect.Interface:
		if r.IsNil() {
			return append(dst, "null"...), nil
		}
		if depth >= MaxDepth { // a pointer may lead to itself
			return nil, errTooDeep
		}
		return appendValue(dst, r.Elem().Interface(), depth+1)
	case reflect.Slice, reflect.Array:
		if r.Type().Elem().Kind() == reflect.Uint8 {
			break
		}
		list := make([]any, r.Len())
		for i := range list {
			list[i] = r.Index(i).Interface()
		}
		return appendList(dst, list, depth)
	case reflect.Map:
		if r.Type().Key().Kind() != reflect.String {
			break
		}
		m := make(map[string]any, r.Len())
		for k, e := range r.Seq2() {
			m[k.String()] = e.Interface()
		}
		return appendMap(dst, m, depth)
	}
	return appendMarshaled(dst, v, depth)
}

func appendMarshaled(dst []byte, v any, depth int) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, &ValueError{Msg: fmt.Sprintf("%T has no JSON form: %v", v, err)}
	}
	raw := trim(b.Bytes())
	if depth+len(raw)/2 > MaxDepth && depth+depthOf(raw) > MaxDepth {
		return nil, errTooDeep
	}
	return append(dst, raw...), nil
}

// AppendString appends s as a JSON string, with U+FFFD in place of bytes that are not UTF-8. Use it for text that is
// known to be UTF-8, or that people read: [Append] rejects other text.
func AppendString[T string | []byte](dst []byte, s T) []byte {
	// Both types begin with the pointer to their bytes, which are only read.
	dst, _ = appendText(dst, unsafe.Slice(*(**byte)(unsafe.Pointer(&s)), len(s)))
	return dst
}

// appendValid is like AppendString for text that must be UTF-8.
func appendValid(dst []byte, s string) ([]byte, error) {
	dst, valid := appendText(dst, unsafe.Slice(unsafe.StringData(s), len(s)))
	if !valid {
		return nil, &ValueError{Msg: "the text is not UTF-8, as a document must be (write to_base64(x) or to_hex(x) for other bytes)"}
	}
	return dst, nil
}

// appendText appends s, with U+FFFD in place of bytes that are not UTF-8. valid reports that there were none.
func appendText(dst, s []byte) (_ []byte, valid bool) {
	dst, valid = append(dst, '"'), true
	done := 0 // s is written up to here
	for i := plain(s, 0); i < len(s); i = plain(s, i) {
		c := s[i]
		if c < utf8.RuneSelf {
			dst = appendEscape(append(dst, s[done:i]...), c)
			i++
			done = i
			continue
		}
		if i = beyond(s, i); i < len(s) && s[i] >= utf8.RuneSelf {
			dst, valid = append(append(dst, s[done:i]...), "\ufffd"...), false
			i++
			done = i
		}
	}
	return append(append(dst, s[done:]...), '"'), valid
}

// letters maps characters to their letter after a backslash: the inverse of escapes.
var letters = [256]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}

func appendEscape(dst []byte, c byte) []byte {
	if letter := letters[c]; letter != 0 {
		return append(dst, '\\', letter)
	}
	const hex = "0123456789abcdef"
	return append(dst, `\u00`+hex[c>>4:c>>4+1]+hex[c&15:c&15+1]...)
}
