package batch

// The lists that an open batch is in, as indexes of open.links.
const (
	byOpening = iota
	byUse
)

// link is an open batch's place in one list. The links are in the batch itself, so a
// million keys need no nodes and leave a list in one step.
type link struct {
	prev, next *open
}

// list is a doubly linked list of open batches.
type list struct {
	front, back *open
	link        int
}

func (l *list) append(o *open) {
	o.links[l.link] = link{prev: l.back}
	if l.back == nil {
		l.front = o
	} else {
		l.back.links[l.link].next = o
	}
	l.back = o
}

func (l *list) remove(o *open) {
	at := o.links[l.link]
	if at.prev == nil {
		l.front = at.next
	} else {
		at.prev.links[l.link].next = at.next
	}
	if at.next == nil {
		l.back = at.prev
	} else {
		at.next.links[l.link].prev = at.prev
	}
}
