package value

import (
	"cmp"
	"math"
	"math/big"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
)

// CompareNumbers compares any two numbers exactly: no integer is rounded to a float.
func CompareNumbers(a, b any) int {
	switch a := a.(type) {
	case int:
		switch b := b.(type) {
		case int:
			return cmp.Compare(a, b)
		case float64:
			return CompareIntFloat(a, b)
		}
	case float64:
		switch b := b.(type) {
		case int:
			return -CompareIntFloat(b, a)
		case float64:
			return cmp.Compare(a, b)
		}
	}
	return compareBig(a, b)
}

// CompareIntFloat compares exactly; f is finite.
func CompareIntFloat(i int, f float64) int {
	switch {
	case f >= 1<<63:
		return -1
	case f < -1<<63:
		return 1
	}
	whole := math.Trunc(f)
	if c := cmp.Compare(i, int(whole)); c != 0 {
		return c
	}
	return cmp.Compare(whole, f)
}

// compareBig compares when one of the two is an integer beyond int64. It takes
// time linear in the number's length, which a message chooses.
func compareBig(a, b any) int {
	x, y := digitsOf(a), digitsOf(b)
	return cmp.Or(
		cmp.Compare(x.sign, y.sign),
		x.sign*cmp.Compare(len(x.whole), len(y.whole)),
		x.sign*strings.Compare(x.whole, y.whole),
		cmp.Compare(x.rest, y.rest),
	)
}

// digits is a number cut at its point: sign, whole part without leading zeros,
// and the signed rest.
type digits struct {
	sign  int
	whole string
	rest  float64
}

func digitsOf(v any) digits {
	switch v := v.(type) {
	case doc.Number:
		s, sign := string(v), 1
		if strings.HasPrefix(s, "-") {
			s, sign = s[1:], -1
		}
		return digits{sign: sign, whole: strings.TrimLeft(s, "0")}
	case int:
		return digits{sign: cmp.Compare(v, 0), whole: new(big.Int).Abs(big.NewInt(int64(v))).String()}
	case float64:
		whole, rest := math.Modf(v)
		return digits{sign: cmp.Compare(v, 0), whole: WholeText(math.Abs(whole)), rest: rest}
	}
	return digits{}
}

// WholeText is a whole float's exact decimal text.
func WholeText(f float64) string {
	i, _ := big.NewFloat(f).Int(nil)
	return i.String()
}

// AsFloat is a number that can be calculated with, as a float.
func AsFloat(v any) (f float64, ok bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// AsWhole is a number as an integer, if it is a whole one that 64 bits hold.
func AsWhole(v any) (n int, ok bool) {
	if n, ok = v.(int); ok {
		return n, true
	}
	f, ok := v.(float64)
	return int(f), ok && f == math.Trunc(f) && f >= -1<<63 && f < 1<<63
}

// BigNumber is an integer beyond int64 in JSON's spelling.
func BigNumber(text string) doc.Number {
	digits, negative := strings.CutPrefix(text, "-")
	digits = strings.TrimLeft(digits, "0")
	if negative {
		digits = "-" + digits
	}
	return doc.Number(digits)
}

// IsInteger says whether text has only digits, after a minus or not.
func IsInteger(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	return digits != "" && strings.TrimLeft(digits, "0123456789") == ""
}
