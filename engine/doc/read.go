package doc

import (
	"bytes"
	"errors"
	"iter"
	"unicode/utf8"
)

// Get is the value at p, decoded: nil (also for a missing one), bool, int,
// float64, Number, string, []any or map[string]any. The caller does not change
// it. The error is a *[SyntaxError], or a *[ValueError] for a number out of range.
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

// Raw is the source text of the value at p, and whether there is one. An index
// into a text gives its character, a code point. It never changes and may be kept.
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

// Peek is what [Doc.Raw] gives if the payload turns out to be a document, found without a
// check of all of it; ok is false where it is not found so. Who uses it must see to it that
// [Doc.Valid] is asked before anything comes of the answer.
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

// soleField is where the value of a field of the root object begins. The field's name must
// occur nowhere else, the text must have no escapes, and no object or array may begin
// before the field. Searching bytes is faster than going from field to field.
//
// In a document without escapes, quotes open and close by turns, and a colon or a comma
// stands between a closing and an opening one. So a plain name within quotes is a text of
// its own, and with a colon behind it a field's name.
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

// indexQuoted is where a name stands in quotes, or -1.
func indexQuoted(data []byte, name string) int {
	var needle [maxBare + 1]byte
	n := copy(needle[:], name)
	needle[n] = '"'
	// The quote in front is left out: there are too many to search for.
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

// maxBare is how long a name may be that is searched for as it is.
const maxBare = 31

// isBare reports whether a name is short, and of ASCII letters, digits and _.
func isBare(name string) bool {
	for i := range len(name) {
		if c := name[i]; c != '_' && c|0x20-'a' > 'z'-'a' && c-'0' > 9 {
			return false
		}
	}
	return name != "" && len(name) <= maxBare
}

// character is the n-th character of a text, as a text; nil if there is none.
func (d *Doc) character(of []part, n int) []byte {
	raw, _, _ := d.Raw(Path{parts: of})
	if Kind(raw) != String {
		return nil
	}
	if Surrogate(raw) != nil {
		return raw // which can't be read, either
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

// Each yields the source text of the elements of the array at p. It yields one error if the
// payload is not a document or the value not an array; a missing or null one has no
// elements.
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
