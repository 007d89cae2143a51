package engine

import (
	"iter"

	"github.com/flowd-io/flowd/engine/doc"
)

// Vars are values that steps keep beside a message for later steps; see the step `let`. No output writes them. Vars never
// change, so that copies and parts of a message can share them. The zero value is empty, and equal Vars are ==.
type Vars struct{ last *variable }

// variable is one value and the values set before it. Each name occurs once.
type variable struct {
	name   string
	value  any
	before *variable
	size   int // of the values up to this one
}

// Get returns a value, and whether there is one.
func (v Vars) Get(name string) (value any, ok bool) {
	for x := v.last; x != nil; x = x.before {
		if x.name == name {
			return x.value, true
		}
	}
	return nil, false
}

// With returns v with a value set, or with the name removed if the value is nil. The value is one that an expression can
// have (see [expr.Value]), and must not change afterwards.
func (v Vars) With(name string, value any) Vars {
	if _, has := v.Get(name); has {
		v.last = v.last.without(name)
	}
	if value == nil {
		return v
	}
	return v.with(name, value, sizeOf(value))
}

func (v Vars) with(name string, value any, size int) Vars {
	return Vars{&variable{name, value, v.last, v.Size() + size}}
}

// without is x without a name that it has.
func (x *variable) without(name string) *variable {
	if x.name == name {
		return x.before
	}
	before := Vars{x.before.without(name)}
	return before.with(x.name, x.value, x.size-Vars{x.before}.Size()).last
}

// Size is roughly how many bytes of memory the values take.
func (v Vars) Size() int {
	if v.last == nil {
		return 0
	}
	return v.last.size
}

// All yields names and values, the latest first.
func (v Vars) All() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for x := v.last; x != nil && yield(x.name, x.value); x = x.before {
		}
	}
}

// Vars returns the values that steps have kept beside m.
func (m *Message) Vars() Vars {
	if m.in.Rare == nil {
		return Vars{}
	}
	return m.in.Rare.Vars
}

// SetVars replaces the values beside m. A step that adds large values first calls Grow with the growth of [Vars.Size].
func (m *Message) SetVars(v Vars) {
	if m.in.Rare != nil || v != (Vars{}) {
		m.in.setRare(func(r *rare) { r.Vars = v })
	}
}

// sizeOf is roughly how many bytes of memory a value takes.
func sizeOf(v any) int {
	n := doc.ElementSize
	switch v := v.(type) {
	case string:
		n += len(v)
	case doc.Number:
		n += len(v)
	case []byte:
		n += len(v)
	case []any:
		for _, e := range v {
			n += sizeOf(e)
		}
	case map[string]any:
		n += doc.ObjectSize
		for k, e := range v {
			n += doc.KeySize + len(k) + sizeOf(e)
		}
	}
	return n
}
