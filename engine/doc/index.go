package doc

import "slices"

// index records where the fields of an object are in its text, and their edits. Edits are only appended, so that they
// can be undone.
type index struct {
	data       []byte
	start, end int // of the value, without white space around it

	fields []field // fields in data, then added fields
	own    int     // number of fields in data
	odd    bool    // a key has an escape, or was renamed: compare the slow way

	edits []edit
	undo  []change
	out   []byte // data with the edits, once somebody asked for it
}

// field is one field of an object. Offsets have 32 bits to halve the memory that a scan writes. Longer payloads are
// rejected.
type field struct {
	key, keyEnd uint32 // without the quotes
	val, valEnd uint32
	edit        int32 // 0: unchanged; n: edits[n-1]; or removed
}

const removed = -1

// edit replaces a field.
type edit struct {
	raw   []byte
	key   string // the field's name, if keyed
	keyed bool   // it was added or renamed
}

// change records what the edit of a field replaced. old is absent if the field is new.
type change struct{ field, old int32 }

const absent = -2

// add adds a field, for the caller to fill.
func (x *index) add() *field {
	n := len(x.fields)
	if n == cap(x.fields) {
		x.fields = slices.Grow(x.fields, max(n, minFields))
	}
	x.fields = x.fields[:n+1]
	return &x.fields[n]
}

func (x *index) edited() bool { return len(x.undo) > 0 }

// bytes returns the text with the edits.
func (x *index) bytes(a *Arena) []byte {
	if !x.edited() {
		return x.data
	}
	if x.out == nil {
		x.out = x.splice(a)
	}
	return x.out
}

// whole returns the value with the edits, without the white space around it.
func (x *index) whole(a *Arena) []byte {
	out := x.bytes(a)
	end := len(out) - (len(x.data) - x.end)
	return out[x.start:end:end]
}

// isObject reports whether the indexed value has fields.
func (x *index) isObject() bool { return x.data[x.start] == '{' }

// forget releases the text of edits that are not needed any more. It would otherwise stay until the arena is reset.
func (x *index) forget() {
	if x.edited() {
		x.clear()
	}
}

// clear releases all text, and memory beyond the usual amount.
func (x *index) clear() {
	clear(x.edits)
	x.data, x.out, x.odd = nil, nil, false
	x.fields, x.edits, x.undo = x.fields[:0], x.edits[:0], x.undo[:0]
	if cap(x.fields) > maxFields {
		x.fields = nil
	}
	if cap(x.undo) > maxFields {
		x.edits, x.undo = nil, nil
	}
}

// find returns the index of the field that counts for key, or -1.
func (x *index) find(key string) int {
	for i := len(x.fields) - 1; i >= x.own; i-- {
		if e := x.fields[i].edit; e > 0 && x.edits[e-1].key == key {
			return i
		}
	}
	if x.odd {
		return x.findOdd(key, x.own)
	}
	own := x.fields[:x.own]
	for i := len(own) - 1; i >= 0; i-- {
		f := &own[i]
		if int(f.keyEnd-f.key) == len(key) && string(x.data[f.key:f.keyEnd]) == key && f.edit != removed {
			return i
		}
	}
	return -1
}

// findOdd is find among the first n fields, if names are edited or escaped.
func (x *index) findOdd(key string, n int) int {
	for i := n - 1; i >= 0; i-- {
		f := &x.fields[i]
		switch {
		case f.edit == removed:
		case f.edit > 0 && x.edits[f.edit-1].keyed:
			if x.edits[f.edit-1].key == key {
				return i
			}
		case sameKey(x.data[f.key:f.keyEnd], key):
			return i
		}
	}
	return -1
}

// raw returns the text of field i's value.
func (x *index) raw(i int) []byte {
	f := &x.fields[i]
	if f.edit > 0 {
		return x.edits[f.edit-1].raw
	}
	return x.data[f.val:f.valEnd:f.valEnd]
}

// set puts raw into field i, or into a new field if i is negative, and removes other fields with that name.
func (x *index) set(i int, key string, raw []byte) {
	if i < 0 {
		x.edits = append(x.edits, edit{raw, key, true})
		x.note(change{int32(len(x.fields)), absent})
		x.add().edit = int32(len(x.edits)) // offsets only matter for fields in data
		return
	}
	e := edit{raw: raw}
	if old := x.fields[i].edit; old > 0 {
		e.key, e.keyed = x.edits[old-1].key, x.edits[old-1].keyed
	}
	x.put(i, e)
	x.removeBefore(i, key)
}

// remove removes field i and others with that name.
func (x *index) remove(i int, key string) {
	x.change(i, removed)
	x.removeBefore(i, key)
}

// rename renames field i in place.
func (x *index) rename(i int, from, to string) {
	raw := x.raw(i)
	x.removeBefore(i, from)
	if j := x.find(to); j >= 0 {
		x.remove(j, to)
	}
	x.put(i, edit{raw, to, true})
	x.odd = true
}

func (x *index) removeBefore(i int, key string) {
	for i = x.findOdd(key, i); i >= 0; i = x.findOdd(key, i) {
		x.change(i, removed)
	}
}

func (x *index) put(i int, e edit) {
	x.edits = append(x.edits, e)
	x.change(i, int32(len(x.edits)))
}

func (x *index) change(i int, to int32) {
	x.note(change{int32(i), x.fields[i].edit})
	x.fields[i].edit = to
}

func (x *index) note(c change) {
	x.undo = append(x.undo, c)
	x.out = nil
}

// rollback undoes all but the first n changes, and the edits that they came from.
func (x *index) rollback(n, edits int) {
	clear(x.edits[min(edits, len(x.edits)):])
	x.edits = x.edits[:min(edits, len(x.edits))]
	for _, c := range slices.Backward(x.undo[n:]) {
		if c.old == absent {
			x.fields = x.fields[:c.field]
			continue
		}
		x.fields[c.field].edit = c.old
	}
	if len(x.undo) > n {
		x.undo, x.out = x.undo[:n], nil
	}
}
