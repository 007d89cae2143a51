package lang

import (
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// AppendText appends a value as text: text as it is, a time in RFC 3339, anything else as JSON.
func AppendText(s *Site, dst []byte, v any) []byte {
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
	return AppendJSON(s, dst, v)
}

// text is bytes as text. It ends the evaluation if they are not UTF-8.
func (s *Site) text(b []byte) string {
	if !utf8.Valid(b) {
		s.FailWith("to_base64(x) and to_hex(x) give text of any bytes", "the bytes are not text in UTF-8")
	}
	return string(b)
}

// AppendPayload is AppendText, but it appends bytes as they are.
func AppendPayload(s *Site, dst []byte, v any) []byte {
	if b, ok := v.([]byte); ok {
		return append(dst, b...)
	}
	return AppendText(s, dst, v)
}

func AppendJSON(s *Site, dst []byte, v any) []byte {
	if s.foreign || value.KindOf(v)&(value.Bytes|value.Zone) != 0 {
		if f := unfit(s.Offset, v); f != nil {
			panic(f)
		}
	}
	out, err := doc.Append(dst, v)
	if err != nil {
		panic(&failure{err: err, offset: s.Offset})
	}
	return out
}

// AppendKeyOf appends a text that is equal for equal values, and only for those: JSON with sorted keys, in which 1, 1.0 and 1e0
// are the same.
func AppendKeyOf(s *Site, dst []byte, v any) []byte {
	return appendCanonical(s, dst, v, 0)
}

func appendCanonical(s *Site, dst []byte, v any, depth int) []byte {
	if depth > value.MaxDepth {
		s.Fail("the value is nested more than %d deep", value.MaxDepth)
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
	return AppendJSON(s, dst, v)
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
