package lang

import (
	"math"
	"math/bits"
	"time"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/calendar"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// Operands of the arithmetic operators. Integers beyond int64 are not among them: they can be compared and copied, but not
// calculated with.
var (
	addTypes = append(value.Operands{
		{value.Text, value.Text, value.Text},
		{value.Time, value.Duration, value.Time},
		{value.Duration, value.Time, value.Time},
		{value.Duration, value.Duration, value.Duration},
	}, numberTypes...)
	subtractTypes = append(value.Operands{
		{value.Time, value.Time, value.Duration},
		{value.Time, value.Duration, value.Time},
		{value.Duration, value.Duration, value.Duration},
	}, numberTypes...)
	multiplyTypes = append(value.Operands{
		{value.Duration, value.Int | value.Float, value.Duration},
		{value.Int | value.Float, value.Duration, value.Duration},
	}, numberTypes...)
	divideTypes = value.Operands{
		{value.Int | value.Float, value.Int | value.Float, value.Float},
		{value.Duration, value.Duration, value.Float},
		{value.Duration, value.Int | value.Float, value.Duration},
	}
	moduloTypes = value.Operands{{value.Int | value.Float, value.Int | value.Float, value.Int}}
	powerTypes  = value.Operands{
		{value.Int, value.Int, value.Int | value.Float},
		{value.Int, value.Float, value.Float},
		{value.Float, value.Int | value.Float, value.Float},
	}
	numberTypes = value.Operands{
		{value.Int, value.Int, value.Int},
		{value.Int, value.Float, value.Float},
		{value.Float, value.Int | value.Float, value.Float},
	}
)

func add(s *Site, a, b any) any {
	switch x := a.(type) {
	case int:
		switch y := b.(type) {
		case int:
			sum := x + y
			if (sum > x) != (y > 0) && y != 0 {
				s.FailOverflow()
			}
			return sum
		case float64:
			return s.Finite(float64(x) + y)
		}
	case float64:
		if y, ok := value.AsFloat(b); ok {
			return s.Finite(x + y)
		}
	case string:
		if y, ok := b.(string); ok {
			return x + y
		}
	case time.Time:
		if y, ok := b.(time.Duration); ok {
			return s.checkShifted(x, x.Add(y))
		}
	case time.Duration:
		switch y := b.(type) {
		case time.Time:
			return s.checkShifted(y, y.Add(x))
		case time.Duration:
			sum := x + y
			if (sum > x) != (y > 0) && y != 0 {
				s.tooLong()
			}
			return sum
		}
	}
	return s.failMismatch(a, b)
}

func subtract(s *Site, a, b any) any {
	switch x := a.(type) {
	case int:
		switch y := b.(type) {
		case int:
			diff := x - y
			if (diff < x) != (y > 0) && y != 0 {
				s.FailOverflow()
			}
			return diff
		case float64:
			return s.Finite(float64(x) - y)
		}
	case float64:
		if y, ok := value.AsFloat(b); ok {
			return s.Finite(x - y)
		}
	case time.Time:
		switch y := b.(type) {
		case time.Time:
			return s.TimeBetween(x, y)
		case time.Duration:
			return s.checkShifted(x, x.Add(^y).Add(1)) // -y may not fit
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
	return s.failMismatch(a, b)
}

func multiply(s *Site, a, b any) any {
	switch x := a.(type) {
	case int:
		switch y := b.(type) {
		case int:
			return s.product(x, y)
		case float64:
			return s.Finite(float64(x) * y)
		case time.Duration:
			product, ok := multiplied(x, int(y))
			if !ok {
				s.tooLong()
			}
			return time.Duration(product)
		}
	case float64:
		if y, ok := value.AsFloat(b); ok {
			return s.Finite(x * y)
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
	return s.failMismatch(a, b)
}

func divide(s *Site, a, b any) any {
	if x, ok := a.(time.Duration); ok {
		switch y := b.(type) {
		case time.Duration:
			return s.quotient(float64(x), float64(y))
		case int, float64:
			f, _ := value.AsFloat(y)
			return s.duration(s.quotient(float64(x), f))
		}
		return s.failMismatch(a, b)
	}
	x, xok := value.AsFloat(a)
	y, yok := value.AsFloat(b)
	if !xok || !yok {
		return s.failMismatch(a, b)
	}
	return s.quotient(x, y)
}

func modulo(s *Site, a, b any) any {
	x, xok := value.AsWhole(a)
	y, yok := value.AsWhole(b)
	if !xok || !yok {
		return s.failMismatch(a, b)
	}
	if y == 0 {
		s.Fail("cannot divide by zero")
	}
	return x % y
}

func power(s *Site, a, b any) any {
	if base, ok := a.(int); ok {
		if n, ok := b.(int); ok && n >= 0 {
			return s.wholePower(base, n)
		}
	}
	x, xok := value.AsFloat(a)
	y, yok := value.AsFloat(b)
	if !xok || !yok {
		return s.failMismatch(a, b)
	}
	return s.Finite(math.Pow(x, y))
}

// wholePower is base to the power of n, exactly, by repeated squaring.
func (s *Site) wholePower(base, n int) int {
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

func negate(s *Site, v any) any {
	switch v := v.(type) {
	case int:
		if v == math.MinInt {
			s.FailOverflow()
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
	s.FailWith(remedyFor(v), "cannot negate %s", s.Show(v))
	return nil
}

func plus(s *Site, v any) any {
	switch v.(type) {
	case int, float64, time.Duration:
		return v
	}
	s.FailWith(remedyFor(v), "cannot use + on %s", s.Show(v))
	return nil
}

func (s *Site) product(x, y int) int {
	product, ok := multiplied(x, y)
	if !ok {
		s.FailOverflow()
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

func (s *Site) quotient(x, y float64) float64 {
	if y == 0 {
		s.Fail("cannot divide by zero")
	}
	return s.Finite(x / y)
}

func (s *Site) Finite(f float64) float64 {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		s.Fail("the result of %s is not a JSON number: it is too large or undefined", s.Name)
	}
	return f
}

func (s *Site) duration(f float64) time.Duration {
	if f >= 1<<63 || f < -1<<63 {
		s.tooLong()
	}
	return time.Duration(f)
}

func (s *Site) tooLong() {
	s.Fail("the result of %s is longer than 292 years, which no duration is", s.Name)
}

func (s *Site) FailOverflow() {
	s.FailWith("write float(x) to calculate with rounded numbers",
		"the result of %s does not fit into 64 bits", s.Name)
}

// CheckYear is t if it can be written in RFC 3339, where years have four digits; else it ends the evaluation. An offset of a day
// or more can't be written either: t is in UTC then.
func (s *Site) CheckYear(t time.Time) time.Time {
	if _, offset := t.Zone(); offset <= -calendar.SecondsPerDay || offset >= calendar.SecondsPerDay {
		t = t.UTC()
	}
	if y := doc.Timestamp(t).Year(); y < 1 || y > 9999 {
		s.Fail("the result of %s is in the year %d; times go from the year 1 to 9999", s.Name, y)
	}
	return t
}

// checkShifted is CheckYear of a time that was moved by a duration. A time without a year, which is in the year 0, may stay there.
func (s *Site) checkShifted(t, moved time.Time) time.Time {
	if t.Year() == 0 && moved.Year() == 0 {
		return moved
	}
	return s.CheckYear(moved)
}

// TimeBetween is a - b. It ends the evaluation if no duration is that long.
func (s *Site) TimeBetween(a, b time.Time) time.Duration {
	d := a.Sub(b)
	if d == math.MaxInt64 || d == math.MinInt64 {
		s.FailWith("unix(a) - unix(b) gives the seconds between any two",
			"the times are more than 292 years apart, which no duration is")
	}
	return d
}
