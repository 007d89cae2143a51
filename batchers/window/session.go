package window

import (
	"cmp"
	"slices"
	"sort"

	"github.com/flowd-io/flowd/engine"
)

// addToSession puts m into the session around its time: it opens a session, extends one, or joins two.
func (s *batcher) addToSession(b *engine.Batch, m *engine.Message, at int64, emit engine.Emit) {
	end := at + int64(s.Session)
	var known []*window
	var i int
	if k := s.keys[s.keyOf(m)]; k != nil {
		i, known = k.around(at, end)
	}
	if len(known) == 0 && s.closed(end) {
		m.Fail(s.late(at, end))
		return
	}
	k := s.use(m, emit) // may evict other keys, but never windows of this one
	var w *window
	switch len(known) {
	case 0:
		w = s.insert(k, i, at, end)
	case 1:
		w = known[0]
	default: // sessions of a key are at least a gap apart, so there are two
		w = s.join(known[0], known[1])
	}
	w.start, w.end = min(w.start, at), max(w.end, end)
	s.ready(b, w).batch.Move(m)
	w.n++
	s.count++
	w.arrived = append(w.arrived, s.count)
}

// around returns the windows that overlap a time, and the index where they are or would be.
func (k *key) around(start, end int64) (i int, all []*window) {
	i = sort.Search(len(k.windows), func(i int) bool { return k.windows[i].end > start })
	j := i
	for j < len(k.windows) && k.windows[j].start < end {
		j++
	}
	return i, k.windows[i:j]
}

// join joins two sessions. It moves the messages of the smaller one to the larger one, so that a message rarely moves
// even if many sessions join. inOrder later restores the order of arrival.
func (s *batcher) join(x, y *window) *window {
	if x.n < y.n {
		x, y = y, x
	}
	x.key.drop(y)
	x.start, x.end = min(x.start, y.start), max(x.end, y.end)
	x.part = max(x.part, y.part)
	if y.batch == nil {
		s.left.remove(y)
		return x
	}
	for m := range y.batch.All() { // x has at least as many messages, so it is open, too
		x.batch.Move(m)
	}
	x.n += y.n
	x.arrived, x.mixed = append(x.arrived, y.arrived...), true
	y.mixed = false
	s.shut(y)
	return x
}

// inOrder returns the batch of w in the order in which its messages arrived: messages with the same order key must
// not overtake each other.
func (w *window) inOrder() *engine.Batch {
	if !w.mixed {
		return w.batch
	}
	byArrival := make([]int, len(w.arrived))
	for i := range byArrival {
		byArrival[i] = i
	}
	slices.SortFunc(byArrival, func(i, j int) int { return cmp.Compare(w.arrived[i], w.arrived[j]) })
	all := slices.Collect(w.batch.All())
	sorted := w.batch.Open()
	for _, i := range byArrival {
		sorted.Move(all[i])
	}
	return sorted
}
