package rabbitmq

import (
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"
)

// offsetArgument says where a stream is read from.
const offsetArgument = "x-stream-offset"

// back is an interval before now, as the broker counts it.
var back = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]+[YMDhms]$`) })

// offset is an x-stream-offset as the broker takes it: a time is a timestamp, which the
// broker does not read out of a text.
func offset(v any) (any, error) {
	switch v := v.(type) {
	case int64:
		if v >= 0 {
			return v, nil
		}
	case string:
		if slices.Contains([]string{"first", "last", "next"}, v) || back().MatchString(v) {
			return v, nil
		}
		for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
			if t, err := time.Parse(layout, v); err == nil {
				return t, nil
			}
		}
	}
	return nil, fmt.Errorf("%v is not a place in a stream", v)
}
