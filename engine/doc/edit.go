package doc

import (
	"fmt"
	"slices"
)

// Set sets the value at p. Missing and null parents become objects. The error is a *[SyntaxError] of the payload, or
// a *[ValueError] if v has no JSON form, a parent is a scalar, or an index is past the end. On an error, d is
// unchanged.
func (d *Doc) Set(p Path, v any) error {
	raw, err := Append(d.arena.spare(64), v)
	if err != nil {
		return at(p, err)
	}
	if raw = d.arena.keep(raw); len(p.parts) == 0 {
		d.replace(raw)
		return nil
	}
	return d.SetRaw(p, raw)
}

// SetRaw sets the value at p to JSON text, which must be valid and must not change afterwards. Errors are those of
// Set.
func (d *Doc) SetRaw(p Path, raw []byte) error {
	raw = trim(raw)
	d.arena.Spend(len(raw))
	if len(raw) == 0 {
		return &ValueError{p.String(), "an empty text is not a JSON value"}
	}
	// Two bytes open and close a container, so most values need no counting.
	if n := len(p.parts); n+len(raw)/2 > MaxDepth && n+depthOf(raw) > MaxDepth {
		return &ValueError{p.String(), errTooDeep.Msg}
	}
	switch x := d.index; {
	case len(p.parts) == 0:
		d.replace(raw)
		return nil
	case len(p.parts) == 1 && !p.parts[0].elem && x != nil && x.isObject(): // fast path
		key := p.parts[0].key
		x.set(x.find(key), key, raw)
		return nil
	}
	return d.edit(operation{kind: setting, path: p, raw: raw})
}

// Unset removes the value at p; a missing one is not an error.
func (d *Doc) Unset(p Path) error {
	if len(p.parts) == 0 {
		return &ValueError{"", "the whole document can't be removed"}
	}
	return d.edit(operation{kind: unsetting, path: p})
}

// Rename moves the value at one path to another, and replaces the value there. If both have the same parent, only the
// key changes, and the field keeps its place. A missing value is not an error. Errors are those of Set.
func (d *Doc) Rename(from, to Path) error {
	n := len(from.parts)
	if n == 0 || len(to.parts) == 0 {
		return &ValueError{"", "the whole document can't be renamed"}
	}
	raw, ok, err := d.Raw(from)
	if err != nil || !ok || from.Equal(to) {
		return err
	}
	last := n - 1
	if from.parts[last].elem {
		if of, _, _ := d.Raw(Path{parts: from.parts[:last]}); Kind(of) == String {
			return nil // a character is part of its text
		}
	}
	if n == len(to.parts) && slices.Equal(from.parts[:last], to.parts[:last]) &&
		!from.parts[last].elem && !to.parts[last].elem {
		return d.edit(operation{kind: renaming, path: from, to: to.parts[last].key})
	}
	before := d.Mark()
	if err := d.Unset(from); err != nil {
		return err
	}
	if err := d.SetRaw(to, raw); err != nil {
		d.Restore(before)
		return err
	}
	return nil
}

// edit applies op to the document, all or nothing.
func (d *Doc) edit(op operation) error {
	x, err := d.scanned()
	if err != nil {
		return err
	}
	op.arena = d.arena
	if x.isObject() {
		_, err := op.object(x, op.path.parts)
		return err
	}
	raw, err := op.value(x.whole(d.arena), op.path.parts)
	if raw != nil {
		d.replace(raw)
	}
	return err
}

// operation is one edit. Its methods apply it to a value, given the remaining parts of the path, and report whether
// that changed anything.
type operation struct {
	kind  opKind
	path  Path
	raw   []byte // of Set: the value
	to    string // of Rename: the new key
	arena *Arena
}

type opKind uint8

const (
	setting opKind = iota
	unsetting
	renaming
)

