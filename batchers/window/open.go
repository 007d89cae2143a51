package window

import (
	"log/slog"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// use returns the key of m and marks it as the most recently used. It evicts before a key gets its first window, so
// that there are never more than MaxKeys keys.
func (s *batcher) use(m *engine.Message, emit engine.Emit) *key {
	text := s.keyOf(m)
	k := s.keys[text]
	if k == nil {
		k = &key{text: strings.Clone(text)} // outlives m and the block that m's text is in
		s.keys[k.text] = k
	}
	switch {
	case s.MaxKeys == 0:
	case k.open > 0:
		s.used.Remove(k)
		s.used.Append(k)
	case s.inUse == s.MaxKeys:
		for _, w := range s.used.Front.windows {
			if w.batch != nil {
				s.leave(w, engine.ByEvicted, emit)
			}
		}
	}
	return k
}

// fixed returns the open window of k from start to end.
func (s *batcher) fixed(b *engine.Batch, k *key, start, end int64) *window {
	i := len(k.windows)
	if i > 0 && k.windows[i-1].start >= start { // fast path: most events arrive in order
		i = k.from(start)
	}
	if i == len(k.windows) || k.windows[i].start != start {
		s.insert(k, i, start, end)
	}
	return s.ready(b, k.windows[i])
}

// insert adds a window to k at index i.
func (s *batcher) insert(k *key, i int, start, end int64) *window {
	w := &window{key: k, start: start, end: end, part: max(1, s.floor), at: -1}
	k.windows = slices.Insert(k.windows, i, w)
	return w
}

// ready makes sure that w is open.
func (s *batcher) ready(b *engine.Batch, w *window) *window {
	if w.batch != nil {
		return w
	}
	if w.at >= 0 {
		s.left.remove(w)
	}
	s.serial++
	w.batch, w.opened = b.Open(), s.serial
	s.closing.push(w, s.closes(w))
	s.opened.Append(w)
	k := w.key
	if k.open++; k.open == 1 && s.MaxKeys > 0 {
		s.inUse++
		s.used.Append(k)
	}
	return w
}

// shut takes the batch out of w. Later messages of w form its next part.
func (s *batcher) shut(w *window) *engine.Batch {
	batch := w.inOrder()
	batch.SetWindow(engine.Window{Start: instantOf(w.start), End: instantOf(w.end), Part: w.part})
	w.batch, w.n, w.arrived, w.mixed = nil, 0, nil, false
	w.part++
	s.closing.remove(w)
	s.opened.Remove(w)
	k := w.key
	if k.open--; k.open == 0 && s.MaxKeys > 0 {
		s.inUse--
		s.used.Remove(k)
	}
	return batch
}

// leave emits the messages of w, and remembers w.
func (s *batcher) leave(w *window, why engine.Trigger, emit engine.Emit) {
	batch := s.shut(w)
	s.left.push(w, s.closes(w))
	s.warning.count(why)
	emit(batch, why)
}

// rest runs at the end of each call: it bounds the windows without messages, and logs warnings.
func (s *batcher) rest(now time.Time) {
	for len(s.left) > s.maxLeft {
		w := s.left.top(s.closes)
		s.left.remove(w)
		s.forget(w)
		s.floor, s.floorUntil = max(s.floor, w.part), max(s.floorUntil, s.closes(w))
	}
	s.warning.logParts(now)
}

// forget removes a window, and its key if it was the last one.
func (s *batcher) forget(w *window) {
	w.key.drop(w)
	if len(w.key.windows) == 0 {
		delete(s.keys, w.key.text)
	}
}

// drop removes w from its key. Removing the first window, which closes first, costs nothing.
func (k *key) drop(w *window) {
	i := k.from(w.start)
	if i == 0 {
		k.windows[0] = nil
		k.windows = k.windows[1:]
		return
	}
	k.windows = slices.Delete(k.windows, i, i+1)
}

// from returns the index of the first window that begins at start or later.
func (k *key) from(start int64) int {
	return sort.Search(len(k.windows), func(i int) bool { return k.windows[i].start >= start })
}

func instantOf(at int64) time.Time { return time.Unix(0, at).UTC() }

// warning logs at most once a minute that windows leave in parts. Where memory is short, the engine logs it.
type warning struct {
	log              *slog.Logger
	last             time.Time
	evicted, revoked int // windows since the last warning
}

func (w *warning) count(why engine.Trigger) {
	switch why {
	case engine.ByEvicted:
		w.evicted++
	case engine.ByRevoke:
		w.revoked++
	}
}

func (w *warning) logParts(now time.Time) {
	if w.evicted+w.revoked == 0 || !w.last.IsZero() && now.Sub(w.last) < time.Minute {
		return
	}
	if w.evicted > 0 {
		w.log.Warn("windows leave in parts: there are more keys than max_keys (raise it)", "windows", w.evicted)
	}
	if w.revoked > 0 {
		w.log.Warn("windows leave in parts: partitions have moved to other members of the group", "windows", w.revoked)
	}
	w.last, w.evicted, w.revoked = now, 0, 0
}
