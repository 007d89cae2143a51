package schema

import (
	"errors"
	"strings"
	"time"
)

// parseDuration parses a Go duration. The error says what to write, if that is clear. Its text continues a sentence
// about the value.
func parseDuration(text string) (time.Duration, error) {
	if t, err := time.ParseDuration(text); err == nil {
		return t, nil
	}
	number, unit := splitNumber(strings.TrimPrefix(text, "-"))
	unit = strings.ToLower(strings.TrimSpace(unit))
	switch {
	case number == "":
	case unit == "":
		return 0, remedied{"is a duration without a unit", "write " + text + "s or " + text + "ms"}
	case unit == "d" || unit == "day" || unit == "days":
		return 0, remedied{"is not a duration: the longest unit is h", "a day is 24h"}
	case durationUnits[unit] != "":
		meant := number + durationUnits[unit]
		if _, err := time.ParseDuration(meant); err != nil {
			return 0, remedied{"is not a duration: it is too long", "at most 2562047h"}
		}
		return 0, remedied{"is not a duration", "write " + meant}
	}
	if together := strings.ReplaceAll(text, " ", ""); together != text {
		if _, err := time.ParseDuration(together); err == nil {
			return 0, remedied{"is not a duration", "write " + together}
		}
	}
	return 0, errors.New("is not a valid duration such as 2s, 250ms or 1h30m")
}

// durationUnits maps spellings of units to the units.
var durationUnits = map[string]string{
	"h": "h", "hr": "h", "hrs": "h", "hour": "h", "hours": "h",
	"m": "m", "min": "m", "mins": "m", "minute": "m", "minutes": "m",
	"s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s",
	"ms": "ms", "msec": "ms", "millis": "ms", "millisecond": "ms", "milliseconds": "ms",
	"us": "us", "µs": "µs", "microsecond": "us", "microseconds": "us",
	"ns": "ns", "nanosecond": "ns", "nanoseconds": "ns",
}
