package doc

import (
	"errors"
	"iter"
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

// Raw is the source text of the value at p, and whether there is one. It never
// changes and may be kept.
func (d *Doc) Raw(p Path) ([]byte, bool, error) {
	x, err := d.scanned()
	if err != nil {
		return nil, false, err
	}
	if len(p.parts) == 0 {
		return x.whole(d.arena), true, nil
	}
	if !x.isObject() {
		raw := find(x.whole(d.arena), p.parts)
		return raw, raw != nil, nil
	}
	if p.parts[0].elem {
		return nil, false, nil
	}
	i := x.find(p.parts[0].key)
	if i < 0 {
		return nil, false, nil
	}
	raw := x.raw(i)
	if len(p.parts) > 1 {
		raw = find(raw, p.parts[1:])
	}
	return raw, raw != nil, nil
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
