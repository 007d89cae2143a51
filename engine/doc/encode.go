package doc

import (
	"bytes"
	"encoding"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// Append encodes v: keys sorted, numbers in their shortest form, HTML not
// escaped. Bytes are text if they are UTF-8, else base64; a time is RFC 3339
// and a duration as it prints. The error, a *[ValueError], says where in v there
// is something that is no JSON, such as NaN; dst is unharmed then.
func Append(dst []byte, v any) ([]byte, error) {
	out, err := appendValue(dst, v, 0)
	if err != nil {
		return dst, err
	}
	return out, nil
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
		return AppendString(dst, v), nil
	case float64:
		return appendFloat(dst, v, 64)
	case []any:
		return appendList(dst, v, depth)
	case map[string]any:
		return appendMap(dst, v, depth)
	case Number:
		return appendNumber(dst, string(v))
	case []byte:
		if utf8.Valid(v) {
			return AppendString(dst, alias(v)), nil
		}
		return AppendString(dst, base64.StdEncoding.EncodeToString(v)), nil
	case time.Time:
		return AppendString(dst, v.Format(time.RFC3339Nano)), nil
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
	case int32:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int16:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int8:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case uint:
		return strconv.AppendUint(dst, uint64(v), 10), nil
	case uint64:
		return strconv.AppendUint(dst, v, 10), nil
	case uint32:
		return strconv.AppendUint(dst, uint64(v), 10), nil
	case uint16:
		return strconv.AppendUint(dst, uint64(v), 10), nil
	case uint8:
		return strconv.AppendUint(dst, uint64(v), 10), nil
	case float32:
		return appendFloat(dst, float64(v), 32)
	}
	return appendOther(dst, v, depth)
}

// appendList and appendMap hold v as one of two types each, so that neither is
// converted first.
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
			return nil, within(part{index: i, elem: true}, err)
		}
	}
	return append(dst, ']'), nil
}

func appendMap[T any](dst []byte, m map[string]T, depth int) (_ []byte, err error) {
	if depth >= MaxDepth {
		return nil, errTooDeep
	}
	var few [16]string // keys of an ordinary map need no memory of their own
	keys := few[:0]
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	dst = append(dst, '{')
	for i, k := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(AppendString(dst, k), ':')
		if dst, err = appendValue(dst, m[k], depth+1); err != nil {
			return nil, within(part{key: k}, err)
		}
	}
	return append(dst, '}'), nil
}

var errTooDeep = &ValueError{Msg: "nested deeper than 512"}

// within puts p before the path of err.
func within(p part, err error) error {
	e, ok := err.(*ValueError)
	if !ok || e == errTooDeep { // 512 keys would tell nobody anything
		return err
	}
	path := format([]part{p})
	if e.Path != "" && e.Path[0] != '[' {
		path += "."
	}
	return &ValueError{path + e.Path, e.Msg}
}

func appendFloat(dst []byte, f float64, size int) ([]byte, error) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, &ValueError{Msg: strconv.FormatFloat(f, 'g', -1, 64) + " is no JSON number"}
	}
	// Exponents begin where those of JavaScript do, as in encoding/json.
	form := byte('f')
	if abs := math.Abs(f); abs != 0 {
		if size == 64 && (abs < 1e-6 || abs >= 1e21) || size == 32 && (float32(abs) < 1e-6 || float32(abs) >= 1e21) {
			form = 'e'
		}
	}
	dst = strconv.AppendFloat(dst, f, form, -1, size)
	if n := len(dst); form == 'e' && n >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1] // e-09 is e-9
		dst = dst[:n-1]
	}
	return dst, nil
}

func appendNumber(dst []byte, n string) ([]byte, error) {
	s := scanner{data: []byte(n)}
	if n == "" || n[0] != '-' && (n[0] < '0' || n[0] > '9') || s.number(0) != len(n) {
		return nil, &ValueError{Msg: fmt.Sprintf("%q is no number", excerpt(n))}
	}
	return append(dst, n...), nil
}

// appendOther encodes by reflection. What a slice, map or pointer holds comes
// back to appendValue; structs and what encodes itself go to encoding/json.
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

// AppendString appends s as a JSON string; what is not UTF-8 becomes U+FFFD.
func AppendString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	done := 0 // s before it is written
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = appendEscape(append(dst, s[done:i]...), c)
			i++
			done = i
			continue
		}
		r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
		if r == utf8.RuneError && size == 1 {
			dst = append(append(dst, s[done:i]...), "\ufffd"...)
			done = i + 1
		}
		i += size
	}
	return append(append(dst, s[done:]...), '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	const hex = "0123456789abcdef"
	return append(dst, `\u00`+hex[c>>4:c>>4+1]+hex[c&15:c&15+1]...)
}
