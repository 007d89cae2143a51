package doc

import "iter"

// The functions here read text that has been checked, and only search for ends. On other text, the result may be
// nonsense, but they never panic.

// skipText returns the offset after a string, given the offset after its opening quote.
func skipText(data []byte, i int) int {
	end, _ := textEnd(data, i)
	return end
}

// textEnd is skipText, and reports whether the string has escapes.
func textEnd(data []byte, i int) (end int, escaped bool) {
	for i < len(data) {
		if i+8 <= len(data) {
			found := quoteOrBackslash(word(data, i))
			if found == 0 {
				i += 8
				continue
			}
			i += first(found)
		}
		switch data[i] {
		case '"':
			return i + 1, escaped
		case '\\':
			escaped = true
			i++
		}
		i++
	}
	return len(data), escaped
}

func quoteOrBackslash(w uint64) uint64 {
	quote, backslash := w^'"'*ones, w^'\\'*ones
	return ((quote-ones)&^quote | (backslash-ones)&^backslash) & highs
}

// skip returns the offset after the value at i.
func skip(data []byte, i int) int {
	if i >= len(data) {
		return len(data)
	}
	switch data[i] {
	case '"':
		return skipText(data, i+1)
	case '{', '[':
		return skipNested(data, i+1)
	}
	for i < len(data) && !endsScalar(data[i]) {
		i++
	}
	return i
}

func endsScalar(c byte) bool { return c == ',' || c == '}' || c == ']' || isSpace(c) }

// skipNested returns the offset after a container, given the offset after its opening bracket.
func skipNested(data []byte, i int) int {
	depth := 1
	for i = structure(data, i); i < len(data); i = structure(data, i) {
		c := data[i]
		i++
		switch c {
		case '"':
			i = skipText(data, i)
		case '{', '[':
			depth++
		default:
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(data)
}

// structure returns the offset of the next quote, brace or bracket.
func structure(data []byte, i int) int {
	for ; i+8 <= len(data); i += 8 {
		w := word(data, i)
		quote := w ^ '"'*ones
		// setting bit 5 turns brackets into braces
		lower := w | 0x20*ones
		opening, closing := lower^'{'*ones, lower^'}'*ones
		if found := ((quote-ones)&^quote | (opening-ones)&^opening | (closing-ones)&^closing) & highs; found != 0 {
			return i + first(found)
		}
	}
	for i < len(data) && data[i] != '"' && data[i]|0x20 != '{' && data[i]|0x20 != '}' {
		i++
	}
	return i
}

// find returns the text of the value at parts within raw, or nil. ends says that raw ends with the value.
func find(raw []byte, parts []part, ends bool) []byte {
	for i := range parts {
		if len(raw) == 0 {
			return nil
		}
		switch p := &parts[i]; {
		case !p.elem && raw[0] == '{':
			if ends || i > 0 {
				if val, ok := soleField(raw, p.key); ok {
					end := skip(val, 0)
					raw = val[:end:end]
					continue
				}
			}
			raw = findKey(raw, p.key)
		case p.elem && raw[0] == '[':
			raw = findElem(raw, p.index)
		default:
			return nil
		}
	}
	return raw
}

// findKey returns the last field of an object with a key, or nil.
func findKey(raw []byte, key string) (val []byte) {
	for i := space(raw, 1); i < len(raw) && raw[i] == '"'; {
		name := i + 1
		i = skipText(raw, name)
		nameEnd := i - 1
		i = space(raw, space(raw, i)+1) // the colon
		end := skip(raw, i)
		if nameEnd >= name && end > i && sameKey(raw[name:nameEnd], key) {
			val = raw[i:end:end]
		}
		i = next(raw, end)
	}
	return val
}

// findElem returns the n-th element of an array, or nil.
func findElem(raw []byte, n int) []byte {
	start, end, _ := findSpan(raw, n)
	if start < 0 {
		return nil
	}
	return raw[start:end:end]
}

// findSpan returns where element n of an array is. If there is none, start is negative and count is the number of
// elements.
func findSpan(raw []byte, n int) (start, end, count int) {
	for start, end := range elems(raw) {
		if count == n {
			return start, end, count
		}
		count++
	}
	return -1, -1, count
}

// elems yields where the elements of an array begin and end.
func elems(raw []byte) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		for i := space(raw, 1); i < len(raw) && raw[i] != ']'; {
			end := skip(raw, i)
			if end == i || !yield(i, end) {
				return
			}
			i = next(raw, end)
		}
	}
}

// Elements yields the source text of each element of a checked array, as from [Doc.Raw].
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for start, end := range elems(array) {
			if !yield(array[start:end:end]) {
				return
			}
		}
	}
}

// Members yields the name and the source text of each field of a checked object, in order.
func Members(object []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for i := space(object, 1); i < len(object) && object[i] == '"'; {
			end := skip(object, i)
			name := Unquote(object[i:end])
			i = space(object, space(object, end)+1) // the colon
			end = skip(object, i)
			if !yield(name, object[i:end:end]) {
				return
			}
			i = next(object, end)
		}
	}
}

// next returns where the next field or element begins, given the end of one, or the end of the container.
func next(data []byte, i int) int {
	i = space(data, i)
	if i < len(data) && data[i] == ',' {
		i = space(data, i+1)
	}
	return i
}

// depthOf returns how deep the containers of a value nest.
func depthOf(raw []byte) (deepest int) {
	depth := 0
	for i := structure(raw, 0); i < len(raw); i = structure(raw, i) {
		c := raw[i]
		i++
		switch c {
		case '"':
			i = skipText(raw, i)
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		default:
			depth--
		}
	}
	return deepest
}
