package engine

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Vars have the same content as a map, and later changes do not affect earlier copies.
func TestVarsAreLikeAMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	names := []string{"a", "b", "c", "d", "e"}
	for range 300 {
		var v Vars
		want := map[string]any{}
		for range rng.IntN(20) {
			was, before := v, maps.Clone(want)
			name := names[rng.IntN(len(names))]
			if rng.IntN(4) == 0 {
				v = v.With(name, nil)
				delete(want, name)
			} else {
				v = v.With(name, rng.IntN(100))
				want[name], _ = v.Get(name)
			}
			if diff := cmp.Diff(maps.Collect(was.All()), before, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("With has changed what it was called on (-got +want):\n%s", diff)
			}
		}
		if diff := cmp.Diff(maps.Collect(v.All()), want, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-got +want):\n%s", diff)
		}
		for _, name := range names {
			got, ok := v.Get(name)
			if x, has := want[name]; got != x || ok != has {
				t.Fatalf("%s: got %v, %v, want %v, %v", name, got, ok, x, has)
			}
		}
		if one := sizeOf(1); v.Size() != one*len(want) {
			t.Fatalf("%d vars have size %d, want %d each", len(want), v.Size(), one)
		}
	}
}

func TestVarsAreCopiedWithTheirMessage(t *testing.T) {
	b := NewBatch(2)
	m := b.Add([]byte("{}"))
	m.SetVars(Vars{}.With("x", "abc"))
	copies := NewBatch(1)
	copies.Copy(m)
	for c := range copies.All() {
		c.SetVars(c.Vars().With("x", 2))
	}
	if v, _ := m.Vars().Get("x"); v != "abc" {
		t.Errorf("got %v, want what was set", v)
	}
	if m.SetVars(Vars{}); m.in.Rare != nil {
		t.Error("a message without vars keeps memory for them")
	}
}

func TestMessagesWithoutVarsPayNothing(t *testing.T) {
	b := NewBatch(1)
	m := b.Add([]byte("{}"))
	if n := testing.AllocsPerRun(100, func() { m.SetVars(m.Vars()) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
