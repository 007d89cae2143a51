package expr

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// normal turns what a function returned into one of the values that expressions
// work on. A value that has no such form ends the evaluation.
func normal(s *site, v any) any {
	switch v := v.(type) {
	case nil, bool, int, string, doc.Number, []any, map[string]any, time.Duration, *time.Location:
		return v
	case time.Time:
		if v.Location() == time.Local { // no message depends on where flowd runs
			return v.UTC()
		}
		return v
	case float64:
		return s.finite(v)
	case []byte:
		if !utf8.Valid(v) {
			s.fail("%s() returned bytes that are not text", s.name)
		}
		return string(v)
	case []string:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = e
		}
		return list
	case json.Number:
		n, err := doc.Decode([]byte(v))
		if err != nil {
			s.fail("%s() returned %q, which is not a number", s.name, string(v))
		}
		return n
	}
	return reflected(s, reflect.ValueOf(v))
}

// reflected is normal for the types that only plugins have.
func reflected(s *site, v reflect.Value) any {
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool()
	case reflect.String:
		return v.String()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return int(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if u := v.Uint(); u > math.MaxInt {
			return doc.Number(strconv.FormatUint(u, 10))
		}
		return int(v.Uint())
	case reflect.Float32, reflect.Float64:
		return s.finite(v.Float())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return normal(s, v.Elem().Interface())
	case reflect.Slice, reflect.Array:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = normal(s, v.Index(i).Interface())
		}
		return list
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			break
		}
		m := make(map[string]any, v.Len())
		for it := v.MapRange(); it.Next(); {
			m[it.Key().String()] = normal(s, it.Value().Interface())
		}
		return m
	}
	s.fail("%s() returned a %s, which a message can't contain", s.name, v.Type())
	return nil
}

// appendText appends a value as text: text as it is, a time in RFC 3339, all
// else as JSON.
func appendText(s *site, dst []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return append(dst, v...)
	case time.Time:
		return doc.Timestamp(v).AppendFormat(dst, time.RFC3339Nano)
	case time.Duration:
		return append(dst, v.String()...)
	case []byte:
		return append(dst, s.text(v)...)
	}
	return appendJSON(s, dst, v)
}

// text is bytes as text, which they may not be.
func (s *site) text(b []byte) string {
	if !utf8.Valid(b) {
		s.failFor("to_base64(x) and to_hex(x) give text of any bytes", "the bytes are not text in UTF-8")
	}
	return string(b)
}

// appendBody is appendText, but bytes are as they are.
func appendBody(s *site, dst []byte, v any) []byte {
	if b, ok := v.([]byte); ok {
		return append(dst, b...)
	}
	return appendText(s, dst, v)
}

// unfit is the failure of what would put a value into a document that can't contain it, or something in it. Nil: it can.
func unfit(offset int, v any) *failure {
	bad, way := unfitting(v, 0)
	if bad == nil {
		return nil
	}
	f := unfitKind(offset, value.KindOf(bad))
	if len(way) > 0 {
		slices.Reverse(way)
		f.msg = "at " + value.Clip(value.PathText(way)) + ": " + f.msg
	}
	return f
}

// unfitKind is unfit for what is only known to be of such a kind.
func unfitKind(offset int, k value.Kinds) *failure {
	switch k {
	case value.Bytes:
		return &failure{offset: offset, msg: "bytes are not a value that a document can contain",
			remedy: "write string(x) where they are text, else to_base64(x) or to_hex(x)"}
	case value.Zone:
		return &failure{offset: offset, msg: "a time zone is not a value that a message can contain"}
	}
	return nil
}

// unfitting is what in v a document can't contain, or nil, and the keys that lead there, the last one first.
func unfitting(v any, depth int) (bad any, way []any) {
	if depth > value.MaxDepth {
		return nil, nil
	}
	switch v := v.(type) {
	case []byte, *time.Location:
		return v, nil
	case []any:
		for i, e := range v {
			if bad, way = unfitting(e, depth+1); bad != nil {
				return bad, append(way, i)
			}
		}
	case map[string]any:
		for k, e := range v {
			x, below := unfitting(e, depth+1)
			if x != nil && (bad == nil || k < way[len(way)-1].(string)) { // the same one each time
				bad, way = x, append(below, k)
			}
		}
		return bad, way
	}
	return nil, nil
}

func appendJSON(s *site, dst []byte, v any) []byte {
	if s.foreign || value.KindOf(v)&(value.Bytes|value.Zone) != 0 {
		if f := unfit(s.offset, v); f != nil {
			panic(f)
		}
	}
	out, err := doc.Append(dst, v)
	if err != nil {
		panic(&failure{err: err, offset: s.offset})
	}
	return out
}

// appendKey appends a text that is equal for equal values, and only for those:
// JSON with sorted keys, in which 1, 1.0 and 1e0 are one number.
func appendKey(s *site, dst []byte, v any) []byte {
	return appendCanonical(s, dst, v, 0)
}

func appendCanonical(s *site, dst []byte, v any, depth int) []byte {
	if depth > value.MaxDepth {
		s.fail("the value is nested more than %d deep", value.MaxDepth)
	}
	switch v := v.(type) {
	case string:
		return codetext.AppendQuoted(dst, v)
	case int:
		return strconv.AppendInt(dst, int64(v), 10)
	case float64:
		return appendNumberKey(dst, v)
	case []byte:
		return codetext.AppendQuoted(dst, string(v)) // as a text that is equal to it
	case time.Time:
		return codetext.AppendQuoted(dst, v.UTC().Format(time.RFC3339Nano))
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendCanonical(s, dst, e, depth+1)
		}
		return append(dst, ']')
	case map[string]any:
		dst = append(dst, '{')
		for i, k := range value.SortedKeys(v) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(codetext.AppendQuoted(dst, k), ':')
			dst = appendCanonical(s, dst, v[k], depth+1)
		}
		return append(dst, '}')
	}
	return appendJSON(s, dst, v)
}

// appendNumberKey spells a float as the integer that it equals, if it is whole.
func appendNumberKey(dst []byte, f float64) []byte {
	if f != math.Trunc(f) {
		return strconv.AppendFloat(dst, f, 'g', -1, 64)
	}
	if math.Abs(f) < 1<<63 {
		return strconv.AppendInt(dst, int64(f), 10)
	}
	return append(dst, value.WholeText(f)...)
}
