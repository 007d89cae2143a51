package parquet

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

// render appends a value of a column as JSON.
type render func(dst []byte, v value) ([]byte, error)

// The converted types of older writers, as logical types.
var converted = map[int64]logical{
	0: {kind: logicalString}, 4: {kind: logicalEnum}, 6: {kind: logicalDate}, 7: {kind: logicalTime, unit: 1e3}, 8: {kind: logicalTime,
		unit: 1e6},
	9: {kind: logicalStamp, unit: 1e3}, 10: {kind: logicalStamp, unit: 1e6}, 11: {kind: logicalInteger, bits: 8}, 12: {kind: logicalInteger,
		bits: 16},
	13: {kind: logicalInteger, bits: 32}, 14: {kind: logicalInteger, bits: 64}, 19: {kind: logicalJSON},
}

const interval = 21 // a converted type without a logical one

// renderOf returns how values of a column are rendered.
func renderOf(e *element) (render, error) {
	l := e.logical
	if l.kind == 0 && e.converted == 5 {
		l = logical{kind: logicalDecimal, scale: e.scale}
	} else if l.kind == 0 {
		l = converted[e.converted]
	}
	switch l.kind {
	case logicalDecimal:
		return decimalOf(e, l)
	case logicalNull:
		return func(dst []byte, _ value) ([]byte, error) { return append(dst, "null"...), nil }, nil
	}
	switch e.physical {
	case physicalBool:
		return func(dst []byte, v value) ([]byte, error) { return strconv.AppendBool(dst, v.bits != 0), nil }, nil
	case physicalInt32, physicalInt64:
		return integerOf(e, l), nil
	case physicalInt96:
		return appendInt96, nil
	case physicalFloat:
		return func(dst []byte, v value) ([]byte, error) {
			return codec.AppendFloat(dst, float64(math.Float32frombits(uint32(v.bits))), 32), nil // #nosec G115 -- of 32 bits
		}, nil
	case physicalDouble:
		return func(dst []byte, v value) ([]byte, error) {
			return codec.AppendFloat(dst, math.Float64frombits(v.bits), 64), nil
		}, nil
	case physicalBytes:
		switch l.kind {
		case logicalString, logicalEnum:
			return appendText, nil
		case logicalJSON:
			return appendJSON, nil
		}
	case physicalFixed:
		switch {
		case l.kind == logicalUUID && e.length == 16:
			return func(dst []byte, v value) ([]byte, error) { return codec.AppendUUID(dst, v.bytes), nil }, nil
		case l.kind == logicalHalf && e.length == 2:
			return appendHalf, nil
		case e.converted == interval && e.length == 12:
			return func(dst []byte, v value) ([]byte, error) { return codec.AppendMonths(dst, v.bytes), nil }, nil
		}
	default:
		return nil, errSchema
	}
	return appendBytes, nil
}

func appendText(dst []byte, v value) ([]byte, error) {
	if !utf8.Valid(v.bytes) {
		return dst, errors.New("text is not valid UTF-8")
	}
	return doc.AppendString(dst, v.bytes), nil
}

func appendBytes(dst []byte, v value) ([]byte, error) {
	dst = append(dst, '"')
	return append(base64.StdEncoding.AppendEncode(dst, v.bytes), '"'), nil
}

// appendJSON embeds a JSON document.
func appendJSON(dst []byte, v value) ([]byte, error) {
	var d doc.Doc
	d.Reset(v.bytes, nil)
	if err := d.Valid(); err != nil {
		return dst, fmt.Errorf("json: %w", err)
	}
	return append(dst, v.bytes...), nil
}

