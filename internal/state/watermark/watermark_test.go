package watermark

import (
	"math/rand/v2"
	"testing"
)

// TestAllBelowTheMarkAreSettled settles runs in any order, some of them again, against a list of what is settled.
func TestAllBelowTheMarkAreSettled(t *testing.T) {
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(seed, 0))
		var w Watermark
		var settled []bool
		low := 0
		for range 300 {
			if dice.IntN(3) == 0 {
				n := dice.IntN(100)
				if first := w.Read(n); first != uint64(len(settled)) {
					t.Fatalf("seed %d: read %d, want %d", seed, first, len(settled))
				}
				settled = append(settled, make([]bool, n)...)
			}
			first := max(0, low-3+dice.IntN(len(settled)-low+10))
			n := dice.IntN(40)
			for i := first; i < min(first+n, len(settled)); i++ {
				settled[i] = true
			}
			was := low
			for low < len(settled) && settled[low] {
				low++
			}
			raised := w.SettleAll(uint64(first), n)
			if raised != (low > was) || w.Low() != uint64(low) || w.Span() != len(settled)-low {
				t.Fatalf("seed %d: the mark is %d with %d above, raised: %t; want %d with %d", seed, w.Low(), w.Span(), raised, low,
					len(settled)-low)
			}
		}
		if w.SettleAll(0, len(settled)); w.Span() != 0 {
			t.Fatalf("seed %d: %d are not settled", seed, w.Span())
		}
	}
}
