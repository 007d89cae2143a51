package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/flowd-io/flowd/engine/doc"
)

// Encode writes the value: integers in as few bytes as possible, other numbers as 64-bit floats. Text stays text.
func (c *MsgPack) Encode(dst, json []byte) ([]byte, error) {
	out, err := pack(dst, json, msgpackForm{})
	if err != nil {
		return dst, fmt.Errorf("msgpack: %w", err)
	}
	return out, nil
}

type msgpackForm struct{}

func (msgpackForm) head(dst []byte, kind byte, n int) []byte {
	switch {
	case kind == '"' && n < 32:
		return append(dst, 0xa0|byte(n))
	case kind == '"' && n <= math.MaxUint8:
		return append(dst, 0xd9, byte(n))
	case kind == '"':
		return msgpackLength(dst, 0xda, n)
	case kind == '[' && n < 16:
		return append(dst, 0x90|byte(n))
	case kind == '[':
		return msgpackLength(dst, 0xdc, n)
	case n < 16:
		return append(dst, 0x80|byte(n))
	}
	return msgpackLength(dst, 0xde, n)
}

// msgpackLength appends a two-byte length after its type, or a four-byte length after the next type.
func msgpackLength(dst []byte, kind byte, n int) []byte {
	if n <= math.MaxUint16 {
		return binary.BigEndian.AppendUint16(append(dst, kind), uint16(n)) // #nosec G115 -- just compared
	}
	return binary.BigEndian.AppendUint32(append(dst, kind+1), uint32(n)) // #nosec G115 -- documents are shorter
}

func (msgpackForm) literal(dst []byte, c byte) []byte {
	switch c {
	case 'n':
		return append(dst, 0xc0)
	case 'f':
		return append(dst, 0xc2)
	}
	return append(dst, 0xc3)
}

func (msgpackForm) number(dst, json []byte) ([]byte, error) {
	if i, ok := doc.ParseInt(json); ok && (i != 0 || json[0] != '-') {
		if i < 0 {
			return msgpackNegative(dst, int64(i)), nil
		}
		return msgpackUint(dst, uint64(i)), nil
	}
	if json[0] != '-' && !bytes.ContainsAny(json, ".eE") {
		if n, err := Uint(json); err == nil {
			return msgpackUint(dst, n), nil
		}
	}
	f, err := Float(json, 64, "64 bits")
	if err != nil {
		return dst, err
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xcb), math.Float64bits(f)), nil
}

func msgpackUint(dst []byte, n uint64) []byte {
	switch {
	case n < 0x80:
		return append(dst, byte(n))
	case n <= math.MaxUint8:
		return append(dst, 0xcc, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, 0xcd), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, 0xce), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xcf), n)
}

// msgpackNegative appends a negative number in two's complement.
func msgpackNegative(dst []byte, i int64) []byte {
	switch {
	case i >= -32:
		return append(dst, byte(i))
	case i >= math.MinInt8:
		return append(dst, 0xd0, byte(i))
	case i >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(dst, 0xd1), uint16(i)) // #nosec G115 -- two's complement
	case i >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(dst, 0xd2), uint32(i)) // #nosec G115 -- two's complement
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xd3), uint64(i)) // #nosec G115 -- two's complement
}
