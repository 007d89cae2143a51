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
	x, err := d.scanned()
	if err != nil {
		return nil, false, err
	}
	if len(p.parts) == 0 {
		return x.whole(d.arena), true, nil
	}
	var raw []byte
	if !x.isObject() {
		raw = find(x.whole(d.arena), p.parts)
	} else if !p.parts[0].elem {
		i := x.find(p.parts[0].key)
		if i < 0 {
			return nil, false, nil
		}
		if raw = x.raw(i); len(p.parts) > 1 {
			raw = find(raw, p.parts[1:])
		}
	}
	if last := len(p.parts) - 1; raw == nil && p.parts[last].elem {
		raw = d.character(p.parts[:last], p.parts[last].index)
	}
	return raw, raw != nil, nil
}

// character is the n-th character of a text, as a text; nil if there is none.
func (d *Doc) character(of []part, n int) []byte {
	raw, _, _ := d.Raw(Path{parts: of})
	if Kind(raw) != String {
		return nil
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
