// Package metadata converts between metadata and headers: [Text] converts values for systems whose headers are text, and
// [Names] converts names.
package metadata

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/doc"
)

// Text returns a value as text: strings and bytes unchanged, nil as "", a time in RFC 3339, and anything else as JSON. A
// string inside a list or object that is not valid UTF-8 becomes {"$base64": "…"}, since JSON can't contain it.
func Text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case []byte:
		return string(v)
	case int:
		return strconv.Itoa(v)
	case time.Time:
		return v.Format(time.RFC3339Nano)
	}
	b, err := doc.Append(nil, v)
	if err != nil {
		b, err = doc.Append(nil, encoded(v))
	}
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// encoded returns a copy of a value in which base64 replaces strings that are not valid UTF-8.
func encoded(v any) any {
	switch v := v.(type) {
	case string:
		if !utf8.ValidString(v) {
			return map[string]any{"$base64": base64.StdEncoding.EncodeToString([]byte(v))}
		}
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = encoded(e)
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = encoded(e)
		}
		return m
	}
	return v
}
