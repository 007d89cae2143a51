package doc

import (
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
	var e *ValueError
	if !errors.As(err, &e) || p.IsZero() {
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
	raw, err := d.raw(p.parts)
	if raw == nil && err == nil {
		raw = d.character(p.parts)
	}
	return raw, raw != nil, err
}

// raw is the source text of what lies at parts, or nil.
func (d *Doc) raw(parts []part) ([]byte, error) {
	x, err := d.scanned()
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return x.whole(d.arena), nil
	}
	if !x.isObject() {
		return find(x.whole(d.arena), parts), nil
	}
	if parts[0].elem {
		return nil, nil
	}
	i := x.find(parts[0].key)
	if i < 0 {
		return nil, nil
	}
	raw := x.raw(i)
	if len(parts) > 1 {
		raw = find(raw, parts[1:])
	}
	return raw, nil
}

// character is the character that parts lead to, as a text, if their end is an
// index into a text. Else it is nil.
func (d *Doc) character(parts []part) []byte {
	n := len(parts) - 1
	if n < 0 || !parts[n].elem {
		return nil
	}
	of, _ := d.raw(parts[:n])
	if of == nil {
		of = d.character(parts[:n])
	}
	if Kind(of) != String {
		return nil
	}
	text := Unquote(of)
	for at := parts[n].index; text != ""; at-- {
		_, size := utf8.DecodeRuneInString(text)
		if at == 0 {
			return AppendString(make([]byte, 0, 8), text[:size])
		}
		text = text[size:]
	}
	return nil
}

// Each yields the source text of the elements of the array at p. It yields one
// error if the payload is no document or the value no array; a missing or null
// one has no elements.
func (d *Doc) Each(p Path) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		raw, _, err := d.Raw(p)
		if err == nil {
			if k := Kind(raw); k == Array {
				for elem := range elems(raw) {
					if !yield(raw[elem.start:elem.end:elem.end], nil) {
						return
					}
				}
				return
			} else if k != Missing && k != Null {
				err = &ValueError{p.String(), "it is " + k.String() + ", not an array"}
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}
