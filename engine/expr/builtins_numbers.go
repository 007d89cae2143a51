package expr

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

func init() { family(func() { numbers.declare("numbers", true) }) }

var numbers = builtins{
	{"sqrt(number) float", "The square root.", `sqrt(9) → 3`, calculation(math.Sqrt)},
	{"pow(number, number) float", "The first number to the power of the second.", `pow(2, 0.5) == sqrt(2) → true`,
		func(_ *frame, s *site, args []any) any {
			return s.result(math.Pow(real(args[0]), real(args[1])), args[0])
		}},
	{"exp(number) float", "e to the power of the number.", `exp(0) → 1`, calculation(math.Exp)},
	{"log(number, [number]) float", "The natural logarithm, or the logarithm to a base.",
		`log(exp(2)) → 2` + "\n" + `log(8, 2) → 3` + "\n" + `log(-1) → error: log() has no result for number -1`,
		func(_ *frame, s *site, args []any) any {
			x := real(args[0])
			if len(args) == 1 {
				return s.result(math.Log(x), args[0])
			}
			switch base := real(args[1]); {
			case base <= 0 || base == 1:
				s.fail("%s() needs a base above 0 that is not 1, not %s", s.name, s.left(args[1]))
				return nil
			case base == 2:
				return s.result(math.Log2(x), args[0])
			case base == 10:
				return s.result(math.Log10(x), args[0])
			default:
				return s.result(math.Log(x)/math.Log(base), args[0])
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
		func(_ *frame, s *site, args []any) any {
			return s.result(math.Atan2(real(args[0]), real(args[1])), args[0])
		}},
	{"pi() float", "The ratio of a circle's circumference to its diameter.", `round(pi() * 100) → 314`,
		func(*frame, *site, []any) any { return math.Pi }},
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

// real is a number to calculate with.
func real(v any) float64 {
	if i, ok := v.(int); ok {
		return float64(i)
	}
	return v.(float64)
}

func calculation(of func(float64) float64) func(*frame, *site, []any) any {
	return func(_ *frame, s *site, args []any) any { return s.result(of(real(args[0])), args[0]) }
}

// result is what a function of x gives, if JSON has such a number.
func (s *site) result(f float64, x any) any {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		s.fail("%s() has no result for %s", s.name, s.left(x))
	}
	return f
}

func percentile(f *frame, s *site, args []any) any {
	list, p := args[0].([]any), real(args[1])
	if p < 0 || p > 100 {
		s.fail("%s() needs a percentage from 0 to 100, not %s", s.name, s.left(args[1]))
	}
	if len(list) == 0 {
		s.failFor("write len(list) > 0 ? … : nil", "%s() of an empty list has no value", s.name)
	}
	f.alloc(s.offset, len(list)*8)
	f.step(s.offset, 4*len(list))
	sorted := make([]float64, len(list))
	for i, v := range list {
		s.number(v)
		sorted[i] = toFloat(f, s, list[i:i+1]).(float64)
	}
	slices.Sort(sorted)
	rank := p / 100 * float64(len(sorted)-1)
	low := int(rank)
	high := min(low+1, len(sorted)-1)
	part := rank - float64(low)
	return s.finite(sorted[low] + (sorted[high]-sorted[low])*part)
}

func parseNumber(f *frame, s *site, args []any) any {
	text, point, group := args[0].(string), ".", ","
	if len(args) == 2 {
		switch args[1] {
		case ".":
		case ",":
			point, group = ",", "."
		default:
			s.fail(`%s(): a decimal sign is "." or ",", not %s`, s.name, s.left(args[1]))
		}
	}
	f.room(s.offset, len(text))
	wrong := func() { s.fail("%s(): %s is not a number", s.name, s.left(text)) }
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
	return s.finite(n)
}

// truths are the texts that are true or false.
var truths = map[string]bool{"true": true, "yes": true, "on": true, "y": true, "t": true, "1": true,
	"false": false, "no": false, "off": false, "n": false, "f": false, "0": false}

func toBool(_ *frame, s *site, args []any) any {
	switch v := args[0].(type) {
	case string:
		is, ok := truths[strings.ToLower(v)]
		if !ok {
			s.fail("%s(): %s is neither true nor false", s.name, s.left(v))
		}
		return is
	case bool:
		return v
	}
	return real(args[0]) != 0
}
