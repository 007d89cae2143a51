package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"

	"github.com/flowd-io/flowd/engine/doc"
)

// Encode writes the value: integers in as few bytes as possible, other numbers as 64-bit floats. Text stays text.
func (c *CBOR) Encode(dst, json []byte) ([]byte, error) {
	out, err := pack(dst, json, cborForm{})
	if err != nil {
		return dst, fmt.Errorf("cbor: %w", err)
	}
	return out, nil
}

type cborForm struct{}

func (cborForm) head(dst []byte, kind byte, n int) []byte {
	major := byte(cborText)
	switch kind {
	case '[':
		major = cborList
	case '{':
		major = cborMap
	}
	return appendCBORHead(dst, major, uint64(n))
}

func appendCBORHead(dst []byte, major byte, n uint64) []byte {
	major <<= 5
	switch {
	case n < 24:
		return append(dst, major|byte(n))
	case n <= math.MaxUint8:
		return append(dst, major|24, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, major|25), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, major|27), n)
}

func (cborForm) literal(dst []byte, c byte) []byte {
	switch c {
	case 'n':
		return append(dst, 0xf6)
	case 'f':
		return append(dst, 0xf4)
	}
	return append(dst, 0xf5)
}

func (cborForm) number(dst, json []byte) ([]byte, error) {
	if i, ok := doc.ParseInt(json); ok && (i != 0 || json[0] != '-') {
		if i < 0 {
			return appendCBORHead(dst, cborNegative, uint64(-1-i)), nil
		}
		return appendCBORHead(dst, cborUint, uint64(i)), nil
	}
	if !bytes.ContainsAny(json, ".eE") && string(json) != "-0" {
		return cborWhole(dst, json)
	}
	f, err := Float(json, 64, "64 bits")
	if err != nil {
		return dst, err
	}
	return binary.BigEndian.AppendUint64(append(dst, cborSimple<<5|27), math.Float64bits(f)), nil
}

// cborWhole appends an integer beyond 63 bits, as bytes if it is beyond 64.
func cborWhole(dst, json []byte) ([]byte, error) {
	n, err := whole(json)
	if err != nil {
		return dst, err
	}
	major, tag := byte(cborUint), byte(cborPositive)
	if n.Sign() < 0 {
		major, tag = cborNegative, cborBelow
		n = new(big.Int).Not(n)
	}
	if n.IsUint64() {
		return appendCBORHead(dst, major, n.Uint64()), nil
	}
	b := n.Bytes()
	dst = appendCBORHead(append(dst, cborTag<<5|tag), cborBytes, uint64(len(b)))
	return append(dst, b...), nil
}
