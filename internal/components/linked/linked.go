// Package linked has doubly linked lists whose elements contain their own links: see [List].
package linked

// Place is an element's place in one list. It is part of the element, so a million keys need no extra nodes, and each
// can be removed in one step.
type Place[T any] struct {
	prev, next *T
}

// List is a doubly linked list. Its field Place returns an element's place in it.
type List[T any] struct {
	Front *T
	Place func(*T) *Place[T]
	back  *T
}

// Append adds an element at the end.
func (l *List[T]) Append(x *T) {
	*l.Place(x) = Place[T]{prev: l.back}
	if l.back == nil {
		l.Front = x
	} else {
		l.Place(l.back).next = x
	}
	l.back = x
}

// Remove removes an element.
func (l *List[T]) Remove(x *T) {
	at := l.Place(x)
	if at.prev == nil {
		l.Front = at.next
	} else {
		l.Place(at.prev).next = at.next
	}
	if at.next == nil {
		l.back = at.prev
	} else {
		l.Place(at.next).prev = at.prev
	}
	*at = Place[T]{}
}
