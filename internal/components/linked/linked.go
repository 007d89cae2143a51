// Package linked has doubly linked lists whose elements contain their own places: see [List].
package linked

// Place is an element's place in one list. It is in the element itself, so a million keys
// need no nodes and leave a list in one step.
type Place[T any] struct {
	prev, next *T
}

// List is a doubly linked list. Place finds an element's place in it.
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

// Remove takes an element out.
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
