package push

// Hold is a request's share of the bytes that may wait.
type Hold struct {
	queue *Queue
	bytes int64
	kept  int64 // of these, until the request has its answer
}

// Hold returns an empty hold.
func (q *Queue) Hold() Hold { return Hold{queue: q} }

// Take reserves bytes. It returns false if too many bytes wait. A request that waits alone always fits: its input bounds it.
func (h *Hold) Take(n int64) bool {
	h.bytes += n
	all := h.queue.waiting.Add(n)
	return all <= h.queue.maxWaiting || all == h.bytes
}

// Keep is like Take, for data that stays until the request has its answer.
func (h *Hold) Keep(n int64) bool {
	h.kept += n
	return h.Take(n)
}

// Give gives back bytes.
func (h *Hold) Give(n int64) {
	if n != 0 {
		h.bytes -= n
		h.queue.waiting.Add(-n)
	}
}

// release releases bytes that are now charged to the pipeline's credits.
func (h *Hold) release() { h.Give(h.bytes - h.kept) }

// drop releases all bytes.
func (h *Hold) drop() {
	h.Give(h.bytes)
	h.kept = 0
}
