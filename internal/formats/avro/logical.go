package avro

import (
	"fmt"
	"time"

	"github.com/flowd-io/flowd/internal/formats/codec"
)

// layouts of times, without trailing zeros of a fraction
const (
	layoutDate  = time.DateOnly
	layoutTime  = "15:04:05.999999999"
	layoutLocal = "2006-01-02T15:04:05.999999999"
	layoutZoned = time.RFC3339Nano
)

const secondsOfDay = 24 * 60 * 60

// appendTime appends a date, a time of day or a timestamp as text.
func appendTime(dst []byte, n *node, i int64) ([]byte, error) {
	unit := int64(n.unit)
	at, layout := time.Time{}, layoutZoned
	switch {
	case n.kind == date:
		at, layout = time.Unix(i*secondsOfDay, 0), layoutDate
	case n.kind == timeOfDay && (i < 0 || i >= secondsOfDay*unit):
		return dst, fmt.Errorf("%d is not a time of day", i)
	default:
		whole, part := i/unit, i%unit
		at = time.Unix(whole, part*(nanos/unit))
	}
	if n.kind == timeOfDay {
		layout = layoutTime
	} else if n.local {
		layout = layoutLocal
	}
	at = at.UTC()
	if year := at.Year(); year < 1 || year > 9999 {
		return dst, fmt.Errorf("%d is a %s outside of the years 1 to 9999 (set `raw: true` for the number)", i, n.name)
	}
	dst = append(dst, '"')
	return append(at.AppendFormat(dst, layout), '"'), nil
}

// parseTime parses the number that a text represents. Digits finer than the unit are cut off.
func parseTime(n *node, s string) (int64, error) {
	layout, wanted := layoutZoned, "a timestamp such as 2026-01-02T15:04:05.123Z"
	switch {
	case n.kind == date:
		layout, wanted = layoutDate, "a date such as 2026-01-02"
	case n.kind == timeOfDay:
		layout, wanted = layoutTime, "a time such as 15:04:05.123"
	case n.local:
		layout, wanted = layoutLocal, "a timestamp without a zone, such as 2026-01-02T15:04:05.123"
	}
	at, err := time.Parse(layout, s)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not %s", s, wanted)
	}
	unit := int64(n.unit)
	switch n.kind {
	case date:
		return at.Unix() / secondsOfDay, nil
	case timeOfDay:
		hour, minute, second := at.Clock()
		return int64(hour*3600+minute*60+second)*unit + int64(at.Nanosecond())/(nanos/unit), nil
	}
	if unit == nanos && (at.Before(time.Unix(0, -1<<63)) || at.After(time.Unix(0, 1<<63-1))) {
		return 0, fmt.Errorf("%.40q is outside the range of %s", s, n.name)
	}
	return at.Unix()*unit + int64(at.Nanosecond())/(nanos/unit), nil
}

// decimal reads a decimal number.
func (r *reader) decimal(n *node) error {
	var b []byte
	var err error
	if n.size > 0 {
		b, err = r.take(n.size)
	} else {
		b, err = r.bytes()
	}
	if err != nil {
		return err
	}
	r.dst, err = codec.AppendDecimal(r.dst, b, n.scale)
	return err
}
