package expr

import (
	"math"
	"math/bits"
	"time"
)

// What the arithmetic operators take and yield. Integers beyond int64 are not
// among it: they compare and copy, but nothing is calculated with them.
var (
	addTypes = append([]combo{
		{kText, kText, kText},
		{kTime, kDuration, kTime}, {kDuration, kTime, kTime}, {kDuration, kDuration, kDuration},
	}, numberTypes...)
	subtractTypes = append([]combo{
		{kTime, kTime, kDuration}, {kTime, kDuration, kTime}, {kDuration, kDuration, kDuration},
	}, numberTypes...)
	multiplyTypes = append([]combo{
		{kDuration, kInt | kFloat, kDuration}, {kInt | kFloat, kDuration, kDuration},
	}, numberTypes...)
	divideTypes = []combo{
		{kInt | kFloat, kInt | kFloat, kFloat}, {kDuration, kDuration, kFloat}, {kDuration, kInt | kFloat, kDuration},
	}
	moduloTypes = []combo{{kInt | kFloat, kInt | kFloat, kInt}}
	powerTypes  = []combo{{kInt, kInt, kInt | kFloat}, {kInt, kFloat, kFloat}, {kFloat, kInt | kFloat, kFloat}}
	numberTypes = []combo{
		{kInt, kInt, kInt}, {kInt, kFloat, kFloat}, {kFloat, kInt | kFloat, kFloat},
	}
)

func add(s *site, a, b any) any {
	switch x := a.(type) {
	case int:
		switch y := b.(type) {
		case int:
			sum := x + y
			if (sum > x) != (y > 0) && y != 0 {
				s.overflow()
			}
			return sum
		case float64:
			return s.finite(float64(x) + y)
		}
	case float64:
		if y, ok := float(b); ok {
			return s.finite(x + y)
		}
	case string:
		if y, ok := b.(string); ok {
			return x + y
		}
	case time.Time:
		if y, ok := b.(time.Duration); ok {
			return s.shifted(x, x.Add(y))
		}
	case time.Duration:
		switch y := b.(type) {
		case time.Time:
			return s.shifted(y, y.Add(x))
		case time.Duration:
			sum := x + y
			if (sum > x) != (y > 0) && y != 0 {
				s.tooLong()
			}
			return sum
		}
	}
	return s.mismatch(a, b)
}

func subtract(s *site, a, b any) any {
	switch x := a.(type) {
	case int:
		switch y := b.(type) {
		case int:
			diff := x - y
			if (diff < x) != (y > 0) && y != 0 {
				s.overflow()
			}
			return diff
		case float64:
			return s.finite(float64(x) - y)
		}
	case float64:
		if y, ok := float(b); ok {
			return s.finite(x - y)
		}
	case time.Time:
		switch y := b.(type) {
		case time.Time:
			return s.apart(x, y)
		case time.Duration:
			return s.shifted(x, x.Add(^y).Add(1)) // -y may not fit
		}
	case time.Duration:
		if y, ok := b.(time.Duration); ok {
			diff := x - y
			if (diff < x) != (y > 0) && y != 0 {
				s.tooLong()
			}
			return diff
		}
	}
	return s.mismatch(a, b)
}

func multiply(s *site, a, b any) any {
	switch x := a.(type) {
	case int:
		switch y := b.(type) {
		case int:
			return s.product(x, y)
		case float64:
			return s.finite(float64(x) * y)
		case time.Duration:
			product, ok := multiplied(x, int(y))
			if !ok {
				s.tooLong()
			}
			return time.Duration(product)
		}
	case float64:
		if y, ok := float(b); ok {
			return s.finite(x * y)
		}
		if y, ok := b.(time.Duration); ok {
			return s.duration(x * float64(y))
		}
	case time.Duration:
		switch b.(type) {
		case int, float64:
			return multiply(s, b, a)
		}
	}
	return s.mismatch(a, b)
}

func divide(s *site, a, b any) any {
	if x, ok := a.(time.Duration); ok {
		switch y := b.(type) {
		case time.Duration:
			return s.quotient(float64(x), float64(y))
		case int, float64:
			f, _ := float(y)
			return s.duration(s.quotient(float64(x), f))
		}
		return s.mismatch(a, b)
	}
	x, xok := float(a)
	y, yok := float(b)
	if !xok || !yok {
		return s.mismatch(a, b)
	}
	return s.quotient(x, y)
}

func modulo(s *site, a, b any) any {
	x, xok := wholeOf(a)
	y, yok := wholeOf(b)
	if !xok || !yok {
		return s.mismatch(a, b)
	}
	if y == 0 {
		s.fail("cannot divide by zero")
	}
	return x % y
}

func power(s *site, a, b any) any {
	if base, ok := a.(int); ok {
		if n, ok := b.(int); ok && n >= 0 {
			return s.wholePower(base, n)
		}
	}
	x, xok := float(a)
	y, yok := float(b)
	if !xok || !yok {
		return s.mismatch(a, b)
	}
	return s.finite(math.Pow(x, y))
}

// wholePower is exact, by repeated squaring.
func (s *site) wholePower(base, n int) int {
	result := 1
	for {
		if n&1 == 1 {
			result = s.product(result, base)
		}
		if n >>= 1; n == 0 {
			return result
		}
		if base != 0 && base != 1 && base != -1 {
			base = s.product(base, base)
		}
	}
}

func negate(s *site, v any) any {
	switch v := v.(type) {
	case int:
		if v == math.MinInt {
			s.overflow()
		}
		return -v
	case float64:
		return -v
	case time.Duration:
		if v == math.MinInt64 {
			s.tooLong()
		}
		return -v
	}
	s.failFor(remedyFor(v), "cannot negate %s", s.left(v))
	return nil
}

func plus(s *site, v any) any {
	switch v.(type) {
	case int, float64, time.Duration:
		return v
	}
	s.failFor(remedyFor(v), "cannot use + on %s", s.left(v))
	return nil
}

// float is a number that can be calculated with, as a float.
func float(v any) (f float64, ok bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// wholeOf is a number as an integer, if it is a whole one that 64 bits hold.
func wholeOf(v any) (n int, ok bool) {
	if n, ok = v.(int); ok {
		return n, true
	}
	f, ok := v.(float64)
	return int(f), ok && f == math.Trunc(f) && f >= -1<<63 && f < 1<<63
}

func (s *site) product(x, y int) int {
	product, ok := multiplied(x, y)
	if !ok {
		s.overflow()
	}
	return product
}

func multiplied(x, y int) (product int, ok bool) {
	neg := (x < 0) != (y < 0)
	hi, lo := bits.Mul64(magnitude(x), magnitude(y))
	return x * y, hi == 0 && (lo < 1<<63 || lo == 1<<63 && neg)
}

func magnitude(x int) uint64 {
	if x < 0 {
		return -uint64(x)
	}
	return uint64(x)
}

func (s *site) quotient(x, y float64) float64 {
	if y == 0 {
		s.fail("cannot divide by zero")
	}
	return s.finite(x / y)
}

func (s *site) finite(f float64) float64 {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		s.fail("the result of %s is not a JSON number: it is too large or undefined", s.name)
	}
	return f
}

func (s *site) duration(f float64) time.Duration {
	if f >= 1<<63 || f < -1<<63 {
		s.tooLong()
	}
	return time.Duration(f)
}

func (s *site) tooLong() {
	s.fail("the result of %s is longer than 292 years, which no duration is", s.name)
}

func (s *site) overflow() {
	s.failFor("write float(x) to calculate with rounded numbers",
		"the result of %s does not fit into 64 bits", s.name)
}
