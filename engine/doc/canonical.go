package doc

import (
	"bytes"
	"cmp"
	"math/bits"
	"slices"
	"sync"
)

// maxCanonical is how deep Canonical follows containers: what is out of order is
// moved once for each container around it, so its time is size times depth.
const maxCanonical = 32

// Canonical appends what [Append] makes of the decoded value of raw, which is
// JSON text as from [Doc.Raw]. It works on the text alone, without the maps and
// boxes of a decoder. ok is false, and dst as it was, for what it leaves to
// [DecodeRaw] and Append: numbers out of range, odd keys, deep nesting.
func Canonical(dst, raw []byte) (out []byte, ok bool) { return Rewrite(dst, raw, nil) }

// Leaf appends what replaces a value that is neither an object nor a list. field is the name of the field that the value
// is in, be it in lists, and only holds during the call; index is its place in a list. ok is false to give up.
type Leaf func(dst []byte, field string, inField bool, index int, raw []byte) (out []byte, ok bool)

// Rewrite is Canonical with each leaf replaced, unless leaf is nil.
func Rewrite(dst, raw []byte, leaf Leaf) (out []byte, ok bool) {
	c := canonizers.Get().(*canonizer)
	c.data, c.out, c.leaf, c.field, c.index = raw, dst, leaf, nil, 0
	end, ok := c.value(space(raw, 0), 0)
	out, ok = c.out, ok && space(raw, end) == len(raw)
	c.release()
	if !ok {
		return dst, false
	}
	return out, true
}

// canonizer rewrites checked text. On other text it may write nonsense but
// never panics.
type canonizer struct {
	data, out []byte
	entries   []entry // fields of the current objects, as a stack
	moved     []byte

	leaf  Leaf
	field []byte // that the present value is in; nil: none
	index int
}

// entry is a field in out: "key":value and a comma.
type entry struct {
	head               uint64 // the key's first bytes, as a number of the same order
	start, keyEnd, end int
}

var canonizers = sync.Pool{New: func() any { return new(canonizer) }}

func (c *canonizer) release() {
	c.data, c.out, c.entries, c.leaf, c.field = nil, nil, c.entries[:0], nil, nil
	if cap(c.moved) <= chunkSize && cap(c.entries) <= maxFields {
		canonizers.Put(c)
	}
}

// value rewrites the value at i and returns the offset after it.
func (c *canonizer) value(i, depth int) (end int, ok bool) {
	data := c.data
	if i >= len(data) || depth > maxCanonical {
		return i, false
	}
	switch data[i] {
	case '"':
		if c.leaf == nil {
			end, _ = c.text(i)
			return end, end > 0
		}
	case '{':
		return c.object(i, depth+1)
	case '[':
		return c.array(i, depth+1)
	}
	end = skip(data, i)
	if c.leaf != nil {
		c.out, ok = c.leaf(c.out, alias(c.field), c.field != nil, c.index, data[i:end])
		return end, ok
	}
	c.out, ok = appendScalar(c.out, data[i:end])
	return end, ok
}

// text rewrites the string at i, and says whether it is written as it is meant. No text can have half of a character in
// it, which has no end here.
func (c *canonizer) text(i int) (end int, plain bool) {
	end, escaped := textEnd(c.data, i+1)
	if !escaped {
		c.out = append(c.out, c.data[i:end]...)
		return end, end-i >= len(`""`)
	}
	if Surrogate(c.data[i:end]) != nil {
		return 0, false
	}
	text, start := Unquote(c.data[i:end]), len(c.out)
	c.out = AppendString(c.out, text)
	return end, len(c.out)-start == len(text)+2
}

func (c *canonizer) array(i, depth int) (end int, ok bool) {
	data := c.data
	c.out = append(c.out, '[')
	if i = space(data, i+1); i < len(data) && data[i] == ']' {
		c.out = append(c.out, ']')
		return i + 1, true
	}
	for n := 0; ; n++ {
		c.index = n
		if i, ok = c.value(i, depth); !ok {
			return i, false
		}
		if i = space(data, i); i < len(data) && data[i] == ']' {
			c.out = append(c.out, ']')
			return i + 1, true
		}
		c.out = append(c.out, ',')
		i = next(data, i)
	}
}

