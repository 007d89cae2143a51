package doc

import (
	"bytes"
	"math"
	"strconv"
)

// ParseNumber decodes the source text of a number: to an int, to a [Number] if it is an integer beyond int64, else to
// a float64. A number beyond float64 gives a *[ValueError].
func ParseNumber(raw []byte) (any, error) {
	if n, ok := ParseInt(raw); ok {
		if uint(n) < uint(len(small)) {
			return small[n], nil
		}
		return n, nil
	}
	if bytes.IndexByte(raw, '.') < 0 && bytes.IndexByte(raw, 'e') < 0 && bytes.IndexByte(raw, 'E') < 0 {
		return Number(alias(raw)), nil
	}
	f, ok := ParseFloat(raw)
	if !ok {
		return nil, &ValueError{Msg: "the number " + excerpt(alias(raw)) + " is out of range"}
	}
	return f, nil
}

// small holds common integers as interfaces, since converting an int to one allocates.
var small = func() (list [1024]any) {
	for i := range list {
		list[i] = i
	}
	return list
}()

// ParseInt decodes a number that is spelled as an integer and fits an int.
func ParseInt(raw []byte) (int, bool) {
	i, negative := 0, false
	if len(raw) > 0 && raw[0] == '-' {
		i, negative = 1, true
	}
	if len(raw) == i || len(raw)-i > 19 {
		return 0, false
	}
	var n uint64 // 19 digits always fit
	for ; i < len(raw); i++ {
		c := raw[i] - '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + uint64(c)
	}
	switch {
	case negative && n <= -math.MinInt:
		return int(-n), true
	case !negative && n <= math.MaxInt:
		return int(n), true
	}
	return 0, false
}

// powers of ten that a float64 holds exactly, with room for what is divided by them.
var powers = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// ParseFloat decodes the source text of a number that a float64 can hold, perhaps rounded. ok is false if a number
// that is not 0 would become 0, such as 1e-400.
func ParseFloat(raw []byte) (float64, bool) {
	if f, ok := shortDecimal(raw); ok {
		return f, true
	}
	f, err := strconv.ParseFloat(alias(raw), 64)
	return f, err == nil && !math.IsInf(f, 0) && (f != 0 || SpellsZero(raw))
}

// SpellsZero reports whether all digits of a number are zeros, whatever its exponent.
func SpellsZero[T string | []byte](number T) bool {
	for i := range len(number) {
		switch c := number[i]; {
		case c|0x20 == 'e':
			return true
		case '1' <= c && c <= '9':
			return false
		}
	}
	return true
}

// shortDecimal decodes up to 15 digits, with or without a point. Digits and power of ten are exact, so one division
// rounds correctly.
func shortDecimal(raw []byte) (float64, bool) {
	digits, negative := raw, false
	if len(raw) > 0 && raw[0] == '-' {
		digits, negative = raw[1:], true
	}
	if len(digits) == 0 || len(digits) > 16 {
		return 0, false
	}
	n, point := uint64(0), -1
	for i, c := range digits {
		switch {
		case c-'0' <= 9:
			n = n*10 + uint64(c-'0')
		case c == '.' && point < 0 && 0 < i && i < len(digits)-1:
			point = i
		default:
			return 0, false
		}
	}
	if n >= 1e15 {
		return 0, false
	}
	f := float64(n)
	if point >= 0 {
		f /= powers[len(digits)-1-point]
	}
	if negative {
		f = -f
	}
	return f, true
}

func appendFloat(dst []byte, f float64, size int) ([]byte, error) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, &ValueError{Msg: strconv.FormatFloat(f, 'g', -1, 64) + " is not a JSON number"}
	}
	if out, ok := appendShort(dst, f); ok && size == 64 {
		return out, nil
	}
	// A whole number without exponent is read as an integer, so all its digits are written even if fewer would give
	// the same float.
	if abs := math.Abs(f); abs >= 1<<24 && abs < 1e21 && f == math.Trunc(f) {
		return strconv.AppendFloat(dst, f, 'f', 0, 64), nil
	}
	// Exponents begin where those of JavaScript do, as in encoding/json.
	form := byte('f')
	if abs := math.Abs(f); abs != 0 {
		if size == 64 && (abs < 1e-6 || abs >= 1e21) || size == 32 && (float32(abs) < 1e-6 || float32(abs) >= 1e21) {
			form = 'e'
		}
	}
	dst = strconv.AppendFloat(dst, f, form, -1, size)
	if n := len(dst); form == 'e' && n >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1] // e-09 is e-9
		dst = dst[:n-1]
	}
	return dst, nil
}

// AppendFloat is Append for a number that is neither infinite nor NaN.
func AppendFloat(dst []byte, f float64) []byte {
	dst, _ = appendFloat(dst, f, 64)
	return dst
}

// appendShort appends a number with up to 15 digits, up to four of them after the point. No other number with so few
// digits gives the same float, so this is the shortest form.
func appendShort(dst []byte, f float64) (out []byte, ok bool) {
	abs := math.Abs(f)
	for places := range 5 {
		scaled := abs * powers[places]
		if !(scaled < 1e15) {
			break
		}
		n := uint64(scaled + 0.5)
		if float64(n)/powers[places] != abs {
			continue
		}
		if math.Signbit(f) {
			dst = append(dst, '-')
		}
		unit := uint64(powers[places])
		dst = strconv.AppendUint(dst, n/unit, 10)
		if places > 0 {
			dst = append(dst, '.')
			for rest := n % unit; unit > 1; rest %= unit {
				unit /= 10
				dst = append(dst, byte('0'+rest/unit))
			}
		}
		return dst, true
	}
	return dst, false
}
