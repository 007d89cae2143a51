package calendar

import (
	"math"
	"time"
)

// UnixUnits are the units in which times since 1970 are counted.
var UnixUnits = map[string]time.Duration{
	"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond, "µs": time.Microsecond, "ns": time.Nanosecond,
}

// FromUnix is a time so many units after 1970; v is an int or a float64. Fractions are rounded to microseconds: floats
// have no more digits. ok is false if the time is not within the years 1 to 9999.
func FromUnix(v any, unit time.Duration) (t time.Time, ok bool) {
	n, ok := v.(int)
	var fraction time.Duration
	if f, isFloat := v.(float64); isFloat {
		whole, rest := math.Modf(f)
		n, ok = int(whole), math.Abs(whole) < 1<<62
		fraction = time.Duration(math.Round(rest*float64(unit)/1e3)) * time.Microsecond
	}
	if !ok {
		return t, false
	}
	perSecond := int(time.Second / unit)
	t = time.Unix(int64(n/perSecond), int64(n%perSecond)*int64(unit)).Add(fraction).UTC()
	year := t.Year()
	return t, year >= 1 && year <= 9999
}

// ToUnix is how many units t is after 1970. ok is false if 64 bits do not hold its nanoseconds.
func ToUnix(t time.Time, unit time.Duration) (n int, ok bool) {
	if unit > time.Nanosecond {
		return int(t.Unix()*int64(time.Second/unit) + int64(t.Nanosecond())/int64(unit)), true
	}
	nano := t.UnixNano()
	return int(nano), time.Unix(0, nano).Equal(t)
}
