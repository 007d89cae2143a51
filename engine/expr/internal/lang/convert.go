package lang

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// based matches an integer with a prefix that tells its base.
var based = regexp.MustCompile(`^[+-]?0[xXoObB][0-9a-fA-F]+$`)

func ToInt(_ *Frame, s *Site, args []any) any {
	switch v := args[0].(type) {
	case float64:
		if v >= 1<<63 || v < -1<<63 {
			s.FailOverflow()
		}
		return int(v)
	case string:
		if i, err := strconv.Atoi(v); err == nil {
			return i
		}
		if value.IsInteger(v) {
			return value.BigNumber(v)
		}
		if based.MatchString(v) {
			if i, err := strconv.ParseInt(v, 0, 0); err == nil {
				return int(i)
			}
		}
		s.Fail("int(): %s is not a whole number", s.Show(v))
	}
	return args[0]
}

func ToFloat(_ *Frame, s *Site, args []any) any {
	var text string
	switch v := args[0].(type) {
	case int:
		return float64(v)
	case doc.Number:
		text = string(v)
	case string:
		text = v
	default:
		return v
	}
	n, ok := doc.ParseFloat([]byte(text))
	if _, err := strconv.ParseFloat(text, 64); errors.Is(err, strconv.ErrSyntax) || strings.Trim(text, "+-.0123456789eE") != "" {
		s.Fail("float(): %s is not a number", s.Show(args[0]))
	}
	if !ok {
		s.Fail("float(): %s is beyond what a float can hold", s.Show(args[0]))
	}
	return s.Finite(n)
}

func (s *Site) NeedNumber(v any) {
	if value.KindOf(v)&value.Number == 0 {
		s.Fail("%s() needs numbers, not %s", s.Name, s.Show(v))
	}
}

// Normal turns a Go value that a function has returned into a value of expressions. It ends the evaluation if there is no such
// value.
func Normal(s *Site, v any) any {
	switch v := v.(type) {
	case nil, bool, int, string, doc.Number, []any, map[string]any, time.Duration, *time.Location:
		return v
	case time.Time:
		if v.Location() == time.Local { // results must not depend on the machine
			return v.UTC()
		}
		return v
	case float64:
		return s.Finite(v)
	case []byte:
		if !utf8.Valid(v) {
			s.Fail("%s() returned bytes that are not text", s.Name)
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
			s.Fail("%s() returned %q, which is not a number", s.Name, string(v))
		}
		return n
	}
	return reflected(s, reflect.ValueOf(v))
}

// reflected is Normal for types that only plugins return.
func reflected(s *Site, v reflect.Value) any {
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
		return s.Finite(v.Float())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return Normal(s, v.Elem().Interface())
	case reflect.Slice, reflect.Array:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = Normal(s, v.Index(i).Interface())
		}
		return list
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			break
		}
		m := make(map[string]any, v.Len())
		for it := v.MapRange(); it.Next(); {
			m[it.Key().String()] = Normal(s, it.Value().Interface())
		}
		return m
	}
	s.Fail("%s() returned a %s, which a message can't contain", s.Name, v.Type())
	return nil
}
