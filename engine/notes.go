package engine

import "iter"

// Notes are values that steps leave with a message for later steps. Keys are of types of the step's own package, so that
// no other package can read them. Parts and copies of a message have its notes, and a merge has those of its first part.
// Notes never leave the process and never change; the zero value is empty.
type Notes struct{ last *note }

type note struct {
	key, value any
	before     *note
}

// With returns n with one more note.
func (n Notes) With(key, value any) Notes { return Notes{&note{key, value, n.last}} }

// All yields the values of a key, the newest first.
func (n Notes) All(key any) iter.Seq[any] {
	return func(yield func(any) bool) {
		for x := n.last; x != nil; x = x.before {
			if x.key == key && !yield(x.value) {
				return
			}
		}
	}
}

// Join returns n with the notes of another message that n lacks. Both messages have been made of one message.
func (n Notes) Join(of Notes) Notes {
	if of.last == nil || n.has(of.last) {
		return n
	}
	return n.Join(Notes{of.last.before}).With(of.last.key, of.last.value)
}

func (n Notes) has(x *note) bool {
	for own := n.last; own != nil; own = own.before {
		if own == x {
			return true
		}
	}
	return false
}

// Notes returns the notes of m.
func (m *Message) Notes() Notes {
	if m.in.Rare == nil {
		return Notes{}
	}
	return m.in.Rare.Notes
}

// SetNotes replaces the notes of m.
func (m *Message) SetNotes(n Notes) {
	if n != m.Notes() {
		m.in.setRare(func(r *rare) { r.Notes = n })
	}
}
