// Package numbers has the functions for numbers: powers, angles, percentiles, parse_number, and bits (bits.go).
package numbers

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// Declare declares the functions of numbers.
func Declare() {
	numbers.Declare("numbers", true)
	bitwise.Declare("numbers", true)
}

var numbers = lang.Builtins{
	{"sqrt(number) float", "The square root.", `sqrt(9) → 3`, calculation(math.Sqrt)},
	{"pow(number, number) float", "The first number to the power of the second.", `pow(2, 0.5) == sqrt(2) → true`,
		func(_ *lang.Frame, s *lang.Site, args []any) any {
			return checkedResult(s, math.Pow(floatOf(args[0]), floatOf(args[1])), args[0])
		}},
	{"exp(number) float", "e to the power of the number.", `exp(0) → 1`, calculation(math.Exp)},
	{"log(number, [number]) float", "The natural logarithm, or the logarithm to a base.",
		`log(exp(2)) → 2` + "\n" + `log(8, 2) → 3` + "\n" + `log(-1) → error: log() has no result for number -1`,
		func(_ *lang.Frame, s *lang.Site, args []any) any {
			x := floatOf(args[0])
			if len(args) == 1 {
				return checkedResult(s, math.Log(x), args[0])
			}
			switch base := floatOf(args[1]); {
			case base <= 0 || base == 1:
				s.Fail("%s() needs a base above 0 that is not 1, not %s", s.Name, s.Show(args[1]))
				return nil
			case base == 2:
				return checkedResult(s, math.Log2(x), args[0])
			case base == 10:
				return checkedResult(s, math.Log10(x), args[0])
			default:
				return checkedResult(s, math.Log(x)/math.Log(base), args[0])
			}
		}},
	{"sin(number) float", "The sine of an angle in radians.", `sin(0) → 0`, calculation(math.Sin)},
	{"cos(number) float", "The cosine of an angle in radians.", `cos(0) → 1`, calculation(math.Cos)},
	{"tan(number) float", "The tangent of an angle in radians.", `tan(0) → 0`, calculation(math.Tan)},
	{"asin(number) float", "The angle in radians that has this sine.", `asin(1) == pi() / 2 → true`,
		calculation(math.Asin)},
	{"acos(number) float", "The angle in radians that has this cosine.", `acos(1) → 0`, calculation(math.Acos)},
	{"atan(number) float", "The angle in radians that has this tangent.", `atan(0) → 0`, calculation(math.Atan)},
	{"atan2(number, number) float", "The angle in radians of the point (x, y), from y and x.",
		`atan2(1, 0) == pi() / 2 → true`,
		func(_ *lang.Frame, s *lang.Site, args []any) any {
			return checkedResult(s, math.Atan2(floatOf(args[0]), floatOf(args[1])), args[0])
		}},
	{"pi() float", "The ratio of a circle's circumference to its diameter.", `round(pi() * 100) → 314`,
		func(*lang.Frame, *lang.Site, []any) any { return math.Pi }},
	{"percentile(list, number) float",
		"The value below which this percentage of the numbers lies, interpolated linearly; it fails for an empty list.",
		`percentile([1, 2, 3, 4], 50) → 2.5`, percentile},
	{"parse_number(text, [text]) int|big|float",
		"The number in a text with groups of digits: blanks, apostrophes and underscores are ignored, and so are commas," +
			" or points if the second argument is a comma, which is then the decimal sign.",
		`parse_number("1,234.50") → 1234.5` + "\n" + `parse_number("1.234,50", ",") → 1234.5` + "\n" +
			`parse_number("12 %") → error: parse_number(): text "12 %" is not a number`,
		parseNumber},
	{"bool(bool|number|text) bool",
		"Whether the value is true, a number other than 0, or one of the texts true, yes, on, y, t and 1, in any case;" +
			" texts other than these and false, no, off, n, f and 0 are an error.",
		`bool("Yes") → true` + "\n" + `bool(0) → false`, toBool},
}

// floatOf is a number as a float.
func floatOf(v any) float64 {
	f, _ := value.AsFloat(v)
	return f
}

func calculation(of func(float64) float64) func(*lang.Frame, *lang.Site, []any) any {
	return func(_ *lang.Frame, s *lang.Site, args []any) any {
		return checkedResult(s, of(floatOf(args[0])), args[0])
	}
}

// checkedResult is what a function of x gives, if JSON has such a number.
func checkedResult(s *lang.Site, f float64, x any) any {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		s.Fail("%s() has no result for %s", s.Name, s.Show(x))
	}
	return f
}

func percentile(f *lang.Frame, s *lang.Site, args []any) any {
	list, p := args[0].([]any), floatOf(args[1])
	if p < 0 || p > 100 {
		s.Fail("%s() needs a percentage from 0 to 100, not %s", s.Name, s.Show(args[1]))
	}
	if len(list) == 0 {
		s.FailWith("write len(list) > 0 ? … : nil", "%s() of an empty list has no value", s.Name)
	}
	f.Alloc(s.Offset, len(list)*8)
	f.Step(s.Offset, 4*len(list))
	sorted := make([]float64, len(list))
	for i, v := range list {
		s.NeedNumber(v)
		sorted[i] = lang.ToFloat(f, s, list[i:i+1]).(float64)
	}
	slices.Sort(sorted)
	rank := p / 100 * float64(len(sorted)-1)
	low := int(rank)
	high := min(low+1, len(sorted)-1)
	part := rank - float64(low)
	return s.Finite(sorted[low] + (sorted[high]-sorted[low])*part)
}

func parseNumber(f *lang.Frame, s *lang.Site, args []any) any {
	text, point, group := args[0].(string), ".", ","
	if len(args) == 2 {
		switch args[1] {
		case ".":
		case ",":
			point, group = ",", "."
		default:
			s.Fail(`%s(): a decimal sign is "." or ",", not %s`, s.Name, s.Show(args[1]))
		}
	}
	f.CheckRoom(s.Offset, len(text))
	wrong := func() { s.Fail("%s(): %s is not a number", s.Name, s.Show(text)) }
	whole, rest, fraction := strings.Cut(strings.TrimSpace(text), point)
	plain := strings.NewReplacer(group, "", " ", "", "\u00a0", "", "\u202f", "", "'", "", "’", "", "_", "").Replace(whole)
	plain = strings.TrimPrefix(plain, "+")
	if !fraction && value.IsInteger(plain) {
		if i, err := strconv.Atoi(plain); err == nil {
			return i
		}
		return value.BigNumber(plain)
	}
	if digits := strings.TrimPrefix(plain, "-"); digits != "" && digits[0] < '0' || rest != "" && (rest[0] < '0' || rest[0] > '9') {
		wrong()
	}
	if fraction {
		plain += "." + rest
	}
	n, ok := doc.ParseFloat([]byte(plain))
	if !ok || strings.Trim(plain, "+-.0123456789eE") != "" {
		wrong()
	}
	return s.Finite(n)
}

// truths are the texts that are true or false.
var truths = map[string]bool{"true": true, "yes": true, "on": true, "y": true, "t": true, "1": true,
	"false": false, "no": false, "off": false, "n": false, "f": false, "0": false}

func toBool(_ *lang.Frame, s *lang.Site, args []any) any {
	switch v := args[0].(type) {
	case string:
		is, ok := truths[strings.ToLower(v)]
		if !ok {
			s.Fail("%s(): %s is neither true nor false", s.Name, s.Show(v))
		}
		return is
	case bool:
		return v
	}
	return floatOf(args[0]) != 0
}
