package rabbitmq

import (
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"
)

// offsetArgument is the argument that says where a stream is read from.
const offsetArgument = "x-stream-offset"

// interval matches an interval before now, as the broker writes it.
var interval = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]+[YMDhms]$`) })

// offset returns an x-stream-offset as the broker accepts it. It parses times, since the broker expects a timestamp.
func offset(v any) (any, error) {
	switch v := v.(type) {
	case int64:
		if v >= 0 {
			return v, nil
		}
	case string:
		if slices.Contains([]string{"first", "last", "next"}, v) || interval().MatchString(v) {
			return v, nil
		}
		for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
			if t, err := time.Parse(layout, v); err == nil {
				return t, nil
			}
		}
	}
	return nil, fmt.Errorf("%v is not a position in a stream", v)
}
