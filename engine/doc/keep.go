package doc

import "slices"

// Keep removes everything except the values at the paths and their parents. It keeps the document's order. Elements
// that no path names are removed, too, and later ones move up. The error is a *[SyntaxError], or a *[ValueError] if
// the document is a scalar.
func (d *Doc) Keep(paths []Path) error {
	x, err := d.scanned()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(paths, Path.IsZero) {
		return nil
	}
	k := keeper{paths, d.arena}
	if x.isObject() {
		k.object(x, nil)
		return nil
	}
	switch kind := Kind(x.data[x.start:]); kind {
	case Array:
		raw, _ := k.array(x.whole(d.arena), nil)
		d.replace(raw)
	case Null:
		d.replace([]byte("{}"))
	default:
		return &ValueError{"", "the document is " + kind.String() + ", not an object"}
	}
	return nil
}

// keeper reduces values to what its paths name. The first parts of a path identify a value: its place.
type keeper struct {
	paths []Path
	arena *Arena
}

// value returns what remains of raw: all of it if a path ends here, nothing if no path continues.
func (k *keeper) value(raw []byte, place []part) []byte {
	for _, p := range k.paths {
		if slices.Equal(p.parts, place) {
			return raw
		}
	}
	switch Kind(raw) {
	case Object:
		x := k.arena.newIndex()
		defer k.arena.dropIndex()
		if x.scan(raw) != nil || !k.object(x, place) {
			return nil
		}
		return x.bytes(k.arena)
	case Array:
		if raw, any := k.array(raw, place); any {
			return raw
		}
	}
	return nil
}

// object removes fields from x, and reports whether any is left.
func (k *keeper) object(x *index, place []part) (any bool) {
	var few [64]bool
	stays := few[:]
	if len(x.fields) > len(few) {
		stays = make([]bool, len(x.fields))
	}
	for _, p := range k.paths {
		if !below(p, place) || p.parts[len(place)].elem {
			continue
		}
		key := p.parts[len(place)].key
		i := x.find(key)
		if i < 0 || stays[i] {
			continue
		}
		old := x.raw(i)
		raw := k.value(old, p.parts[:len(place)+1])
		if raw == nil {
			continue
		}
		stays[i], any = true, true
		if len(raw) < len(old) {
			x.set(i, key, raw)
		}
	}
	for i := range x.fields {
		if !stays[i] && x.fields[i].edit != removed {
			x.change(i, removed)
		}
	}
	return any
}

// array returns an array of the elements that remain, and reports whether there are any.
func (k *keeper) array(raw []byte, place []part) (_ []byte, any bool) {
	// Nested arrays are cut first, because only one text can grow at a time.
	var remain [][]byte
	n, size, cut := 0, len("[]"), false
	for start, end := range elems(raw) {
		old := raw[start:end:end]
		kept := k.elem(old, place, n)
		cut = cut || len(kept) < len(old)
		if n++; kept != nil {
			remain = append(remain, kept)
			size += len(kept) + len(",")
		}
	}
	if !cut {
		return raw, n > 0
	}
	out := append(k.arena.spare(size), '[')
	for i, e := range remain {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, e...)
	}
	return k.arena.keep(append(out, ']')), len(remain) > 0
}

// elem returns what remains of element n.
func (k *keeper) elem(raw []byte, place []part, n int) []byte {
	for _, p := range k.paths {
		if below(p, place) && p.parts[len(place)] == (part{index: n, elem: true}) {
			return k.value(raw, p.parts[:len(place)+1])
		}
	}
	return nil
}

// below reports whether p continues from place.
func below(p Path, place []part) bool {
	return len(p.parts) > len(place) && slices.Equal(p.parts[:len(place)], place)
}
