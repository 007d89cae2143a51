package doc

import "slices"

const (
	// Chunks of text double in size, since most lanes of idle pipelines never fill the first. Text larger than a
	// quarter of the largest chunk is allocated separately.
	firstChunk, chunkSize = 1 << 10, 64 << 10

	// An index starts with room for the fields of an ordinary document. The memory that it keeps for the next
	// document is bounded, so that one large document does not cost memory for ever.
	minFields, maxFields = 16, 256
)

// Arena lends memory to documents: an index, recycled at Reset, and text, never reused, so that bytes read from a
// document may be kept. Only one goroutine may use it at a time. A nil *Arena allocates.
type Arena struct {
	// Call is the goroutine's current call, or nil: a context whose end stops long computations.
	Call interface{ Err() error }

	Owner any // the arena does not use it

	spent   int // bytes of text lent in total
	indexes []*index
	used    int    // how many of them are lent
	text    []byte // the chunk being filled
	chunk   int    // its size
}

// Reset reclaims the index memory of all documents, which must be detached or dead. Text stays valid.
func (a *Arena) Reset() {
	for _, x := range a.indexes[:a.used] {
		x.clear()
	}
	a.used = 0
}

// Spent returns how many bytes of text the arena has lent in total.
func (a *Arena) Spent() int {
	if a == nil {
		return 0
	}
	return a.spent
}

// Spend counts text that a document got from elsewhere.
func (a *Arena) Spend(n int) {
	if a != nil {
		a.spent += n
	}
}

func (a *Arena) newIndex() *index {
	if a == nil {
		return &index{fields: make([]field, 0, minFields)}
	}
	if a.used == len(a.indexes) {
		a.indexes = append(a.indexes, &index{fields: make([]field, 0, minFields)})
	}
	a.used++
	return a.indexes[a.used-1]
}

// dropIndex reclaims the index that was lent last.
func (a *Arena) dropIndex() {
	if a == nil {
		return
	}
	a.used--
	a.indexes[a.used].clear()
}

// spare returns empty text to append to, with room for n bytes. Pass the result to keep before the next call.
func (a *Arena) spare(n int) []byte {
	if a == nil || n > chunkSize/4 {
		return make([]byte, 0, n)
	}
	if cap(a.text)-len(a.text) < n {
		a.chunk = min(max(2*a.chunk, firstChunk, 4*n), chunkSize)
		a.text = make([]byte, 0, a.chunk)
	}
	return a.text[len(a.text):]
}

// keep makes text permanent that was appended to the result of spare.
func (a *Arena) keep(text []byte) []byte {
	a.Spend(len(text))
	if a != nil && len(text) > 0 && len(text) <= cap(a.text)-len(a.text) {
		if rest := a.text[len(a.text) : len(a.text)+1]; &rest[0] == &text[0] {
			a.text = a.text[:len(a.text)+len(text)]
		}
	}
	return slices.Clip(text)
}