func (c *canonizer) object(i, depth int) (end int, ok bool) {
	data, base, open := c.data, len(c.entries), len(c.out)+1
	c.out = append(c.out, '{')
	sorted, field := true, c.field
	for i = space(data, i+1); i < len(data) && data[i] == '"'; i = next(data, i) {
		start := len(c.out)
		var plain bool
		if i, plain = c.text(i); !plain {
			return i, false
		}
		keyEnd := len(c.out) - 1
		c.out = append(c.out, ':')
		c.field, c.index = c.out[start+1:keyEnd:keyEnd], 0 // what is appended meanwhile leaves it as it is
		if i, ok = c.value(space(data, space(data, i)+1), depth); !ok {
			return i, false
		}
		c.out = append(c.out, ',')
		e := entry{head(c.out, start+1, keyEnd), start, keyEnd, len(c.out)}
		if n := len(c.entries); n > base && c.compare(c.entries[n-1], e) >= 0 {
			sorted = false
		}
		c.entries = append(c.entries, e)
	}
	if i >= len(data) || data[i] != '}' {
		return i, false
	}
	if !sorted {
		c.sort(c.entries[base:], open)
	}
	c.entries, c.field = c.entries[:base], field
	if n := len(c.out); n > open {
		c.out[n-1] = '}'
	} else {
		c.out = append(c.out, '}')
	}
	return i + 1, true
}

// sort puts the fields written since open in order; of equal keys the last stays.
func (c *canonizer) sort(list []entry, open int) {
	if len(list) <= 32 {
		for i := 1; i < len(list); i++ {
			e, j := list[i], i
			for ; j > 0 && c.compare(list[j-1], e) > 0; j-- {
				list[j] = list[j-1]
			}
			list[j] = e
		}
	} else {
		slices.SortStableFunc(list, c.compare)
	}
	c.moved = c.moved[:0]
	for i, e := range list {
		if i+1 < len(list) && c.compare(e, list[i+1]) == 0 {
			continue
		}
		c.moved = append(c.moved, c.out[e.start:e.end]...)
	}
	c.out = append(c.out[:open], c.moved...)
}

func (c *canonizer) compare(a, b entry) int {
	if a.head != b.head {
		return cmp.Compare(a.head, b.head)
	}
	return bytes.Compare(c.out[a.start+1:a.keyEnd], c.out[b.start+1:b.keyEnd])
}

// head is up to eight bytes of text as a number: comparing two of these is most
// often enough.
func head(text []byte, start, end int) (h uint64) {
	if start+8 <= len(text) {
		return bits.ReverseBytes64(word(text, start)) & (^uint64(0) << max(0, 64-8*(end-start)))
	}
	for i, c := range text[start:end] {
		h |= uint64(c) << (56 - 8*i)
	}
	return h
}

// appendScalar appends a literal, or a number in its shortest form.
func appendScalar(dst, raw []byte) (out []byte, ok bool) {
	if len(raw) == 0 {
		return dst, false
	}
	if c := raw[0]; c == 't' || c == 'f' || c == 'n' {
		return append(dst, raw...), true
	}
	point, digits := -1, 0
	for i, c := range raw {
		switch {
		case c-'0' <= 9:
			digits++
		case c == '.':
			point = i
		case c != '-':
			return appendRounded(dst, raw)
		}
	}
	if point < 0 {
		if string(raw) == "-0" {
			raw = raw[1:]
		}
		return append(dst, raw...), true
	}
	// Only one float is nearest to so few digits, and no fewer lead to it.
	if digits > 15 || len(raw)-point > 7 {
		return appendRounded(dst, raw)
	}
	raw = bytes.TrimRight(raw, "0")
	return append(dst, bytes.TrimSuffix(raw, []byte("."))...), true
}

// appendRounded appends the shortest form of a number with a fraction.
func appendRounded(dst, raw []byte) (out []byte, ok bool) {
	f, ok := ParseFloat(raw)
	if !ok {
		return dst, false
	}
	out, err := appendFloat(dst, f, 64)
	return out, err == nil
}
