package expr

import (
	"bytes"

	"github.com/flowd-io/flowd/engine/doc"
)

// AppendKey appends a canonical text of the value: equal values, and only
// those, give equal text. It is JSON: text in quotes, 1 and 1.0 alike, keys
// sorted. ok is false for nil.
func (e *Expr) AppendKey(dst []byte, s Source) (key []byte, ok bool, err error) {
	if e.p == nil {
		return dst, false, errUnset
	}
	if e.p.path != nil {
		if raw, ok := simple(s, *e.p.path); ok {
			return append(dst, raw...), true, nil
		}
	}
	v, err := e.value(s)
	if err != nil || v == nil {
		return dst, false, err
	}
	key, err = e.p.append(dst, v, appendKey)
	return key, err == nil, err
}

// PeekKey is AppendKey for a document that is checked later: see [doc.Doc.Peek]. ok is false
// where there is no telling, or no key.
func (e *Expr) PeekKey(dst []byte, s Source) (key []byte, ok bool) {
	if e.p == nil || e.p.path == nil {
		return dst, false
	}
	raw, ok := s.Document().Peek(*e.p.path)
	if !ok || !canonical(raw) {
		return dst, false
	}
	return append(dst, raw...), true
}

// AppendBody appends the value as a payload: text as it is, anything else as JSON.
func (e *Expr) AppendBody(dst []byte, s Source) ([]byte, error) {
	if e.p != nil && e.p.write != nil && e.p.kinds&^(kObject|kList) == 0 {
		f := newFrame(s, e.p.limits)
		out, ok := e.p.encode(f, dst)
		f.release()
		if ok {
			return out, nil
		}
	}
	v, err := e.value(s)
	if err != nil {
		return dst, err
	}
	return e.p.append(dst, v, appendBody)
}

// append appends v in a form that it may not have.
func (p *program) append(dst []byte, v any, form func(*site, []byte, any) []byte) (out []byte, err error) {
	defer func() {
		if f := caught(recover()); f != nil {
			out, err = dst, p.origin.errorOf(f)
		}
	}()
	return form(p.site, dst, v), nil
}

// simple is the source text of a field whose source is its canonical form.
func simple(s Source, p doc.Path) (raw []byte, ok bool) {
	raw, ok, err := s.Document().Raw(p)
	return raw, err == nil && ok && canonical(raw)
}

// canonical says of text without escapes, an integer that int64 holds, true and false
// that their source is what equal values have in common.
func canonical(raw []byte) bool {
	if len(raw) == 0 {
		return false
	}
	switch raw[0] {
	case '"':
		return bytes.IndexByte(raw, '\\') < 0
	case 't', 'f':
		return true
	case '[', '{', 'n':
		return false
	}
	_, ok := doc.ParseInt(raw)
	return ok && string(raw) != "-0"
}
