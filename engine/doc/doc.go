// Package doc is a lazily parsed JSON document: bytes that are checked once, searched in place, and edited by
// splicing. Start at [Doc].
//
// A document is never decoded as a whole unless [Doc.Value] asks for it. The first use checks all of it and records
// where the fields of the root object are. Reads search there, edits are kept separately, and [Doc.Bytes] copies
// once. Parts without edits keep their bytes: white space, key order, spelling of numbers.
package doc

// MaxDepth is how deep arrays and objects may nest, in documents and in encoded values.
const MaxDepth = 512

// Doc is one document: a payload, its index, and edits that are not spliced yet. The zero value is an empty payload.
// Only one goroutine may use it at a time. It may be copied by value after [Doc.Detach].
type Doc struct {
	data  []byte
	arena *Arena
	index *index       // of data, with edits; nil: not built yet
	err   *SyntaxError // why data is not a document, once known
}

// Reset sets the payload to data, which must not change afterwards. Edits take memory from a, which may be nil.
func (d *Doc) Reset(data []byte, a *Arena) {
	// Writes only fields that differ: while the collector marks, each written pointer costs a barrier.
	d.data = data
	if d.arena != a {
		d.arena = a
	}
	d.forget()
}

// forget drops the index and the error.
func (d *Doc) forget() {
	if d.index != nil {
		d.index = nil
	}
	if d.err != nil {
		d.err = nil
	}
}

// Arena returns the arena that d uses, or nil.
func (d *Doc) Arena() *Arena { return d.arena }

// Attach gives an arena to a detached document.
func (d *Doc) Attach(a *Arena) {
	d.Detach()
	if d.arena != a {
		d.arena = a
	}
}

// Bytes returns the payload with all edits. The result never changes and may be kept. It is never nil, since an empty
// payload is a payload.
func (d *Doc) Bytes() []byte {
	if d.index == nil {
		if d.data == nil {
			return []byte{}
		}
		return d.data
	}
	return d.index.bytes(d.arena)
}

// Detach splices the edits, and releases the arena and all memory that its Reset reclaims. It keeps the result of
// Valid.
func (d *Doc) Detach() {
	if d.index != nil || d.arena != nil {
		d.detach()
	}
}

func (d *Doc) detach() {
	if x := d.index; x != nil {
		d.data = x.bytes(d.arena)
		d.index = nil
		x.forget()
	}
	d.arena = nil
}

// Fork returns a copy of d that shares only the payload with it. d stays unchanged.
func (d *Doc) Fork() Doc { return Doc{data: d.Bytes(), err: d.err} }

// Splice makes the edits part of the payload. The arena stays.
func (d *Doc) Splice() {
	if x := d.index; x != nil && x.edited() {
		d.Reset(x.bytes(d.arena), d.arena)
		x.forget()
	}
}

// Weight returns roughly how many bytes of text d keeps: its payload, and edits that are not spliced yet.
func (d *Doc) Weight() int {
	n := len(d.data)
	if d.index != nil {
		for i := range d.index.edits {
			n += len(d.index.edits[i].raw) + len(d.index.edits[i].key)
		}
	}
	return n
}

// Payload returns the payload of the last Reset or Splice, without later edits. Other goroutines may read it while
// one uses d.
func (d *Doc) Payload() []byte { return d.data }

// Valid checks the payload once: RFC 8259, UTF-8, at most [MaxDepth] deep. The error is a *[SyntaxError].
func (d *Doc) Valid() error {
	_, err := d.scanned()
	return err
}

// Object returns nil if the document is an object, so that a field can be missing from it. The error is a
// *[SyntaxError] or a *[ValueError].
func (d *Doc) Object() error {
	x, err := d.scanned()
	if err == nil && !x.isObject() {
		err = &ValueError{"", "the document is " + Kind(x.data[x.start:]).String() + ", not an object"}
	}
	return err
}

// Fits returns nil if the value at p could exist: fields are in objects, elements in arrays or text. null fits
// everything, since setting a value replaces it. The error is a *[SyntaxError] or a *[ValueError].
func (d *Doc) Fits(p Path) error {
	x, err := d.scanned()
	if err != nil || len(p.parts) == 0 {
		return err
	}
	kind, want := Kind(x.data[x.start:]), Object
	if p.parts[0].elem {
		want = Array
	}
	if kind == want || kind == Null || kind == String && want == Array {
		return nil
	}
	return &ValueError{p.String(), "the document is " + kind.String() + ", not " + want.String()}
}

// Value decodes the whole document. The caller must not change the result.
func (d *Doc) Value() (any, error) { return d.Get(Path{}) }

// SetValue replaces the whole document by v, whatever the payload was.
func (d *Doc) SetValue(v any) error { return d.Set(Path{}, v) }

// scanned returns the index, and builds it on first use.
func (d *Doc) scanned() (*index, error) {
	if d.index != nil {
		return d.index, nil
	}
	if d.err == nil {
		x := d.arena.newIndex()
		if d.err = x.scan(d.data); d.err == nil {
			d.index = x
			return x, nil
		}
		d.arena.dropIndex()
	}
	return nil, d.err
}

// replace makes raw the payload.
func (d *Doc) replace(raw []byte) { d.Reset(raw, d.arena) }

// Mark is a state of a document, for [Doc.Restore].
type Mark struct {
	doc         Doc
	undo, edits int
}

// Mark returns the state of d, at no cost. It is valid until the arena is reset.
func (d *Doc) Mark() Mark {
	m := Mark{doc: *d}
	if d.index != nil {
		m.undo, m.edits = len(d.index.undo), len(d.index.edits)
	}
	return m
}

// Restore undoes all edits since m.
func (d *Doc) Restore(m Mark) {
	if x := d.index; x != nil && x != m.doc.index {
		x.forget()
	}
	*d = m.doc
	if d.index != nil {
		d.index.rollback(m.undo, m.edits)
	}
}

// trim returns raw without the white space around it.
func trim(raw []byte) []byte {
	raw = raw[space(raw, 0):]
	for len(raw) > 0 && isSpace(raw[len(raw)-1]) {
		raw = raw[:len(raw)-1]
	}
	return raw
}
