// Package doc is a lazily parsed JSON document: bytes that are checked once,
// searched in place, and changed by splicing. Start at [Doc].
//
// A document is never decoded as a whole unless [Doc.Value] asks for it. The first use
// checks all of it and records where the root object's fields are; reads search there,
// edits are kept on top, and [Doc.Bytes] copies once. What nobody edited keeps its bytes:
// white space, key order, spelling of numbers.
package doc

// MaxDepth is how deep arrays and objects may nest, in documents and in values
// that are encoded.
const MaxDepth = 512

// Doc is one document: a payload, what was found in it, and edits not yet
// spliced. The zero value is an empty payload. One goroutine uses it at a time;
// it may be copied by value after [Doc.Detach].
type Doc struct {
	data  []byte
	arena *Arena
	index *index       // of data, with the edits; nil: not built yet
	err   *SyntaxError // why data is not a document, once that is known
}

// Reset makes d hold data, which must not change afterwards. Edits take their
// memory from a, which may be nil.
func (d *Doc) Reset(data []byte, a *Arena) {
	// One by one, and only what differs: while the collector marks, each pointer
	// written costs a barrier.
	d.data = data
	if d.arena != a {
		d.arena = a
	}
	d.forget()
}

// forget lets go of what was found in the payload.
func (d *Doc) forget() {
	if d.index != nil {
		d.index = nil
	}
	if d.err != nil {
		d.err = nil
	}
}

// Arena is the arena that d uses, or nil.
func (d *Doc) Arena() *Arena { return d.arena }

// Attach gives a detached document an arena.
func (d *Doc) Attach(a *Arena) {
	d.Detach()
	if d.arena != a {
		d.arena = a
	}
}

// Bytes is the payload, with all edits spliced in. It never changes afterwards
// and may be kept. It is never nil: an empty payload is one, and not what is missing.
func (d *Doc) Bytes() []byte {
	if d.index == nil {
		if d.data == nil {
			return []byte{}
		}
		return d.data
	}
	return d.index.bytes(d.arena)
}

// Detach splices the edits in and lets go of the arena and all memory that its
// Reset takes back. A payload that was found to be no document stays so.
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

// Fork is a copy of d that shares nothing with it but its payload. d stays as it is.
func (d *Doc) Fork() Doc { return Doc{data: d.Bytes(), err: d.err} }

// Splice makes the edits part of the payload; the arena stays.
func (d *Doc) Splice() {
	if x := d.index; x != nil && x.edited() {
		d.Reset(x.bytes(d.arena), d.arena)
		x.forget()
	}
}

// Weight is about how many bytes of text d keeps: its payload, and edits that have
// not been spliced into it.
func (d *Doc) Weight() int {
	n := len(d.data)
	if d.index != nil {
		for i := range d.index.edits {
			n += len(d.index.edits[i].raw) + len(d.index.edits[i].key)
		}
	}
	return n
}

// Payload is what d was reset to, or last spliced: without later edits. Other
// goroutines may read it while one uses d.
func (d *Doc) Payload() []byte { return d.data }

// Valid checks the payload: RFC 8259, UTF-8, at most [MaxDepth] deep. The error
// is a *[SyntaxError]. The check is made once.
func (d *Doc) Valid() error {
	_, err := d.scanned()
	return err
}

// Object is nil if the document is an object. The error is a *[SyntaxError], or a *[ValueError]: another document has no
// fields that could be missing.
func (d *Doc) Object() error {
	x, err := d.scanned()
	if err == nil && !x.isObject() {
		err = &ValueError{"", "the document is " + Kind(x.data[x.start:]).String() + ", not an object"}
	}
	return err
}

// Fits is nil if the document may have what p names: a field is in an object, an element in an array or a text. The error
// is a *[SyntaxError] or a *[ValueError]. All fits null, which becomes what is set in it.
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

// Value is the whole document, decoded. The caller does not change it.
func (d *Doc) Value() (any, error) { return d.Get(Path{}) }

// SetValue makes v the whole document, whatever the payload was.
func (d *Doc) SetValue(v any) error { return d.Set(Path{}, v) }

// scanned is the index, built on first use.
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

// Mark is a state of a document that [Doc.Restore] brings back.
type Mark struct {
	doc         Doc
	undo, edits int
}

// Mark notes the state of d, at no cost. The note holds until the arena is reset.
func (d *Doc) Mark() Mark {
	m := Mark{doc: *d}
	if d.index != nil {
		m.undo, m.edits = len(d.index.undo), len(d.index.edits)
	}
	return m
}

// Restore takes back all that was done to d since m was made of it.
func (d *Doc) Restore(m Mark) {
	if x := d.index; x != nil && x != m.doc.index {
		x.forget()
	}
	*d = m.doc
	if d.index != nil {
		d.index.rollback(m.undo, m.edits)
	}
}

// trim is raw without the white space around it.
func trim(raw []byte) []byte {
	raw = raw[space(raw, 0):]
	for len(raw) > 0 && isSpace(raw[len(raw)-1]) {
		raw = raw[:len(raw)-1]
	}
	return raw
}
