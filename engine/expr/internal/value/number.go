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

// compareBig compares two numbers of which one is an integer beyond int64. A message chooses the length of such a number, so it
// must take no more than linear time.
func compareBig(a, b any) int {
	x, y := digitsOf(a), digitsOf(b)
	return cmp.Or(
		cmp.Compare(x.sign, y.sign),
		x.sign*cmp.Compare(len(x.whole), len(y.whole)),
		x.sign*strings.Compare(x.whole, y.whole),
		cmp.Compare(x.rest, y.rest),
	)
}

// digits is a number cut at its decimal point: the sign, the whole part without leading zeros, and the fraction with its sign.
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

// WholeText is the exact decimal text of a whole float.
func WholeText(f float64) string {
	i, _ := big.NewFloat(f).Int(nil)
	return i.String()
}

// AsFloat is an int or float64 as a float64. ok is false for all others.
func AsFloat(v any) (f float64, ok bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// AsWhole is a whole number as an int. ok is false if it has a fraction or does not fit.
func AsWhole(v any) (n int, ok bool) {
	if n, ok = v.(int); ok {
		return n, true
	}
	f, ok := v.(float64)
	return int(f), ok && f == math.Trunc(f) && f >= -1<<63 && f < 1<<63
}

// BigNumber is the text of an integer beyond int64 as JSON writes it.
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
