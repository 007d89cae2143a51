package window

import (
	"cmp"
	"slices"
	"sort"

	"github.com/flowd-io/flowd/engine"
)

// addToSession puts m into the session around its time: it opens one, makes one
// longer, or makes one of two.
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
	k := s.use(m, emit) // may evict other keys, never this one's windows
	var w *window
	switch len(known) {
	case 0:
		w = s.insert(k, i, at, end)
	case 1:
		w = known[0]
	default: // sessions of a key are at least a gap apart: there are two
		w = s.join(known[0], known[1])
	}
	w.start, w.end = min(w.start, at), max(w.end, end)
	s.ready(b, w).batch.Move(m)
	w.n++
	s.count++
	w.arrived = append(w.arrived, s.count)
}

// around are the windows that overlap a time, and where they begin, or would be.
func (k *key) around(start, end int64) (i int, all []*window) {
	i = sort.Search(len(k.windows), func(i int) bool { return k.windows[i].end > start })
	j := i
	for j < len(k.windows) && k.windows[j].start < end {
		j++
	}
	return i, k.windows[i:j]
}

// join makes one session of two and returns it. The smaller one's messages move to the
// larger, so a message rarely moves, however many sessions join; messages are put into
// their order of arrival when the session leaves.
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
	for m := range y.batch.All() { // x has as many, so it is open too
		x.batch.Move(m)
	}
	x.n += y.n
	x.arrived, x.mixed = append(x.arrived, y.arrived...), true
	y.mixed = false
	s.shut(y)
	return x
}

// inOrder is the batch of w with its messages in the order in which they arrived: those of
// one order key must not overtake each other.
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
