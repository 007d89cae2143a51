package parquet

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"time"
	"unsafe"

	"github.com/parquet-go/parquet-go"

	"github.com/flowd-io/flowd/internal/formats/codec"
)

// leaf converts a JSON value, which is not null, to a value of the column.
func (n *node) leaf(value []byte) (parquet.Value, error) {
	if n.kind == jsons {
		return parquet.ByteArrayValue(value), nil
	}
	switch value[0] {
	case 't', 'f':
		if n.kind == booleans {
			return parquet.BooleanValue(value[0] == 't'), nil
		}
	case '"':
		return n.fromText(codec.Text(value))
	case '{', '[':
	default:
		return n.fromNumber(value)
	}
	return parquet.Value{}, n.unfit(value)
}

// unfit returns the error of a value of the wrong kind.
func (n *node) unfit(value []byte) error {
	return fmt.Errorf("%s is not %s", codec.Kind(value), n.label)
}

func (n *node) fromNumber(value []byte) (v parquet.Value, err error) {
	switch n.kind {
	case int32s:
		i, err := codec.Int(value)
		if err == nil && i != int64(int32(i)) { // #nosec G115 -- this is the check
			err = fmt.Errorf("%.40s does not fit 32 bits", value)
		}
		return parquet.Int32Value(int32(i)), err // #nosec G115 -- as above
	case int64s:
		i, err := codec.Int(value)
		return parquet.Int64Value(i), err
	case float32s:
		f, err := codec.Float(value, 32, n.label)
		return parquet.FloatValue(float32(f)), err
	case float64s:
		f, err := codec.Float(value, 64, n.label)
		return parquet.DoubleValue(f), err
	case decimals:
		return n.decimal(string(value))
	}
	return v, n.unfit(value)
}

func (n *node) fromText(b []byte) (v parquet.Value, err error) {
	s := unsafe.String(unsafe.SliceData(b), len(b)) // payloads never change
	switch n.kind {
	case texts:
		return parquet.ByteArrayValue(b), nil
	case blobs:
		if b, err = base64.StdEncoding.AppendDecode(nil, b); err != nil {
			return v, fmt.Errorf("%.40q is not base64", s)
		}
		return parquet.ByteArrayValue(b), nil
	case float32s, float64s:
		f, ok := codec.NotNumbers[s]
		if ok && n.kind == float32s {
			return parquet.FloatValue(float32(f)), nil
		}
		if ok {
			return parquet.DoubleValue(f), nil
		}
	case decimals:
		if codec.IsNumber(s) {
			return n.decimal(s)
		}
	case dates:
		at, err := time.Parse(time.DateOnly, s)
		if err != nil {
			return v, fmt.Errorf("%.40q is not a date such as 2026-01-02", s)
		}
		return parquet.Int32Value(int32(at.Unix() / secondsOfDay)), nil // #nosec G115 -- years have four digits
	case timestamps:
		return n.timestamp(s)
	case uuids:
		return id(s)
	}
	return v, fmt.Errorf("the text %.40q is not %s", s, n.label)
}

const secondsOfDay = 24 * 60 * 60

// timestamp parses RFC 3339. Digits finer than the unit are cut off.
func (n *node) timestamp(s string) (v parquet.Value, err error) {
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return v, fmt.Errorf("%.40q is not a timestamp such as 2026-01-02T15:04:05.123Z", s)
	}
	if n.unit == 1e9 && (at.Before(time.Unix(0, -1<<63)) || at.After(time.Unix(0, 1<<63-1))) {
		return v, fmt.Errorf("%.40q is outside the range of %s (the years 1678 to 2261)", s, n.label)
	}
	return parquet.Int64Value(at.Unix()*n.unit + int64(at.Nanosecond())/(1e9/n.unit)), nil
}

// id returns the 16 bytes of a UUID.
func id(s string) (v parquet.Value, err error) {
	if b, ok := codec.UUID(nil, s); ok {
		return parquet.FixedLenByteArrayValue(b), nil
	}
	return v, fmt.Errorf("%.40q is not a UUID such as 0198c5a2-7e4f-7cc3-98c4-dc0c0c07398f", s)
}

var errDecimal = errors.New("has more digits than the column")

// decimal returns the digits of a number that fits the column.
func (n *node) decimal(s string) (v parquet.Value, err error) {
	d, err := codec.ParseDigits(s)
	if err != nil {
		return v, err
	}
	i, ok := d.Scaled(n.scale)
	if !ok || new(big.Int).Abs(i).Cmp(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n.digits)), nil)) >= 0 {
		return v, fmt.Errorf("%.40s %w: %s", s, errDecimal, n.label)
	}
	switch {
	case n.digits <= 9:
		return parquet.Int32Value(int32(i.Int64())), nil // #nosec G115 -- so many digits fit
	case n.digits <= 18:
		return parquet.Int64Value(i.Int64()), nil
	}
	if i.Sign() < 0 {
		i.Add(i, new(big.Int).Lsh(big.NewInt(1), 8*wideDecimal)) // two's complement
	}
	return parquet.FixedLenByteArrayValue(i.FillBytes(make([]byte, wideDecimal))), nil
}
