package codec

import (
	"bytes"
	"errors"
	"slices"
	"sync"

	"github.com/flowd-io/flowd/engine/doc"
)

// packing writes JSON values in a binary format.
type packing interface {
	// head appends the beginning of a list, object or text with n items, members or bytes. kind is its first
	// character in JSON.
	head(dst []byte, kind byte, n int) []byte
	// number appends a JSON number.
	number(dst, json []byte) ([]byte, error)
	// literal appends null, false or true, given its first character.
	literal(dst []byte, c byte) []byte
}

// pack appends the value of valid JSON text.
func pack(dst, json []byte, as packing) ([]byte, error) {
	w := packers.Get().(*packer)
	defer w.recycle()
	w.src, w.dst, w.as = json, dst, as
	_, err := w.value(0)
	if errors.Is(err, errTwice) {
		// Readers treat duplicate keys differently, so only the last one is written.
		var v any
		if v, err = doc.DecodeRaw(json); err == nil {
			json, err = doc.Append(nil, v)
		}
		if err == nil {
			w.src, w.dst, w.keys = json, dst, w.keys[:0]
			_, err = w.value(0)
		}
	}
	if err != nil {
		return dst, err
	}
	return w.dst, nil
}

var errTwice = errors.New("a key occurs twice")

// packer walks JSON text once. It writes the head of a list when it knows the number of items.
type packer struct {
	as       packing
	src, dst []byte
	keys     []span // of the open objects, in dst
	room     [9]byte
}

type span struct{ start, end int }

var packers = sync.Pool{New: func() any { return new(packer) }}

// recycle keeps the packer for another document, without large buffers.
func (w *packer) recycle() {
	if cap(w.keys) <= 1<<10 {
		*w = packer{keys: w.keys[:0]}
		packers.Put(w)
	}
}

// value writes the value at i and returns its end.
func (w *packer) value(i int) (end int, err error) {
	i = w.space(i)
	switch c := w.src[i]; c {
	case '{':
		return w.object(i)
	case '[':
		return w.list(i)
	case '"':
		return w.text(i), nil
	case 't', 'n':
		w.dst = w.as.literal(w.dst, c)
		return i + 4, nil
	case 'f':
		w.dst = w.as.literal(w.dst, c)
		return i + 5, nil
	}
	end = i
	for end < len(w.src) && w.src[end] > ' ' && w.src[end] != ',' && w.src[end] != ']' && w.src[end] != '}' {
		end++
	}
	w.dst, err = w.as.number(w.dst, w.src[i:end])
	return end, err
}

func (w *packer) space(i int) int {
	for w.src[i] <= ' ' {
		i++
	}
	return i
}

func (w *packer) text(i int) (end int) {
	end = i + 1
	escaped := false
	for ; w.src[end] != '"'; end++ {
		if w.src[end] == '\\' {
			escaped = true
			end++
		}
	}
	end++
	if escaped {
		s := doc.Unquote(w.src[i:end])
		w.dst = append(w.as.head(w.dst, '"', len(s)), s...)
		return end
	}
	w.dst = append(w.as.head(w.dst, '"', end-i-2), w.src[i+1:end-1]...)
	return end
}

func (w *packer) list(i int) (end int, err error) {
	start, n := len(w.dst), 0
	w.dst = append(w.dst, 0) // a short head
	for i = w.space(i + 1); w.src[i] != ']'; n++ {
		if n > 0 {
			i++ // skips the comma
		}
		if i, err = w.value(i); err != nil {
			return i, err
		}
		i = w.space(i)
	}
	w.close(start, '[', n)
	return i + 1, nil
}

func (w *packer) object(i int) (end int, err error) {
	start, first := len(w.dst), len(w.keys)
	w.dst = append(w.dst, 0)
	for i = w.space(i + 1); w.src[i] != '}'; {
		if len(w.keys) > first {
			i++ // skips the comma
		}
		at := len(w.dst)
		i = w.text(w.space(i))
		w.keys = append(w.keys, span{at, len(w.dst)})
		if i, err = w.value(w.space(i) + 1); err != nil {
			return i, err
		}
		i = w.space(i)
	}
	n := len(w.keys) - first
	if w.twice(w.keys[first:]) {
		return i, errTwice
	}
	w.keys = w.keys[:first]
	w.close(start, '{', n)
	return i + 1, nil
}

// close writes the head of the value that begins at start.
func (w *packer) close(start int, kind byte, n int) {
	head := w.as.head(w.room[:0], kind, n)
	w.dst[start] = head[0]
	if len(head) > 1 {
		w.dst = slices.Insert(w.dst, start+1, head[1:]...)
	}
}

// twice reports whether a key occurs twice. It sorts keys if there are many.
func (w *packer) twice(keys []span) bool {
	key := func(s span) []byte { return w.dst[s.start:s.end] }
	if len(keys) <= 16 {
		for i, k := range keys {
			for _, other := range keys[:i] {
				if k.end-k.start == other.end-other.start && bytes.Equal(key(k), key(other)) {
					return true
				}
			}
		}
		return false
	}
	slices.SortFunc(keys, func(a, b span) int { return bytes.Compare(key(a), key(b)) })
	for i := range keys[1:] {
		if bytes.Equal(key(keys[i]), key(keys[i+1])) {
			return true
		}
	}
	return false
}
