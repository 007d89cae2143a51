package codec

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unsafe"

	"github.com/flowd-io/flowd/engine/doc"
)

// Digits are the digits of a number: 10.50 is 105 with 1 digit after the point. Trailing zeros of a fraction are
// removed.
type Digits struct {
	Negative bool
	text     string
	after    int // number of digits after the point; negative: as many zeros follow
}

// IsNumber reports whether text is a valid JSON number.
func IsNumber(s string) bool { return isNumber(s) }

// MostDigits bounds the digits of a number, and its power of ten.
const MostDigits = 3 << 10

// ParseDigits parses a JSON number.
func ParseDigits(s string) (Digits, error) {
	var d Digits
	whole, negative := strings.CutPrefix(s, "-")
	d.Negative = negative
	power := 0
	if i := strings.IndexAny(whole, "eE"); i >= 0 {
		n, err := strconv.Atoi(whole[i+1:])
		if err != nil || n > MostDigits || n < -MostDigits {
			return d, fmt.Errorf("%.40q is not a number of up to %d digits", s, MostDigits)
		}
		whole, power = whole[:i], n
	}
	whole, fraction, _ := strings.Cut(whole, ".")
	fraction = strings.TrimRight(fraction, "0")
	d.text, d.after = strings.TrimLeft(whole+fraction, "0"), len(fraction)-power
	if len(d.text) > MostDigits || strings.Trim(d.text, "0123456789") != "" || whole == "" {
		return d, fmt.Errorf("%.40q is not a number of up to %d digits", s, MostDigits)
	}
	for d.after > 0 && strings.HasSuffix(d.text, "0") { // 1.50e1
		d.text, d.after = d.text[:len(d.text)-1], d.after-1
	}
	if d.text == "" {
		d = Digits{}
	}
	return d, nil
}

// Scaled returns the number times ten to the power of scale. ok is false if that is not an integer.
func (d Digits) Scaled(scale int) (i *big.Int, ok bool) {
	if d.after > scale {
		return nil, false
	}
	i, ok = new(big.Int).SetString(d.text+strings.Repeat("0", scale-d.after), 10)
	if d.text == "" {
		return new(big.Int), true
	}
	if d.Negative {
		i.Neg(i)
	}
	return i, ok
}

// Int parses an integer, however it is spelled.
func Int(json []byte) (int64, error) {
	if i, ok := doc.ParseInt(json); ok {
		return int64(i), nil
	}
	if i, err := strconv.ParseInt(str(json), 10, 64); err == nil { // where an int is smaller than 64 bits
		return i, nil
	}
	i, err := whole(json)
	if err == nil && !i.IsInt64() {
		err = fmt.Errorf("%.40s does not fit 64 bits", json)
	}
	if err != nil {
		return 0, err
	}
	return i.Int64(), nil
}

// Uint parses a non-negative integer, however it is spelled.
func Uint(json []byte) (uint64, error) {
	if i, err := strconv.ParseUint(str(json), 10, 64); err == nil {
		return i, nil
	}
	i, err := whole(json)
	if err == nil && !i.IsUint64() {
		err = fmt.Errorf("%.40s does not fit 64 bits without a sign", json)
	}
	if err != nil {
		return 0, err
	}
	return i.Uint64(), nil
}

func whole(json []byte) (*big.Int, error) {
	d, err := ParseDigits(str(json))
	if err != nil {
		return nil, err
	}
	i, ok := d.Scaled(0)
	if !ok {
		return nil, fmt.Errorf("%.40s is not a whole number", json)
	}
	return i, nil
}

// Float parses a number of 32 or 64 bits. An integer must fit exactly. Errors call the type name.
func Float(json []byte, bits int, name string) (float64, error) {
	sure := 15 // digits that always fit
	if bits == 32 {
		sure = 6
	}
	s := str(json)
	f, err := strconv.ParseFloat(s, bits)
	if err != nil || f == 0 && !doc.SpellsZero(s) {
		return 0, fmt.Errorf("%.40s does not fit %s", s, name)
	}
	if len(s) <= sure || strings.ContainsAny(s, ".eE") {
		return f, nil
	}
	want, _ := new(big.Int).SetString(s, 10)
	if got, _ := big.NewFloat(f).Int(nil); got.Cmp(want) != 0 {
		return 0, fmt.Errorf("%.40s does not fit %s exactly", s, name)
	}
	return f, nil
}

// NotNumbers are the texts of numbers that JSON lacks.
var NotNumbers = map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1)}

// AppendFloat appends a number of 32 or 64 bits, or the text of a number that JSON lacks.
func AppendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	case bits == 32:
		dst, _ = doc.Append(dst, float32(f))
		return dst
	}
	return doc.AppendFloat(dst, f)
}

// AppendFloat32 appends a 32-bit number that a server has spelled with the fewest digits.
func AppendFloat32(dst, text []byte) []byte {
	f, err := strconv.ParseFloat(str(text), 32)
	if err != nil {
		return doc.AppendString(dst, text)
	}
	return AppendFloat(dst, f, 32)
}

// str returns b as text without copying: payloads never change.
func str(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
