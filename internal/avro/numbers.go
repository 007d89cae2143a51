package avro

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
)

// digits are a number's: 10.50 is 1050 with 2 digits after the point. Zeros at the end of a
// fraction are left out.
type digits struct {
	negative bool
	text     string
	after    int // of them, after the point; negative: as many zeros follow
}

// most bounds the digits of a number, and its power of ten.
const most = 3 * longestDecimal

// parseDigits reads a number as JSON spells it.
func parseDigits(s string) (digits, error) {
	var d digits
	whole, negative := strings.CutPrefix(s, "-")
	d.negative = negative
	power := 0
	if i := strings.IndexAny(whole, "eE"); i >= 0 {
		n, err := strconv.Atoi(whole[i+1:])
		if err != nil || n > most || n < -most {
			return d, fmt.Errorf("%.40q is not a number of up to %d digits", s, most)
		}
		whole, power = whole[:i], n
	}
	whole, fraction, _ := strings.Cut(whole, ".")
	fraction = strings.TrimRight(fraction, "0")
	d.text, d.after = strings.TrimLeft(whole+fraction, "0"), len(fraction)-power
	if len(d.text) > most || strings.Trim(d.text, "0123456789") != "" || whole == "" {
		return d, fmt.Errorf("%.40q is not a number of up to %d digits", s, most)
	}
	for d.after > 0 && strings.HasSuffix(d.text, "0") { // 1.50e1
		d.text, d.after = d.text[:len(d.text)-1], d.after-1
	}
	if d.text == "" {
		d = digits{}
	}
	return d, nil
}

// scaled is the number without its point, when that many digits are to follow it; ok is
// false if there are more.
func (d digits) scaled(scale int) (i *big.Int, ok bool) {
	if d.after > scale {
		return nil, false
	}
	i, ok = new(big.Int).SetString(d.text+strings.Repeat("0", scale-d.after), 10)
	if d.text == "" {
		return new(big.Int), true
	}
	if d.negative {
		i.Neg(i)
	}
	return i, ok
}

// exactInt is a whole number, however it is spelled.
func exactInt(json []byte) (int64, error) {
	if i, ok := doc.ParseInt(json); ok {
		return int64(i), nil
	}
	s := str(json)
	if i, err := strconv.ParseInt(s, 10, 64); err == nil { // where an int is smaller
		return i, nil
	}
	d, err := parseDigits(s)
	if err != nil {
		return 0, err
	}
	switch i, whole := d.scaled(0); {
	case !whole:
		return 0, fmt.Errorf("%.40s is not a whole number", s)
	case !i.IsInt64():
		return 0, fmt.Errorf("%.40s does not fit 64 bits", s)
	default:
		return i.Int64(), nil
	}
}

// exactFloat is a number of a float or double. One that is written as an integer must be
// exactly that.
func exactFloat(n *node, s string) (float64, error) {
	bits, sure := 64, 15 // digits that such a number always has room for
	if n.kind == float {
		bits, sure = 32, 6
	}
	f, err := strconv.ParseFloat(s, bits)
	if err != nil {
		return 0, fmt.Errorf("%.40s does not fit %s", s, n.name)
	}
	if len(s) <= sure || strings.ContainsAny(s, ".eE") {
		return f, nil
	}
	want, _ := new(big.Int).SetString(s, 10)
	if got, _ := big.NewFloat(f).Int(nil); got.Cmp(want) != 0 {
		return 0, fmt.Errorf("%.40s does not fit %s exactly", s, n.name)
	}
	return f, nil
}

// decimal writes a decimal number, which must fit without being rounded.
func (w *writer) decimal(n *node, s string) error {
	d, err := parseDigits(s)
	if err != nil {
		return err
	}
	if n.scale > most {
		return fmt.Errorf("a decimal of %d digits after the point is too long", n.scale)
	}
	i, ok := d.scaled(n.scale)
	switch {
	case !ok:
		return fmt.Errorf("%.40s has more than the %d digits after the point that the decimal has", s, n.scale)
	case i.Sign() != 0 && len(i.Text(10)) > n.precision+len("-")*btoi(d.negative):
		return fmt.Errorf("%.40s has more than the %d digits of the decimal", s, n.precision)
	}
	b := twosComplement(i)
	if n.size == 0 {
		w.dst = append(appendLong(w.dst, int64(len(b))), b...)
		return nil
	}
	if len(b) > n.size {
		return fmt.Errorf("%.40s does not fit %s, which has %d bytes", s, n.name, n.size)
	}
	for range n.size - len(b) {
		w.dst = append(w.dst, byte(i.Sign()>>1)) // the sign goes on
	}
	w.dst = append(w.dst, b...)
	return nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// twosComplement are the fewest bytes of a number, the highest first.
func twosComplement(i *big.Int) []byte {
	if i.Sign() >= 0 {
		b := i.Bytes()
		if len(b) == 0 || b[0] >= 0x80 {
			b = append([]byte{0}, b...)
		}
		return b
	}
	size := new(big.Int).Not(i).BitLen()/8 + 1
	whole := new(big.Int).Lsh(big.NewInt(1), uint(8*size)) // #nosec G115 -- it is short
	return whole.Add(whole, i).FillBytes(make([]byte, size))
}
