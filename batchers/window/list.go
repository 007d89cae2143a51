package window

// link is a place in a list. It is in the element itself, so a million keys need no nodes
// and leave a list in one step.
type link[T any] struct {
	prev, next *T
}

// list is a doubly linked list.
type list[T any] struct {
	front, back *T
	link        func(*T) *link[T]
}

func (l *list[T]) append(x *T) {
	*l.link(x) = link[T]{prev: l.back}
	if l.back == nil {
		l.front = x
	} else {
		l.link(l.back).next = x
	}
	l.back = x
}

func (l *list[T]) remove(x *T) {
	at := l.link(x)
	if at.prev == nil {
		l.front = at.next
	} else {
		l.link(at.prev).next = at.next
	}
	if at.next == nil {
		l.back = at.prev
	} else {
		l.link(at.next).prev = at.prev
	}
	*at = link[T]{}
}
