package doc

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// Number is a JSON number that no Go number represents exactly: an integer beyond int64 (beyond int, on 32-bit
// systems). It keeps its spelling.
type Number string

// Decode decodes a document, which must not change afterwards: strings may refer to it. The error is a *[SyntaxError]
// or a *[ValueError].
func Decode(data []byte) (any, error) {
	start, end, err := check(data, nil)
	if err != nil {
		return nil, err
	}
	return DecodeRaw(data[start:end])
}

// DecodeRaw decodes the source text of a value, as from [Doc.Raw].
func DecodeRaw(raw []byte) (any, error) {
	v, _, err := DecodeWithin(raw, math.MaxInt)
	return v, err
}

// ErrLarge is the error of [DecodeWithin] for a value that would take too much memory.
var ErrLarge = errors.New("the value is too large")

// DecodeWithin is like DecodeRaw, but ends with [ErrLarge] before lists and objects take more than about this many
// bytes of memory. left is how many bytes the value has left over.
func DecodeWithin(raw []byte, bytes int) (v any, left int, err error) {
	if k := Kind(raw); k != Array && k != Object {
		d := decoder{data: raw}
		v, left = d.value(), bytes
		err = d.err
	} else {
		d := decoders.Get().(*decoder)
		d.data, d.left = raw, bytes
		v = d.value()
		left, err = d.left, d.err
		d.release()
	}
	if err != nil {
		return nil, left, err
	}
	return v, left, nil
}

// What a list takes per element, and an object per key and in addition, in bytes. This is rough: a small object takes
// two or three times as much.
const (
	ElementSize = 32
	KeySize     = 24
	ObjectSize  = 96
)

// decoder reads checked text. The contents of a container collect on a stack until their number is known: then the
// container is made in its final size.
type decoder struct {
	data   []byte
	pos    int
	err    error // the first error; decoding continues after it, except for ErrLarge
	left   int   // bytes of memory that the rest may take
	keys   []string
	values []any
}

var decoders = sync.Pool{New: func() any { return new(decoder) }}

// release returns the decoder to its pool, with empty stacks.
func (d *decoder) release() {
	d.data, d.pos, d.err = nil, 0, nil
	if cap(d.values) <= maxFields {
		decoders.Put(d)
	}
}

// charge counts memory for a part of a container. Decoding ends if that is too much.
func (d *decoder) charge(bytes int) {
	if d.left -= bytes; d.left < 0 {
		d.err, d.pos = ErrLarge, len(d.data)
	}
}

func (d *decoder) value() any {
	if d.pos >= len(d.data) {
		return nil
	}
	start := d.pos
	switch d.data[start] {
	case '"':
		return d.text()
	case '{':
		return d.object()
	case '[':
		return d.array()
	}
	d.pos = skip(d.data, start)
	switch d.data[start] {
	case 't':
		return true
	case 'f':
		return false
	case 'n':
		return nil
	}
	n, err := ParseNumber(d.data[start:d.pos])
	if err != nil && d.err == nil {
		d.err = err
	}
	return n
}

func (d *decoder) text() string {
	start := d.pos
	end, escaped := textEnd(d.data, start+1)
	d.pos = end
	if escaped {
		if err := Surrogate(d.data[start:end]); err != nil && d.err == nil {
			d.err = err
		}
		return Unquote(d.data[start:end])
	}
	return alias(d.data[start+1 : max(end-1, start+1)])
}

func (d *decoder) object() any {
	keys, values := len(d.keys), len(d.values)
	d.charge(ObjectSize)
	for d.pos = space(d.data, d.pos+1); d.pos < len(d.data) && d.data[d.pos] == '"'; d.pos = next(d.data, d.pos) {
		d.keys = append(d.keys, d.text())
		d.pos = space(d.data, space(d.data, d.pos)+1)
		d.values = append(d.values, d.value())
		d.charge(KeySize + ElementSize)
	}
	d.pos++
	m := make(map[string]any, len(d.keys)-keys)
	for i, key := range d.keys[keys:] {
		m[key] = d.values[values+i]
	}
	clear(d.keys[keys:])
	d.keys = d.keys[:keys]
	d.drop(values)
	return m
}

