package window

import (
	"math"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
)

// Events must be between these times, in nanoseconds since 1970. Otherwise a window's end plus lateness could
// overflow.
var (
	earliest = time.Date(1700, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	latest   = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
)

// timeOf returns the time of m's event, in nanoseconds since 1970.
func (s *batcher) timeOf(m *engine.Message, now time.Time) (int64, error) {
	v, err := s.Time.Eval(m)
	if err != nil {
		return 0, err
	}
	at, ok := instant(v)
	switch {
	case !ok:
		return 0, engine.Errorf(engine.Expression,
			"%s gives %.100v, which is not a time (write text in RFC 3339, such as 2026-11-20T12:00:00Z, or a Unix time; parse_time() reads "+
				"other forms)", s.Time.String(), told(v))
	case at < earliest || at >= latest:
		return 0, engine.Errorf(engine.Expression, "%s gives %.100v, which is outside the years 1700 to 2199",
			s.Time.String(), told(v))
	case s.MaxAhead > 0 && at-now.UnixNano() > int64(s.MaxAhead):
		return 0, engine.Errorf(engine.Rejected, "the event's time %s is more than max_ahead (%v) ahead of the clock",
			text(at), s.MaxAhead)
	}
	return at, nil
}

// instant converts a time to nanoseconds since 1970. If that overflows an int64, the result is beyond latest.
func instant(v any) (at int64, ok bool) {
	switch v := v.(type) {
	case time.Time:
		return nanos(v), true
	case string:
		t, err := time.Parse(time.RFC3339, v)
		return nanos(t), err == nil
	case int:
		n, unit := int64(v), unitOf(math.Abs(float64(v)))
		if n > math.MaxInt64/unit || n < math.MinInt64/unit {
			return math.MaxInt64, true
		}
		return n * unit, true
	case float64:
		unit := float64(unitOf(math.Abs(v)))
		whole, rest := math.Modf(v)
		if math.Abs(whole*unit) >= math.MaxInt64 {
			return math.MaxInt64, true
		}
		return int64(whole)*int64(unit) + int64(math.Round(rest*unit)), true
	case doc.Number:
		return math.MaxInt64, true
	}
	return 0, false
}

// unitOf returns the unit of a Unix time, in nanoseconds, according to its size.
func unitOf(n float64) int64 {
	switch {
	case n < 1e11:
		return 1e9
	case n < 1e14:
		return 1e6
	case n < 1e17:
		return 1e3
	}
	return 1
}

// nanos returns t in nanoseconds since 1970, or a value beyond latest if that overflows.
func nanos(t time.Time) int64 {
	if y := t.Year(); y < 1690 || y > 2210 {
		return math.MaxInt64
	}
	return t.UnixNano()
}

// told formats a value for an error.
func told(v any) any {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case string:
		return `"` + v + `"`
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return v
}

func text(at int64) string { return instantOf(at).Format(time.RFC3339Nano) }

// floor returns the last multiple of step that is not after at.
func floor(at, step int64) int64 {
	rest := at % step
	if rest < 0 {
		rest += step
	}
	return at - rest
}