// fail returns an error about the parent of parts for Set, and nil for Unset: a missing value needs no removing.
func (op *operation) fail(parts []part, msg string, args ...any) error {
	if op.kind != setting {
		return nil
	}
	parent := op.path.parts[:len(op.path.parts)-len(parts)]
	name := "the document"
	if len(parent) > 0 {
		name = format(parent)
	}
	return &ValueError{op.path.String(), name + fmt.Sprintf(msg, args...)}
}

// object edits the fields of an indexed object.
func (op *operation) object(x *index, parts []part) (changed bool, err error) {
	p := &parts[0]
	if p.elem {
		return false, op.fail(parts, " is an object, not an array")
	}
	i := x.find(p.key)
	if len(parts) > 1 {
		var child []byte
		if i >= 0 {
			child = x.raw(i)
		}
		child, err := op.value(child, parts[1:])
		if child == nil {
			return false, err
		}
		x.set(i, p.key, child)
		return true, nil
	}
	switch {
	case op.kind == setting:
		x.set(i, p.key, op.raw)
	case i < 0:
		return false, nil
	case op.kind == unsetting:
		x.remove(i, p.key)
	default:
		x.rename(i, p.key, op.to)
	}
	return true, nil
}

// value edits a value given as text, which may be missing. It returns nil if nothing changes, like the methods that
// it calls.
func (op *operation) value(raw []byte, parts []part) ([]byte, error) {
	switch k := Kind(raw); k {
	case Missing, Null:
		return op.fresh(parts)
	case Object:
		x := op.arena.newIndex()
		defer op.arena.dropIndex()
		if err := x.scan(raw); err != nil {
			return nil, err
		}
		if changed, err := op.object(x, parts); !changed {
			return nil, err
		}
		return x.splice(op.arena), nil
	case Array:
		return op.array(raw, parts)
	default:
		return nil, op.fail(parts, " is %v, not an object", k)
	}
}

// fresh makes objects for all parts.
func (op *operation) fresh(parts []part) ([]byte, error) {
	if op.kind != setting {
		return nil, nil
	}
	size := len(op.raw)
	for i := range parts {
		size += len(parts[i].key) + len(`{"":}`)
	}
	out := op.arena.spare(size)
	for i := range parts {
		if parts[i].elem {
			return nil, op.fail(parts[i:], " is not an array, so nothing can be set by index")
		}
		out = append(AppendString(append(out, '{'), parts[i].key), ':')
	}
	out = append(out, op.raw...)
	for range parts {
		out = append(out, '}')
	}
	return op.arena.keep(out), nil
}

// array edits one element.
func (op *operation) array(raw []byte, parts []part) (_ []byte, err error) {
	p := &parts[0]
	if !p.elem {
		return nil, op.fail(parts, " is an array, not an object")
	}
	start, end, n := findSpan(raw, p.index)
	if start < 0 {
		if p.index < 0 {
			return nil, op.fail(parts, " has no element %d: indexes begin at 0", p.index)
		}
		return nil, op.fail(parts, " has no element %d: there are %d", p.index, n)
	}
	elem := op.raw
	switch {
	case len(parts) > 1:
		if elem, err = op.value(raw[start:end:end], parts[1:]); elem == nil {
			return nil, err
		}
	case op.kind == unsetting:
		return op.removeElem(raw, p.index, start, end), nil
	}
	out := append(op.arena.spare(len(raw)+len(elem)), raw[:start]...)
	out = append(append(out, elem...), raw[end:]...)
	return op.arena.keep(out), nil
}

// removeElem removes element i with the comma before it, or the first element with the comma after it.
func (op *operation) removeElem(raw []byte, i, start, end int) []byte {
	if i > 0 {
		_, start, _ = findSpan(raw, i-1)
	} else if second, _, _ := findSpan(raw, 1); second > 0 {
		end = second
	} else {
		start, end = 1, len(raw)-1
	}
	out := append(op.arena.spare(len(raw)), raw[:start]...)
	return op.arena.keep(append(out, raw[end:]...))
}
