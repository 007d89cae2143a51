package doc

// splice returns data with the edits applied.
//
// The rest of data is copied in runs. A removed field goes with the comma before it, or with the one after it if no
// field is left before it.
func (x *index) splice(a *Arena) []byte {
	size := len(x.data)
	for i := range x.edits {
		size += len(x.edits[i].raw) + len(x.edits[i].key) + len(`,"":`)
	}
	w := splicer{index: x, out: a.spare(size)}
	for i := range w.own {
		switch f := &w.fields[i]; {
		case f.edit == removed:
			w.skip(i)
		case f.edit > 0:
			w.change(f)
			w.kept++
		default:
			w.kept++
		}
	}
	if w.kept > 0 {
		w.copyTo(int(w.fields[w.own-1].valEnd))
	} else {
		// Nothing between the braces is kept, not even white space.
		w.copyTo(w.start + 1)
		w.out, w.pos = w.out[:w.start+1], w.end-1
	}
	for i := w.own; i < len(w.fields); i++ {
		if w.fields[i].edit != removed {
			w.add(&w.edits[w.fields[i].edit-1])
		}
	}
	w.copyTo(len(w.data))
	return a.keep(w.out)
}

type splicer struct {
	*index
	out  []byte
	pos  int // data before it has been copied or removed
	kept int // fields that stay or were added
}

// copyTo copies data up to end.
func (w *splicer) copyTo(end int) {
	if end > w.pos {
		w.out = append(w.out, w.data[w.pos:end]...)
		w.pos = end
	}
}

// skip skips field i, which is removed.
func (w *splicer) skip(i int) {
	switch {
	case w.kept > 0:
		w.copyTo(int(w.fields[i-1].valEnd))
		w.pos = int(w.fields[i].valEnd)
	case i+1 < w.own:
		w.copyTo(int(w.fields[0].key) - 1)
		w.pos = int(w.fields[i+1].key) - 1
	}
}

// change writes a field with another value or name.
func (w *splicer) change(f *field) {
	e := &w.edits[f.edit-1]
	if e.keyed {
		w.copyTo(int(f.key) - 1)
		w.out = AppendString(w.out, e.key)
		w.pos = int(f.keyEnd) + 1
	}
	w.copyTo(int(f.val))
	w.out = append(w.out, e.raw...)
	w.pos = int(f.valEnd)
}

// add appends a field.
func (w *splicer) add(e *edit) {
	if w.kept++; w.kept > 1 {
		w.out = append(w.out, ',')
	}
	w.out = append(AppendString(w.out, e.key), ':')
	w.out = append(w.out, e.raw...)
}
