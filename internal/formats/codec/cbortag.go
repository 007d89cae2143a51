package codec

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
)

// What tags say about the item that follows.
const (
	cborEpoch    = 1
	cborPositive = 2 // a non-negative integer as bytes
	cborBelow    = 3 // -1 minus an integer as bytes
	cborDecimal  = 4
	cborAsURL    = 21 // how bytes are to be encoded
	cborAsBase64 = 22
	cborAsHex    = 23
)

// tagged reads the item after a tag. Unknown tags, and those that only say how to read text, are ignored.
func (r *cborReader) tagged(tag uint64) error {
	if r.depth++; r.depth > MaxDepth { // tags can be nested, too
		return errDeep
	}
	defer func() { r.depth-- }()
	switch tag {
	case cborEpoch:
		return r.epoch()
	case cborPositive, cborBelow:
		n, err := r.big(tag)
		if err == nil {
			r.dst = n.Append(r.dst, 10)
		}
		return err
	case cborDecimal:
		return r.decimal()
	case cborAsURL, cborAsBase64, cborAsHex:
		outer := r.radix
		r.radix = []radix{inBase64URL, inBase64, inHex}[tag-cborAsURL]
		err := r.value()
		r.radix = outer
		return err
	}
	return r.value()
}

var errEpoch = errors.New("a time is not a number")

// epoch reads seconds since 1970.
func (r *cborReader) epoch() error {
	h, err := r.head()
	switch {
	case err != nil:
		return err
	case h.major <= cborNegative && h.n <= math.MaxInt64:
		seconds := int64(h.n) // #nosec G115 -- just compared
		if h.major == cborNegative {
			seconds = -1 - seconds
		}
		return r.instant(seconds, 0)
	case h.major <= cborNegative:
		return errInstant
	case h.major != cborSimple || h.info < 25:
		return errEpoch
	}
	f, _ := h.float()
	if !(math.Abs(f) < 1e12) { // nor NaN
		return errInstant
	}
	seconds := math.Floor(f)
	micros := math.Round((f - seconds) * 1e6) // current times have no more digits in 64 bits
	if micros == 1e6 {
		seconds, micros = seconds+1, 0
	}
	return r.instant(int64(seconds), uint64(micros)*1000)
}

// mostBig bounds the bytes of an integer: printing it takes quadratic time.
const mostBig = MostDigits * 5 / 12

// big reads an integer that is written as bytes.
func (r *cborReader) big(tag uint64) (*big.Int, error) {
	h, err := r.head()
	if err == nil && h.major != cborBytes {
		err = errors.New("a large number is not written as bytes")
	}
	if err != nil {
		return nil, err
	}
	from := len(r.dst)
	n := new(big.Int)
	err = r.bytes(h, func(b []byte) error {
		if len(b) > mostBig {
			return fmt.Errorf("a number has more than %d digits", MostDigits)
		}
		n.SetBytes(b)
		return nil
	})
	r.dst = r.dst[:from]
	if tag == cborBelow {
		n.Not(n)
	}
	return n, err
}

var errDecimal = fmt.Errorf("a decimal is not two whole numbers, the first of up to %d", MostDigits)

// decimal reads a power of ten and its factor.
func (r *cborReader) decimal() error {
	from := len(r.dst)
	h, err := r.head()
	if err == nil && (h.major != cborList || h.n != 2) {
		err = errDecimal
	}
	if err != nil {
		return err
	}
	h, err = r.head()
	if err == nil && (h.major > cborNegative || h.n > MostDigits) {
		err = errDecimal
	}
	if err != nil {
		return err
	}
	power := int(h.n) // #nosec G115 -- just compared
	if h.major == cborNegative {
		power = -1 - power
	}
	h, err = r.head()
	switch {
	case err != nil:
		return err
	case h.major <= cborNegative:
		r.integer(h)
	case h.major == cborTag && (h.n == cborPositive || h.n == cborBelow):
		n, err := r.big(h.n)
		if err != nil {
			return err
		}
		r.dst = n.Append(r.dst, 10)
	default:
		return errDecimal
	}
	digits, negative := strings.CutPrefix(string(r.dst[from:]), "-")
	r.dst = r.dst[:from]
	if negative {
		r.dst = append(r.dst, '-')
	}
	r.dst = append(r.dst, pointed(digits, power)...)
	return nil
}

// pointed formats an integer times a power of ten.
func pointed(digits string, power int) string {
	switch after := -power; {
	case power >= 0 && digits == "0":
		return digits
	case power >= 0:
		return digits + strings.Repeat("0", power)
	case after >= len(digits):
		return "0." + strings.Repeat("0", after-len(digits)) + digits
	default:
		return digits[:len(digits)-after] + "." + digits[len(digits)-after:]
	}
}
