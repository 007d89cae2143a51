package engine

import (
	"iter"

	"github.com/flowd-io/flowd/engine/doc"
)

// Vars are values that steps keep beside a message for later steps: see the step `let`. They are neither payload nor
// metadata, and no output sends them. Vars never change, so that copies and parts of a message share them. The zero
// Vars are none; Vars that are == are the same.
type Vars struct{ last *variable }

// variable is one of Vars, and those set before it; each name is there once.
type variable struct {
	name   string
	value  any
	before *variable
	size   int // of the values up to this one
}

// Get is a value, and whether there is one.
func (v Vars) Get(name string) (value any, ok bool) {
	for x := v.last; x != nil; x = x.before {
		if x.name == name {
			return x.value, true
		}
	}
	return nil, false
}

// With is v with a value, one of those that an expression may give: see [expr.Value]. nil removes the name. The
// value must not change afterwards.
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

// without is x but for a name that is there.
func (x *variable) without(name string) *variable {
	if x.name == name {
		return x.before
	}
	before := Vars{x.before.without(name)}
	return before.with(x.name, x.value, x.size-Vars{x.before}.Size()).last
}

// Size is about how many bytes the values take.
func (v Vars) Size() int {
	if v.last == nil {
		return 0
	}
	return v.last.size
}

// All yields names and values, those set last first.
func (v Vars) All() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for x := v.last; x != nil && yield(x.name, x.value); x = x.before {
		}
	}
}

// Vars are what steps have kept beside m.
func (m *Message) Vars() Vars {
	if m.in.Rare == nil {
		return Vars{}
	}
	return m.in.Rare.Vars
}

// SetVars replaces what is kept beside m. A step that adds much calls Grow first, for what [Vars.Size] grows by.
func (m *Message) SetVars(v Vars) {
	if m.in.Rare != nil || v != (Vars{}) {
		m.in.setRare(func(r *rare) { r.Vars = v })
	}
}

// sizeOf is about how many bytes a value takes.
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