func (d *decoder) array() any {
	values := len(d.values)
	for d.pos = space(d.data, d.pos+1); d.pos < len(d.data) && d.data[d.pos] != ']'; d.pos = next(d.data, d.pos) {
		before := d.pos
		d.values = append(d.values, d.value())
		d.charge(ElementSize)
		if d.pos == before {
			break
		}
	}
	d.pos++
	a := append(make([]any, 0, len(d.values)-values), d.values[values:]...)
	d.drop(values)
	return a
}

// drop clears the values above the first n.
func (d *decoder) drop(n int) {
	clear(d.values[n:])
	d.values = d.values[:n]
}

// Unquote decodes the source text of a string. It copies only if there are escapes. A lone surrogate, which UTF-8
// can't encode, becomes three bytes that are not UTF-8, so that only identical texts are equal: see [Surrogate].
func Unquote(raw []byte) string {
	if len(raw) < 2 {
		return ""
	}
	return unescape(raw[1 : len(raw)-1])
}

func unescape(inner []byte) string {
	i := bytes.IndexByte(inner, '\\')
	if i < 0 {
		return alias(inner)
	}
	out := make([]byte, 0, len(inner))
	for i >= 0 && i+1 < len(inner) {
		out = append(out, inner[:i]...)
		if inner[i+1] == 'u' {
			r, size := codePoint(inner[i:])
			if utf16.IsSurrogate(r) {
				out = append(out, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0xbf, 0x80|byte(r)&0xbf)
			} else {
				out = utf8.AppendRune(out, r)
			}
			inner = inner[i+size:]
		} else {
			out = append(out, escapes[inner[i+1]])
			inner = inner[i+2:]
		}
		i = bytes.IndexByte(inner, '\\')
	}
	return alias(append(out, inner...))
}

// escapes maps letters after a backslash to their characters.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// Surrogate returns a *[ValueError] if the source text of a value contains a lone surrogate: an escape for half of a
// character. JSON allows it, but other texts can't contain it.
func Surrogate(raw []byte) error {
	for i := bytes.IndexByte(raw, '\\'); i >= 0 && i+1 < len(raw); {
		size := 2
		if raw[i+1] == 'u' {
			var r rune
			if r, size = codePoint(raw[i:]); utf16.IsSurrogate(r) {
				return &ValueError{Msg: fmt.Sprintf("the text has half of a character, the surrogate %s (correct it at its source)",
					raw[i:i+size])}
			}
		}
		next := bytes.IndexByte(raw[i+size:], '\\')
		if next < 0 {
			break
		}
		i += size + next
	}
	return nil
}

// codePoint decodes \uXXXX or a pair of them, and returns its length. The result may be a lone surrogate.
func codePoint(b []byte) (r rune, size int) {
	r = hex4(b)
	if !utf16.IsSurrogate(r) {
		return r, min(6, len(b))
	}
	if len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
		if pair := utf16.DecodeRune(r, hex4(b[6:])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return r, min(6, len(b))
}

func hex4(b []byte) (r rune) {
	if len(b) < 6 {
		return utf8.RuneError
	}
	for _, c := range b[2:6] {
		r = r<<4 | rune(unhex(c)&15)
	}
	return r
}

// sameKey reports whether a key's source text, without quotes, means key.
func sameKey(inner []byte, key string) bool {
	if string(inner) == key {
		return bytes.IndexByte(inner, '\\') < 0
	}
	// An escape is longer than its meaning.
	return len(inner) > len(key) && bytes.IndexByte(inner, '\\') >= 0 && unescape(inner) == key
}

// alias returns b as a string without copying: payloads and arena text never change.
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// excerpt returns the beginning of a long text.
func excerpt(s string) string {
	if len(s) <= 40 {
		return s
	}
	return s[:40] + "…"
}
