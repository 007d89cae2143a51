package avro

import (
	"fmt"
	"math/big"

	"github.com/flowd-io/flowd/internal/formats/codec"
)

// decimal writes a decimal number, which must fit exactly.
func (w *writer) decimal(n *node, s string) error {
	d, err := codec.ParseDigits(s)
	if err != nil {
		return err
	}
	if n.scale > codec.MostDigits {
		return fmt.Errorf("a decimal with %d digits after the point is too long", n.scale)
	}
	i, ok := d.Scaled(n.scale)
	switch {
	case !ok:
		return fmt.Errorf("%.40s has more than the %d digits after the point that the decimal has", s, n.scale)
	case i.Sign() != 0 && len(i.Text(10)) > n.precision+len("-")*btoi(d.Negative):
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
		w.dst = append(w.dst, byte(i.Sign()>>1)) // sign extension
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

// twosComplement returns the shortest form of a number, highest byte first.
func twosComplement(i *big.Int) []byte {
	if i.Sign() >= 0 {
		b := i.Bytes()
		if len(b) == 0 || b[0] >= 0x80 {
			b = append([]byte{0}, b...)
		}
		return b
	}
	size := new(big.Int).Not(i).BitLen()/8 + 1
	whole := new(big.Int).Lsh(big.NewInt(1), uint(8*size)) // #nosec G115 -- size is small
	return whole.Add(whole, i).FillBytes(make([]byte, size))
}
