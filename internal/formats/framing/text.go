package framing

// arena provides memory for many small records that may be kept: it is collected with the
// last of them.
type arena struct{ free []byte }

const arenaBlock = 64 << 10

// room is an empty slice to append to; n is a guess of how much.
func (a *arena) room(n int) []byte {
	if cap(a.free) < n {
		a.free = make([]byte, 0, max(arenaBlock, n))
	}
	return a.free[:0]
}

// keep takes out of the arena what was appended to the room that it gave.
func (a *arena) keep(b []byte) []byte {
	if len(b) <= cap(a.free) {
		a.free = a.free[len(b):cap(a.free)][:0]
	}
	return b[:len(b):len(b)]
}
