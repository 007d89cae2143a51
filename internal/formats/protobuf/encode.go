package protobuf

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

// Encode appends the binary form of a document.
func (p *Program) Encode(dst, json []byte) ([]byte, error) {
	w := writers.Get().(*writer)
	w.types, w.dst = p.types, dst
	err := w.message(p.root, json)
	out := w.dst
	w.recycle()
	if err != nil {
		return dst, fmt.Errorf("protobuf: %w", err)
	}
	return out, nil
}

// writer writes one payload.
type writer struct {
	types  *Types
	dst    []byte
	values [][]byte // values of the fields of open messages
}

var writers = sync.Pool{New: func() any { return new(writer) }}

// recycle keeps the writer for another payload, without references to this one.
func (w *writer) recycle() {
	const most = 1 << 10
	if cap(w.values) > most {
		return
	}
	clear(w.values[:cap(w.values)])
	*w = writer{values: w.values[:0]}
	writers.Put(w)
}

// unfit returns the error of a value of the wrong kind.
func unfit(name string, json []byte) error {
	return fmt.Errorf("%s is not %s", codec.Kind(json), name)
}

func (w *writer) message(m *message, json []byte) error {
	if m.special != plain {
		return w.special(m, json)
	}
	return w.fields(m, json, "")
}

// fields writes an object's members by number, except skip. Of equal keys, the last counts. null leaves a field
// unset.
func (w *writer) fields(m *message, json []byte, skip string) error {
	if json[0] != '{' {
		return unfit(m.name, json)
	}
	base := len(w.values)
	for range m.fields {
		w.values = append(w.values, nil)
	}
	for name, of := range doc.Members(json) {
		i, ok := m.index[name]
		switch {
		case skip != "" && name == skip:
		case !ok && !w.types.options.DropUnknown:
			return fmt.Errorf("%s has no field %q (remove it from the document, or set `drop_unknown: true`)", m.name,
				codec.Clip(name))
		case ok && of[0] == 'n' && !m.fields[i].null:
			w.values[base+i] = nil
		case ok:
			w.values[base+i] = of
		}
	}
	for _, i := range m.written {
		f, of := &m.fields[i], w.values[base+i]
		if of == nil {
			if f.required {
				return codec.Under(f.name, fmt.Errorf("is missing, and %s requires it", m.name))
			}
			continue
		}
		if f.oneof > 0 {
			for _, other := range m.oneofs[f.oneof-1] {
				if other != i && w.values[base+other] != nil {
					return codec.Under(f.name, fmt.Errorf("and %s can't both be set: they are in one oneof", m.fields[other].name))
				}
			}
		}
		if err := w.field(f, of); err != nil {
			return codec.Under(f.name, err)
		}
	}
	w.values = w.values[:base]
	return nil
}

func (w *writer) field(f *field, json []byte) error {
	switch {
	case f.mapping:
		return w.mapping(f, json)
	case f.list:
		return w.list(f, json)
	}
	before := len(w.dst)
	w.dst = append(w.dst, f.tag...)
	at := len(w.dst)
	if err := w.value(f, json); err != nil {
		return err
	}
	if f.implicit && len(bytes.Trim(w.dst[at:], "\x00")) == 0 {
		w.dst = w.dst[:before]
	}
	return nil
}

// value writes a value after its tag.
func (w *writer) value(f *field, json []byte) error {
	switch f.kind {
	case protoreflect.MessageKind:
		at := w.open()
		if err := w.message(f.of, json); err != nil {
			return err
		}
		w.shut(at)
		return nil
	case protoreflect.GroupKind:
		if err := w.message(f.of, json); err != nil {
			return err
		}
		w.dst = protowire.AppendTag(w.dst, f.number, protowire.EndGroupType)
		return nil
	}
	return w.scalar(f, json)
}

// open reserves room for a length, which shut fills in. Most lengths are short.
func (w *writer) open() int {
	w.dst = append(w.dst, 0)
	return len(w.dst)
}

func (w *writer) shut(at int) {
	n := len(w.dst) - at
	if more := protowire.SizeVarint(uint64(n)) - 1; more > 0 { // #nosec G115 -- a length
		w.dst = append(w.dst, make([]byte, more)...)
		copy(w.dst[at+more:], w.dst[at:at+n])
	}
	protowire.AppendVarint(w.dst[:at-1], uint64(n)) // #nosec G115 -- a length
}

func (w *writer) list(f *field, json []byte) error {
	if json[0] != '[' {
		return fmt.Errorf("%s is not a list", codec.Kind(json))
	}
	at, start := 0, len(w.dst)
	if f.packed {
		w.dst = append(w.dst, f.tag...)
		at = w.open()
	}
	i := 0
	for item := range doc.Elements(json) {
		if !f.packed {
			w.dst = append(w.dst, f.tag...)
		}
		err := w.value(f, item)
		if item[0] == 'n' && !f.null {
			err = errors.New("a list can't contain null")
		}
		if err != nil {
			return codec.Under(strconv.Itoa(i), err)
		}
		i++
	}
	switch {
	case i == 0:
		w.dst = w.dst[:start]
	case f.packed:
		w.shut(at)
	}
	return nil
}

func (w *writer) mapping(f *field, json []byte) error {
	if json[0] != '{' {
		return unfit("a mapping", json)
	}
	key, of := &f.of.fields[0], &f.of.fields[1]
	for name, item := range doc.Members(json) {
		w.dst = append(w.dst, f.tag...)
		at := w.open()
		w.dst = append(w.dst, key.tag...)
		err := w.key(key, name)
		if item[0] == 'n' && !of.null {
			err = errors.New("a mapping can't contain null")
		}
		if err == nil {
			w.dst = append(w.dst, of.tag...)
			err = w.value(of, item)
		}
		if err != nil {
			return codec.Under(name, err)
		}
		w.shut(at)
	}
	return nil
}
