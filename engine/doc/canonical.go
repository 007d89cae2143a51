package doc

import (
	"bytes"
	"cmp"
	"math/bits"
	"slices"
	"sync"
)

// maxCanonical is how deep Canonical follows containers. Sorting moves a field once for each container around it, so
// the time is size times depth.
const maxCanonical = 32

// Canonical appends the form that [Append] gives to the decoded value of raw, which is JSON text as from [Doc.Raw].
// It works on the text, without a decoder's maps and boxes. If ok is false, dst is unchanged, and [DecodeRaw] and
// Append must do the work: for numbers out of range, odd keys and deep nesting.
func Canonical(dst, raw []byte) (out []byte, ok bool) { return Rewrite(dst, raw, Edits{}) }

// Leaf appends the replacement of a value that is not an object or a list. field is the name of the innermost field
// around the value, and is only valid during the call. index is its place in a list. Leaf returns ok false to give
// up.
type Leaf func(dst []byte, field string, inField bool, index int, raw []byte) (out []byte, ok bool)

// Edits are the replacements that [Rewrite] makes.
type Edits struct {
	Leaf Leaf
	Key  func(dst, raw []byte) (out []byte, ok bool) // appends the replacement of a key; both are JSON text
	Path *[]any                                      // if not nil: the keys and indexes around the value of a call of Leaf
}

// Rewrite is Canonical with replacements. If there are any, fields keep their order. It gives up if two keys of an object
// become one.
func Rewrite(dst, raw []byte, e Edits) (out []byte, ok bool) {
	c := canonizers.Get().(*canonizer)
	c.data, c.out, c.leaf, c.key, c.path, c.field, c.index = raw, dst, e.Leaf, e.Key, e.Path, nil, 0
	end, ok := c.value(space(raw, 0), 0)
	out, ok = c.out, ok && space(raw, end) == len(raw)
	c.release()
	if !ok {
		return dst, false
	}
	return out, true
}

// canonizer rewrites text that has been checked. On other text the result may be nonsense, but it never panics.
type canonizer struct {
	data, out []byte
	entries   []entry // fields of the open objects, as a stack
	moved     []byte

	leaf  Leaf // nil: leaves stay as they are
	key   func(dst, raw []byte) (out []byte, ok bool)
	path  *[]any // of the current value; nil: it is not needed
	field []byte // around the current value; nil: none
	index int
}

// entry is a field in out: "key":value and a comma.
type entry struct {
	head               uint64 // first bytes of the key, as a number with the same order
	start, keyEnd, end int
}

var canonizers = sync.Pool{New: func() any { return new(canonizer) }}

func (c *canonizer) release() {
	c.data, c.out, c.entries, c.leaf, c.key, c.path, c.field = nil, nil, c.entries[:0], nil, nil, nil, nil
	if cap(c.moved) <= chunkSize && cap(c.entries) <= maxFields {
		canonizers.Put(c)
	}
}

// value rewrites the value at i and returns the offset after it.
func (c *canonizer) value(i, depth int) (end int, ok bool) {
	data := c.data
	if i >= len(data) || depth > maxCanonical && c.sorts() || depth > MaxDepth {
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

// text rewrites the string at i. plain reports whether it has no escapes left. A string with a lone surrogate has no
// canonical form.
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
		if c.path != nil {
			*c.path = append(*c.path, n)
		}
		if i, ok = c.value(i, depth); !ok {
			return i, false
		}
		c.leave()
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
		if i, ok = c.name(i); !ok {
			return i, false
		}
		keyEnd := len(c.out) - 1
		c.out = append(c.out, ':')
		c.field, c.index = c.out[start+1:keyEnd:keyEnd], 0 // appending to out does not change it
		if c.path != nil {
			*c.path = append(*c.path, string(c.field))
		}
		if i, ok = c.value(space(data, space(data, i)+1), depth); !ok {
			return i, false
		}
		c.leave()
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
	switch {
	case sorted:
	case c.sorts():
		c.sort(c.entries[base:], open)
	case !c.dropDuplicates(c.entries[base:], open):
		return i, false
	}
	c.entries, c.field = c.entries[:base], field
	if n := len(c.out); n > open {
		c.out[n-1] = '}'
	} else {
		c.out = append(c.out, '}')
	}
	return i + 1, true
}

// leave removes the last part of the path.
func (c *canonizer) leave() {
	if c.path != nil {
		*c.path = (*c.path)[:len(*c.path)-1]
	}
}

// sorts says whether fields are sorted.
func (c *canonizer) sorts() bool { return c.leaf == nil && c.key == nil }

// name rewrites the key at i.
func (c *canonizer) name(i int) (end int, ok bool) {
	if c.key == nil {
		return c.text(i)
	}
	start := len(c.out)
	end, _ = textEnd(c.data, i+1)
	c.out, ok = c.key(c.out, c.data[i:end])
	return end, ok && len(c.out) > start && c.out[start] == '"'
}

// sort sorts the fields written since open. Of equal keys, it keeps the last.
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

// dropDuplicates keeps the last of equal keys among the fields written since open, in their order. It returns false if keys
// may have become equal.
func (c *canonizer) dropDuplicates(list []entry, open int) bool {
	slices.SortStableFunc(list, c.compare)
	duplicates := false
	for i := range list[1:] {
		if c.compare(list[i], list[i+1]) == 0 {
			list[i].keyEnd, duplicates = 0, true
		}
	}
	if !duplicates || c.key != nil {
		return !duplicates
	}
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.start, b.start) })
	c.moved = c.moved[:0]
	for _, e := range list {
		if e.keyEnd > 0 {
			c.moved = append(c.moved, c.out[e.start:e.end]...)
		}
	}
	c.out = append(c.out[:open], c.moved...)
	return true
}

func (c *canonizer) compare(a, b entry) int {
	if a.head != b.head {
		return cmp.Compare(a.head, b.head)
	}
	return bytes.Compare(c.out[a.start+1:a.keyEnd], c.out[b.start+1:b.keyEnd])
}

// head returns up to eight bytes of text as a number: comparing these usually decides.
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
	// Only one float is nearest to so few digits, and fewer digits never give the same float.
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
