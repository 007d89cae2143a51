package codec

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"strconv"
)

// longestDecimal bounds the bytes of a decimal: converting it takes more than linear time.
const longestDecimal = 1024

// AppendDecimal appends the number in bytes, two's complement with the highest byte first, with this many digits
// after the point.
func AppendDecimal(dst, b []byte, scale int) ([]byte, error) {
	for len(b) > 1 && (b[0] == 0 && b[1] < 0x80 || b[0] == 0xff && b[1] >= 0x80) {
		b = b[1:]
	}
	if len(b) > longestDecimal || scale > MostDigits {
		return dst, fmt.Errorf("a decimal of %d bytes, and %d digits after the point, is too long", len(b), scale)
	}
	if len(b) <= 8 {
		var i int64
		if len(b) > 0 && b[0] >= 0x80 {
			i = -1
		}
		for _, x := range b {
			i = i<<8 | int64(x)
		}
		return AppendScaled(dst, i, scale), nil
	}
	start := len(dst)
	i := new(big.Int).SetBytes(b)
	if b[0] >= 0x80 {
		i.Sub(i, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b)))) // #nosec G115 -- it is short
	}
	return withPoint(i.Append(dst, 10), start, scale), nil
}

// AppendScaled appends an integer with a point before its last scale digits.
func AppendScaled(dst []byte, i int64, scale int) []byte {
	return withPoint(strconv.AppendInt(dst, i, 10), len(dst), scale)
}

// withPoint inserts a point into the integer that begins at start.
func withPoint(dst []byte, start, scale int) []byte {
	if scale <= 0 {
		return dst
	}
	if dst[start] == '-' {
		start++
	}
	if lacks := scale + 1 - (len(dst) - start); lacks > 0 { // needs zeros before and after the point
		dst = slices.Insert(dst, start, bytes.Repeat([]byte("0"), lacks)...)
	}
	at := len(dst) - scale
	dst = append(dst, 0)
	copy(dst[at+1:], dst[at:])
	dst[at] = '.'
	return dst
}

// AppendUUID appends 16 bytes in the form of a UUID.
func AppendUUID(dst, b []byte) []byte {
	dst = append(dst, '"')
	for i, x := range b {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, []byte{x})
	}
	return append(dst, '"')
}

// UUID appends the 16 bytes of a UUID. ok reports whether s is one.
func UUID(dst []byte, s string) (out []byte, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return dst, false
	}
	digits := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	out, err := hex.AppendDecode(dst, []byte(digits))
	return out, err == nil
}

// MonthKeys are the keys of a duration, whose numbers have no common unit.
var MonthKeys = [3]string{"months", "days", "milliseconds"}

// AppendMonths appends a duration: three numbers of 32 bits, the lowest bytes first.
func AppendMonths(dst, b []byte) []byte {
	for i, key := range MonthKeys {
		dst = append(dst, `{,,`[i])
		dst = append(append(append(dst, '"'), key...), `":`...)
		dst = strconv.AppendUint(dst, uint64(binary.LittleEndian.Uint32(b[4*i:])), 10)
	}
	return append(dst, '}')
}
