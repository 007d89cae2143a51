package avro

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"time"
)

// layouts of times; zeros at the end of a fraction are left out.
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

// parseTime is the number that a text stands for. What is finer than the unit is cut off.
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
		return 0, fmt.Errorf("%.40q is outside of what %s can say", s, n.name)
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
	r.dst, err = appendDecimal(r.dst, b, n)
	return err
}

// longestDecimal bounds the bytes of a decimal: its digits take much longer to work out.
const longestDecimal = 1024

// appendDecimal appends the number that bytes stand for, two's complement with the highest
// first, as it is spelled with the scale's digits after the point.
func appendDecimal(dst, b []byte, n *node) ([]byte, error) {
	for len(b) > 1 && (b[0] == 0 && b[1] < 0x80 || b[0] == 0xff && b[1] >= 0x80) {
		b = b[1:]
	}
	if len(b) > longestDecimal || n.scale > most {
		return dst, fmt.Errorf("a decimal of %d bytes, and %d digits after the point, is too long", len(b), n.scale)
	}
	start := len(dst)
	if len(b) <= 8 {
		var i int64
		if len(b) > 0 && b[0] >= 0x80 {
			i = -1
		}
		for _, x := range b {
			i = i<<8 | int64(x)
		}
		dst = strconv.AppendInt(dst, i, 10)
	} else {
		i := new(big.Int).SetBytes(b)
		if b[0] >= 0x80 {
			i.Sub(i, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b)))) // #nosec G115 -- it is short
		}
		dst = i.Append(dst, 10)
	}
	return pointed(dst, start, n.scale), nil
}

// pointed puts a point before the last digits of the integer that begins at start.
func pointed(dst []byte, start, scale int) []byte {
	if scale <= 0 {
		return dst
	}
	if dst[start] == '-' {
		start++
	}
	if lacks := scale + 1 - (len(dst) - start); lacks > 0 { // digits before the point, and after it
		dst = slices.Insert(dst, start, bytes.Repeat([]byte("0"), lacks)...)
	}
	at := len(dst) - scale
	dst = append(dst, 0)
	copy(dst[at+1:], dst[at:])
	dst[at] = '.'
	return dst
}

// appendUUID appends 16 bytes as a UUID is written.
func appendUUID(dst, b []byte) []byte {
	dst = append(dst, '"')
	for i, x := range b {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, []byte{x})
	}
	return append(dst, '"')
}

// parseUUID is the bytes of a UUID.
func parseUUID(dst []byte, s string) ([]byte, bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return dst, false
	}
	digits := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	out, err := hex.AppendDecode(dst, []byte(digits))
	return out, err == nil
}

var durationKeys = [3]string{"months", "days", "milliseconds"}

// appendDuration appends the three numbers of a duration, which no unit has in common.
func appendDuration(dst, b []byte) []byte {
	for i, key := range durationKeys {
		dst = append(dst, `{,,`[i])
		dst = append(append(append(dst, '"'), key...), `":`...)
		dst = strconv.AppendUint(dst, uint64(binary.LittleEndian.Uint32(b[4*i:])), 10)
	}
	return append(dst, '}')
}
