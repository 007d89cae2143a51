package value_test

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// number draws a number near a boundary between int64, float64 and larger integers, with its exact value.
func number(t *rapid.T) (any, *big.Rat) {
	near := rapid.SampledFrom([]float64{0, 1, -1, 1 << 53, -1 << 53, 1 << 63, -1 << 63, 1 << 64}).Draw(t, "near")
	by := rapid.IntRange(-2, 2).Draw(t, "by")
	switch rapid.IntRange(0, 2).Draw(t, "kind") {
	case 0:
		f := near
		for range max(by, -by) {
			f = math.Nextafter(f, math.Copysign(math.MaxFloat64, float64(by)))
		}
		return f, new(big.Rat).SetFloat64(f)
	case 1:
		n, _ := big.NewFloat(near).Int(nil)
		n.Add(n, big.NewInt(int64(by)))
		if n.IsInt64() {
			return int(n.Int64()), new(big.Rat).SetInt(n)
		}
		return doc.Number(n.String()), new(big.Rat).SetInt(n)
	}
	f := near + float64(by)/2
	return f, new(big.Rat).SetFloat64(f)
}

func TestNumbersCompareExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, x := number(t)
		b, y := number(t)
		if got, want := value.CompareNumbers(a, b), x.Cmp(y); got != want {
			t.Errorf("%v (%T) and %v (%T): got %d, want %d", a, a, b, b, got, want)
		}
	})
}
