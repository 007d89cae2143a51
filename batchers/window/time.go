package window

import (
	"math"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
)

// Events are between these times, in nanoseconds since 1970: beyond them a window's end
// plus lateness might not be a number any more.
var (
	earliest = time.Date(1700, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	latest   = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
)

// timeOf is the time of m's event, in nanoseconds since 1970.
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

// instant reads a time in nanoseconds since 1970; what does not fit an int64 comes out
// beyond latest.
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

// unitOf is what a Unix time counts, in nanoseconds, by its size.
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

// nanos is t in nanoseconds since 1970, or beyond latest where they overflow.
func nanos(t time.Time) int64 {
	if y := t.Year(); y < 1690 || y > 2210 {
		return math.MaxInt64
	}
	return t.UnixNano()
}

// told is a value as an error shows it.
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

// floor is the last multiple of step that is not after at.
func floor(at, step int64) int64 {
	rest := at % step
	if rest < 0 {
		rest += step
	}
	return at - rest
}
