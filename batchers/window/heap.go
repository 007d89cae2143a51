package window

// heap holds windows; the one that closes first is on top. Entries contain what orders them, so that comparisons
// follow no pointers.
type heap []entry

type entry struct {
	closes int64
	opened uint64 // breaks ties: the window opened first is on top
	w      *window
}

func (e *entry) before(f *entry) bool {
	return e.closes < f.closes || e.closes == f.closes && e.opened < f.opened
}

func (h *heap) push(w *window, closes int64) {
	w.at = len(*h)
	*h = append(*h, entry{closes, w.opened, w})
	h.up(w.at)
}

// top returns the window that closes first, or nil. It moves down a session that has grown since it was pushed. Doing
// that only here saves work per message.
func (h *heap) top(closes func(*window) int64) *window {
	for len(*h) > 0 {
		e := &(*h)[0]
		now := closes(e.w)
		if e.closes == now {
			return e.w
		}
		e.closes = now
		h.down(0)
	}
	return nil
}

func (h *heap) remove(w *window) {
	all, at, last := *h, w.at, len(*h)-1
	if at != last {
		all.swap(at, last)
	}
	all[last] = entry{}
	*h = all[:last]
	if at != last {
		h.down(at)
		h.up(at)
	}
}

func (h heap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h[i].before(&h[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h heap) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if right := child + 1; right < len(h) && h[right].before(&h[child]) {
			child = right
		}
		if !h[child].before(&h[i]) {
			return
		}
		h.swap(i, child)
		i = child
	}
}

func (h heap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].w.at, h[j].w.at = i, j
}
