package inside

import "github.com/flowd-io/flowd/engine/doc"

// Found is a message as something found it: its payload and metadata, of type M.
type Found[M any] struct {
	Body []byte
	Meta M
}

// Mark is Found without a copy. It holds until the arena of the document is reset.
type Mark[M any] struct {
	doc  doc.Mark
	meta M
}

// MarkOf marks a message.
func MarkOf[M any](d *doc.Doc, meta M) Mark[M] { return Mark[M]{d.Mark(), meta} }

// Restore makes the message what it was.
func (k *Mark[M]) Restore(d *doc.Doc, meta *M) {
	d.Restore(k.doc)
	*meta = k.meta
}

// Kept makes the mark hold for good; the message goes on as it is.
func (k *Mark[M]) Kept(d *doc.Doc) *Found[M] {
	now := d.Bytes()
	d.Restore(k.doc)
	found := &Found[M]{d.Bytes(), k.meta}
	d.Reset(now, nil)
	return found
}
