package waits

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
)

// wait is one of the model: a plain list, searched as a whole.
type wait struct{ of, on int }

func reaches(all []*wait, from, to int) bool {
	seen := map[int]bool{}
	var visit func(int) bool
	visit = func(o int) bool {
		if o == to {
			return true
		}
		if seen[o] {
			return false
		}
		seen[o] = true
		return slices.ContainsFunc(all, func(w *wait) bool { return w.of == o && visit(w.on) })
	}
	return visit(from)
}

func TestAWaitThatClosesACircleIsRefused(t *testing.T) {
	roots := enginetest.Origins(t, 12)
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		g := New()
		var model []*wait
		waits := map[*wait]*Wait{}
		for range 60 {
			switch n := r.IntN(10); {
			case n < 6:
				w := &wait{r.IntN(len(roots)), r.IntN(len(roots))}
				x := new(Wait)
				want := !reaches(model, w.on, w.of)
				if got := g.Begin(x, roots[w.of:w.of+1], roots[w.on:w.on+1], nil); got != want {
					t.Fatalf("seed %d: %d waits for %d: %v, want %v", seed, w.of, w.on, got, want)
				}
				if want {
					model, waits[w] = append(model, w), x
				}
			case len(model) == 0:
			case n < 8:
				i := r.IntN(len(model))
				g.End(waits[model[i]])
				g.End(waits[model[i]])
				delete(waits, model[i])
				model = slices.Delete(model, i, i+1)
			default:
				w, on := model[r.IntN(len(model))], r.IntN(len(roots))
				w.on = on
				want := !reaches(model, on, w.of)
				if got := g.Change(waits[w], roots[on:on+1]); got != want {
					t.Fatalf("seed %d: %d now waits for %d: %v, want %v", seed, w.of, on, got, want)
				}
				if !want {
					g.End(waits[w])
					delete(waits, w)
					model = slices.DeleteFunc(model, func(x *wait) bool { return x == w })
				}
			}
		}
		a, b := r.IntN(len(roots)), r.IntN(len(roots))
		if got, want := g.Awaited(roots[a:a+1], map[engine.Origin]bool{roots[b]: true}), reaches(model, b, a); got != want {
			t.Fatalf("seed %d: %d waits for %d: %v, want %v", seed, b, a, got, want)
		}
		for _, x := range waits {
			g.End(x)
		}
		if len(g.waits)+len(g.behind) > 0 {
			t.Fatalf("seed %d: %d waits are left", seed, len(g.waits))
		}
	}
}

func TestCirclesAreFoundInLongChains(t *testing.T) {
	const n = 5000
	roots := enginetest.Origins(t, n)
	next := map[engine.Origin][]engine.Origin{} // a chain of which the second half is a circle
	for i, o := range roots {
		next[o] = roots[(i+1)%n : (i+1)%n+1]
	}
	next[roots[n-1]] = roots[n/2 : n/2+1]
	c := components{next: func(o engine.Origin) []engine.Origin { return next[o] }, at: map[engine.Origin]int{},
		low: map[engine.Origin]int{}, on: map[engine.Origin]bool{}}
	c.visit(roots[0])
	if len(c.found) != 1 || len(c.found[0]) != n/2 {
		t.Errorf("found %d circles", len(c.found))
	}
}
