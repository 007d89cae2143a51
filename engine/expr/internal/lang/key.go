package lang

import (
	"bytes"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// AppendKey appends a canonical text of the value, which is equal for equal values, and only for those. ok is false for nil.
func (p *Program) AppendKey(dst []byte, s Source) (key []byte, ok bool, err error) {
	if p == nil {
		return dst, false, errUnset
	}
	if p.path != nil {
		if raw, ok := simple(s, *p.path); ok {
			return append(dst, raw...), true, nil
		}
	}
	v, err := p.EvalAny(s)
	if err != nil || v == nil {
		return dst, false, err
	}
	key, err = p.append(dst, v, AppendKeyOf)
	return key, err == nil, err
}

// PeekKey is AppendKey for a document that is checked later: see [doc.Doc.Peek]. ok is false if the key is nil, or can't be
// known yet.
func (p *Program) PeekKey(dst []byte, s Source) (key []byte, ok bool) {
	if p == nil || p.path == nil {
		return dst, false
	}
	raw, ok := s.Document().Peek(*p.path)
	if !ok || !canonical(raw) {
		return dst, false
	}
	return append(dst, raw...), true
}

// AppendBody appends the value as a payload: text as it is, anything else as JSON.
func (p *Program) AppendBody(dst []byte, s Source) ([]byte, error) {
	if p != nil && p.write != nil && p.kinds&^(value.Object|value.List) == 0 {
		f := NewFrame(s, p.Limits)
		out, ok := p.writeTo(f, dst)
		f.release()
		if ok {
			return out, nil
		}
	}
	v, err := p.EvalAny(s)
	if err != nil {
		return dst, err
	}
	return p.append(dst, v, AppendPayload)
}

// append appends v in a form. A failure is the error: v may not have that form.
func (p *Program) append(dst []byte, v any, form func(*Site, []byte, any) []byte) (out []byte, err error) {
	defer func() {
		if f := caught(recover()); f != nil {
			out, err = dst, errorOf(p.origin, f)
		}
	}()
	return form(p.site, dst, v), nil
}

// simple is the source text of a field if that is its canonical form.
func simple(s Source, p doc.Path) (raw []byte, ok bool) {
	raw, ok, err := s.Document().Raw(p)
	return raw, err == nil && ok && canonical(raw)
}

// canonical says whether the source of a value is the same for all equal values: true, false, a text without escapes, or an
// integer of 64 bits.
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
