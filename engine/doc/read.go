package doc

import (
	"bytes"
	"errors"
	"iter"
	"unicode/utf8"
)

// Get decodes the value at p: nil (also if missing), bool, int, float64, Number, string, []any or map[string]any. The
// caller must not change it. The error is a *[SyntaxError], or a *[ValueError] for a number out of range.
func (d *Doc) Get(p Path) (any, error) {
	raw, ok, err := d.Raw(p)
	if err != nil || !ok {
		return nil, err
	}
	v, err := DecodeRaw(raw)
	if err != nil {
		return nil, at(p, err)
	}
	return v, nil
}

// at gives a ValueError its path.
func at(p Path, err error) error {
	e, ok := errors.AsType[*ValueError](err)
	if !ok || p.IsZero() {
		return err
	}
	sep := "."
	if e.Path == "" || e.Path[0] == '[' {
		sep = ""
	}
	return &ValueError{p.String() + sep + e.Path, e.Msg}
}

// Raw returns the source text of the value at p, and whether it exists. An index into a text returns a character
// (code point). The result never changes and may be kept.
func (d *Doc) Raw(p Path) ([]byte, bool, error) {
	x, err := d.scanned()
	if err != nil {
		return nil, false, err
	}
	if len(p.parts) == 0 {
		return x.whole(d.arena), true, nil
	}
	var raw []byte
	if !x.isObject() {
		raw = find(x.whole(d.arena), p.parts, true)
	} else if !p.parts[0].elem {
		i := x.find(p.parts[0].key)
		if i < 0 {
			return nil, false, nil
		}
		if raw = x.raw(i); len(p.parts) > 1 {
			raw = find(raw, p.parts[1:], true)
		}
	}
	if last := len(p.parts) - 1; raw == nil && p.parts[last].elem {
		raw = d.character(p.parts[:last], p.parts[last].index)
	}
	return raw, raw != nil, nil
}

// Peek returns what [Doc.Raw] would return, without checking the whole payload. ok is false if it can't tell. The
// result only counts if [Doc.Valid] later confirms that the payload is a document.
func (d *Doc) Peek(p Path) (raw []byte, ok bool) {
	if d.index != nil {
		raw, ok, _ = d.Raw(p)
		return raw, ok
	}
	at := space(d.data, 0)
	if d.err != nil || len(p.parts) == 0 || p.parts[0].elem || at >= len(d.data) || d.data[at] != '{' {
		return nil, false
	}
	data := d.data[at:]
	if raw, ok = soleField(data, p.parts[0].key); !ok {
		raw = findKey(data, p.parts[0].key)
	} else if len(p.parts) == 1 {
		end := skip(raw, 0)
		return raw[:end:end], end > 0
	}
	raw = find(raw, p.parts[1:], false)
	return raw, raw != nil
}

// soleField returns where the value of a root field begins. It requires that the name occurs only once, that the text
// has no escapes, and that no object or array begins before the field. Searching bytes is faster than going from
// field to field.
//
// In a document without escapes, quotes open and close alternately, and a colon or comma is between a closing and an
// opening one. So a plain name in quotes is a string, and with a colon after it a field's name.
func soleField(data []byte, name string) (val []byte, ok bool) {
	if !isBare(name) || bytes.IndexByte(data, '\\') >= 0 {
		return nil, false
	}
	at := indexQuoted(data, name)
	if at < 0 || bytes.IndexByte(data[1:at], '{') >= 0 || bytes.IndexByte(data[1:at], '[') >= 0 {
		return nil, false
	}
	rest := data[at+len(name)+2:]
	if indexQuoted(rest, name) >= 0 {
		return nil, false
	}
	i := space(rest, 0)
	if i >= len(rest) || rest[i] != ':' {
		return nil, false
	}
	rest = rest[space(rest, i+1):]
	return rest, len(rest) > 0
}

// indexQuoted returns where a name occurs in quotes, or -1.
func indexQuoted(data []byte, name string) int {
	var needle [maxBare + 1]byte
	n := copy(needle[:], name)
	needle[n] = '"'
	// The quote before the name is not searched for: quotes are too frequent.
	for from := 1; from < len(data); {
		at := bytes.Index(data[from:], needle[:n+1])
		if at < 0 {
			break
		}
		if at += from; data[at-1] == '"' {
			return at - 1
		}
		from = at + 1
	}
	return -1
}

// maxBare is the maximum length of names that are searched as they are.
const maxBare = 31

// isBare reports whether a name is short and consists of ASCII letters, digits and _.
func isBare(name string) bool {
	for i := range len(name) {
		if c := name[i]; c != '_' && c|0x20-'a' > 'z'-'a' && c-'0' > 9 {
			return false
		}
	}
	return name != "" && len(name) <= maxBare
}

// character returns the n-th character of a text as a text, or nil.
func (d *Doc) character(of []part, n int) []byte {
	raw, _, _ := d.Raw(Path{parts: of})
	if Kind(raw) != String {
		return nil
	}
	if Surrogate(raw) != nil {
		return raw // reading it will fail, too
	}
	for text := Unquote(raw); text != ""; n-- {
		_, size := utf8.DecodeRuneInString(text)
		if n == 0 {
			return AppendString(make([]byte, 0, 8), text[:size])
		}
		text = text[size:]
	}
	return nil
}

// Each yields the source text of the elements of the array at p. If the payload is not a document, or the value not
// an array, it yields one error. A missing or null value has no elements.
func (d *Doc) Each(p Path) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		raw, _, err := d.Raw(p)
		switch k := Kind(raw); {
		case err != nil:
			yield(nil, err)
		case k == Array:
			for start, end := range elems(raw) {
				if !yield(raw[start:end:end], nil) {
					return
				}
			}
		case k != Missing && k != Null:
			yield(nil, &ValueError{p.String(), "it is " + k.String() + ", not an array"})
		}
	}
}