// integerOf renders integers, and what they represent.
func integerOf(e *element, l logical) render {
	wide := e.physical == physicalInt64
	number := func(v value) int64 {
		if wide {
			return int64(v.bits) // #nosec G115 -- the same bits
		}
		return int64(int32(uint32(v.bits))) // #nosec G115 -- of 32 bits
	}
	switch {
	case l.kind == logicalDate && !wide:
		return func(dst []byte, v value) ([]byte, error) {
			return appendTime(dst, time.Unix(number(v)*secondsOfDay, 0), time.DateOnly)
		}
	case l.kind == logicalTime && l.unit > 0:
		return func(dst []byte, v value) ([]byte, error) {
			n := number(v)
			if n < 0 || n >= secondsOfDay*l.unit {
				return dst, fmt.Errorf("%d is not a time of day", n)
			}
			return appendTime(dst, time.Unix(n/l.unit, n%l.unit*(1e9/l.unit)), "15:04:05.999999999")
		}
	case l.kind == logicalStamp && l.unit > 0:
		layout := time.RFC3339Nano
		if l.local {
			layout = "2006-01-02T15:04:05.999999999"
		}
		return func(dst []byte, v value) ([]byte, error) {
			n := number(v)
			return appendTime(dst, time.Unix(n/l.unit, n%l.unit*(1e9/l.unit)), layout)
		}
	case l.kind == logicalInteger && !l.signed && wide:
		return func(dst []byte, v value) ([]byte, error) { return strconv.AppendUint(dst, v.bits, 10), nil }
	case l.kind == logicalInteger && !l.signed:
		return func(dst []byte, v value) ([]byte, error) {
			return strconv.AppendUint(dst, uint64(uint32(v.bits)), 10), nil
		} // #nosec G115 -- of 32 bits
	}
	return func(dst []byte, v value) ([]byte, error) { return strconv.AppendInt(dst, number(v), 10), nil }
}

func appendTime(dst []byte, at time.Time, layout string) ([]byte, error) {
	at = at.UTC()
	if year := at.Year(); year < 1 || year > 9999 {
		return dst, errors.New("a time is outside of the years 1 to 9999")
	}
	dst = append(dst, '"')
	return append(at.AppendFormat(dst, layout), '"'), nil
}

// appendInt96 appends a timestamp of Impala or older Spark: time of day, and Julian day.
func appendInt96(dst []byte, v value) ([]byte, error) {
	const epoch = 2_440_588
	nanos, day := binary.LittleEndian.Uint64(v.bytes), binary.LittleEndian.Uint32(v.bytes[8:])
	if nanos >= secondsOfDay*1e9 {
		return dst, errors.New("a timestamp of 96 bits is not a time of day")
	}
	return appendTime(dst, time.Unix((int64(day)-epoch)*secondsOfDay, int64(nanos)), time.RFC3339Nano) // #nosec G115 -- of a day
}

// decimalOf renders decimals as numbers.
func decimalOf(e *element, l logical) (render, error) {
	if l.scale < 0 || l.scale > codec.MostDigits {
		return nil, errSchema
	}
	scale := int(l.scale)
	switch e.physical {
	case physicalInt32:
		return func(dst []byte, v value) ([]byte, error) {
			return codec.AppendScaled(dst, int64(int32(uint32(v.bits))), scale), nil // #nosec G115 -- of 32 bits
		}, nil
	case physicalInt64:
		return func(dst []byte, v value) ([]byte, error) {
			return codec.AppendScaled(dst, int64(v.bits), scale), nil // #nosec G115 -- the same bits
		}, nil
	case physicalBytes, physicalFixed:
		return func(dst []byte, v value) ([]byte, error) { return codec.AppendDecimal(dst, v.bytes, scale) }, nil
	}
	return nil, errSchema
}

// appendHalf appends a 16-bit float.
func appendHalf(dst []byte, v value) ([]byte, error) {
	h := binary.LittleEndian.Uint16(v.bytes)
	exponent, fraction := int(h>>10&0x1f), float64(h&0x3ff)
	var f float64
	switch exponent {
	case 0:
		f = math.Ldexp(fraction, -24)
	case 31:
		f = math.Inf(1)
		if fraction != 0 {
			f = math.NaN()
		}
	default:
		f = math.Ldexp(1024+fraction, exponent-25)
	}
	if h>>15 == 1 {
		f = -f
	}
	return codec.AppendFloat(dst, f, 32), nil
}
