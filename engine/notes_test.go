package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/flowd-io/flowd/engine"
)

func TestNotes(t *testing.T) {
	type key struct{}
	type other struct{}
	base := engine.Notes{}.With(key{}, 1).With(other{}, "x")
	a, b := base.With(key{}, 2), base.With(key{}, 3).With(key{}, 4)
	tests := []struct {
		name  string
		notes engine.Notes
		want  string
	}{
		{"none", engine.Notes{}, "[]"},
		{"the newest first, of this key alone", a, "[2 1]"},
		{"what was made of the other stays as it was", base, "[1]"},
		{"those of two copies", a.Join(b), "[4 3 2 1]"},
		{"of a copy that has no more", a.Join(base), "[2 1]"},
		{"of none", a.Join(engine.Notes{}), "[2 1]"},
		{"of a copy by what it was made of", base.Join(a), "[2 1]"},
	}
	for _, tt := range tests {
		if got := fmt.Sprint(slices.Collect(tt.notes.All(key{}))); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestPartsAndCopiesHaveTheNotesOfTheWhole(t *testing.T) {
	type key struct{}
	b := engine.NewBatch(1)
	m := b.Add([]byte("{}"))
	m.SetNotes(m.Notes().With(key{}, "left"))
	inner := engine.NewBatch(2)
	inner.Copy(m)
	part := inner.Add([]byte("1"))
	part.Within(m)
	merged := b.Merge([]byte("2"), b.All())
	for x := range inner.All() {
		if got := slices.Collect(x.Notes().All(key{})); len(got) != 1 {
			t.Errorf("%s has %v", x.Bytes(), got)
		}
	}
	if got := slices.Collect(merged.Notes().All(key{})); len(got) != 1 {
		t.Errorf("the merge has %v", got)
	}
	m.SetNotes(engine.Notes{})
	if got := slices.Collect(part.Notes().All(key{})); len(got) != 1 {
		t.Errorf("a part changes with the whole: %v", got)
	}
}
