// Package metadata writes values of metadata as text, for systems whose headers are text. Start at [Text].
package metadata

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// Text is a value as text: text and bytes as they are, nil as nothing, a time in RFC 3339, all else as JSON.
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
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
