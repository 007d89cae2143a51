package framing

// arena provides memory for many small records that may be kept. It is freed with the last of them.
type arena struct{ free []byte }

const arenaBlock = 64 << 10

// room returns an empty slice to append to. n is the expected size.
func (a *arena) room(n int) []byte {
	if cap(a.free) < n {
		a.free = make([]byte, 0, max(arenaBlock, n))
	}
	return a.free[:0]
}

// keep marks what was appended to the result of room as used.
func (a *arena) keep(b []byte) []byte {
	if len(b) <= cap(a.free) {
		a.free = a.free[len(b):cap(a.free)][:0]
	}
	return b[:len(b):len(b)]
}
