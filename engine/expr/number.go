package expr

import (
	"cmp"
	"math"
	"math/big"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
)

// compareNumbers compares any two numbers exactly: no integer is rounded to a float.
func compareNumbers(a, b any) int {
	switch a := a.(type) {
	case int:
		switch b := b.(type) {
		case int:
			return cmp.Compare(a, b)
		case float64:
			return compareIntFloat(a, b)
		}
	case float64:
		switch b := b.(type) {
		case int:
			return -compareIntFloat(b, a)
		case float64:
			return cmp.Compare(a, b)
		}
	}
	return compareBig(a, b)
}

// compareIntFloat compares exactly; f is finite.
func compareIntFloat(i int, f float64) int {
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
		return digits{sign: cmp.Compare(v, 0), whole: wholeText(math.Abs(whole)), rest: rest}
	}
	return digits{}
}

// wholeText is a whole float's exact decimal text.
func wholeText(f float64) string {
	i, _ := big.NewFloat(f).Int(nil)
	return i.String()
}
