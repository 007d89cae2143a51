package protobuf

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/flowd-io/flowd/internal/formats/codec"
)

var _ codec.Expanding = (*Program)(nil)

var (
	errShort   = errors.New("the payload ends in the middle of it")
	errDeep    = fmt.Errorf("nested deeper than %d", codec.MaxDepth)
	errTooMuch = fmt.Errorf("decodes to more than %d MiB", codec.MaxSize>>20)
)

// Decode appends the message in payload.
func (p *Program) Decode(dst, payload []byte) ([]byte, error) {
	return p.DecodeWithin(dst, payload, codec.MaxSize)
}

// Working returns 0: the index of fields counts as part of the result.
func (p *Program) Working([]byte) int { return 0 }

// DecodeWithin is Decode with a limit. Names of fields, and defaults, can make the document much larger than the
// payload.
func (p *Program) DecodeWithin(dst, payload []byte, limit int) ([]byte, error) {
	if len(payload) > math.MaxInt32 {
		return dst, fmt.Errorf("protobuf: the payload has %d bytes, more than a message can have", len(payload))
	}
	r := readers.Get().(*reader)
	out, err := r.read(p, dst, payload, limit)
	r.recycle()
	switch {
	case errors.Is(err, codec.ErrLimit) && limit >= codec.MaxSize:
		return dst, fmt.Errorf("protobuf: %w", errTooMuch)
	case errors.Is(err, codec.ErrLimit):
		return dst, codec.ErrLimit
	case err != nil:
		return dst, fmt.Errorf("protobuf: %w", err)
	}
	return out, nil
}

// reader reads one payload. Fields may be in any order, and a message may come in pieces. So it first finds the
// fields, and then reads them in the order of the schema.
type reader struct {
	types *Types
	src   []byte
	dst   []byte
	most  int // of dst and the index
	depth int

	spans []span // pieces of open messages
	slots []slot // of their fields
	runs  []run
}

var readers = sync.Pool{New: func() any { return new(reader) }}

func (r *reader) read(p *Program, dst, payload []byte, limit int) ([]byte, error) {
	r.types, r.src, r.dst, r.most, r.depth = p.types, payload, dst, len(dst)+limit, 0
	r.spans = append(r.spans[:0], span{0, int32(len(payload))}) // #nosec G115 -- checked by the caller
	err := r.message(p.root, 0)
	return r.dst, err
}

// recycle keeps the reader for another payload, without large buffers.
func (r *reader) recycle() {
	const most = 1 << 10
	if cap(r.spans) > most || cap(r.slots) > most || cap(r.runs) > most {
		return
	}
	*r = reader{spans: r.spans[:0], slots: r.slots[:0], runs: r.runs[:0]}
	readers.Put(r)
}

// span is a part of the payload.
type span struct{ start, end int32 }

// run is a sequence of consecutive occurrences of a field, with their tags.
type run struct {
	span
	next int32 // index plus one; 0: the last run
}

// slot holds the runs of a field, as indexes plus one; 0: none. The slot of a oneof holds the field.
type slot struct{ first, last int32 }

const kept = 12 // bytes per run, and roughly per slot and span

func (r *reader) bounded() error {
	if len(r.dst)+kept*(len(r.runs)+len(r.slots)+len(r.spans)) > r.most {
		return codec.ErrLimit
	}
	return nil
}

// failed returns why the wire format is invalid.
func failed(n int) error {
	err := protowire.ParseError(n)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errShort
	}
	return errors.New(reason(err))
}

// scan finds the fields of the message whose pieces are the spans from index from on. The result is at the end of
// r.slots, until r.drop removes it.
func (r *reader) scan(m *message, from int) (found, error) {
	f := found{m, len(r.slots), len(r.runs), from}
	for range len(m.fields) + len(m.oneofs) {
		r.slots = append(r.slots, slot{})
	}
	for _, s := range r.spans[from:] {
		for at := s.start; at < s.end; {
			number, typ, n := protowire.ConsumeTag(r.src[at:s.end])
			if n < 0 {
				return f, failed(n)
			}
			size := protowire.ConsumeFieldValue(number, typ, r.src[at+int32(n):s.end]) // #nosec G115 -- lengths of a payload
			if i := m.find(number); i >= 0 && size < 0 {
				return f, codec.Under(m.fields[i].name, failed(size))
			}
			if size < 0 {
				return f, codec.Under(fmt.Sprintf("field number %d", number), failed(size))
			}
			end := at + int32(n+size) // #nosec G115 -- lengths of a payload
			if i := m.find(number); i >= 0 && m.fields[i].takes(typ) {
				r.note(f, i, span{at, end})
			}
			at = end
		}
	}
	if m.needs {
		for i := range m.fields {
			if m.fields[i].required && r.slots[f.slots+i].first == 0 {
				return f, codec.Under(m.fields[i].name, fmt.Errorf("is missing, and %s requires it", m.name))
			}
		}
	}
	return f, nil
}

// found are the fields of a message.
type found struct {
	*message
	slots, runs, spans int // where they begin
}

// drop removes the fields of a message.
func (r *reader) drop(f found) {
	r.slots, r.runs, r.spans = r.slots[:f.slots], r.runs[:f.runs], r.spans[:f.spans]
}

// takes reports whether a field may have this wire type. Otherwise it counts as unknown.
func (f *field) takes(typ protowire.Type) bool {
	return typ == f.wire || typ == protowire.BytesType && f.list && f.packable
}

// note records an occurrence. Lists and messages, which are merged, keep all occurrences.
func (r *reader) note(f found, i int, s span) {
	field := &f.fields[i]
	if field.oneof > 0 {
		chosen := &r.slots[f.slots+len(f.fields)+field.oneof-1]
		if was := chosen.first; was != 0 && int(was) != i+1 {
			r.slots[f.slots+int(was)-1] = slot{}
		}
		chosen.first = int32(i + 1) // #nosec G115 -- a number of fields
	}
	at := &r.slots[f.slots+i]
	if at.last > 0 {
		switch last := &r.runs[at.last-1]; {
		case !field.list && field.of == nil:
			last.span = s
			return
		case last.end == s.start:
			last.end = s.end
			return
		}
	}
	r.runs = append(r.runs, run{span: s})
	n := int32(len(r.runs)) // #nosec G115 -- fewer than bytes of the payload
	if at.last > 0 {
		r.runs[at.last-1].next = n
	} else {
		at.first = n
	}
	at.last = n
}

// next returns the value at the start of a run, and its type. s becomes the rest of the run.
func (r *reader) next(s *span) (typ protowire.Type, value span) {
	number, typ, n := protowire.ConsumeTag(r.src[s.start:s.end])
	s.start += int32(n) // #nosec G115 -- lengths of a payload
	b := r.src[s.start:s.end]
	size := protowire.ConsumeFieldValue(number, typ, b)
	value = span{s.start, s.start + int32(size)} // #nosec G115 -- lengths of a payload
	s.start = value.end
	switch typ {
	case protowire.BytesType:
		_, n := protowire.ConsumeVarint(b)
		value.start += int32(n) // #nosec G115 -- lengths of a payload
	case protowire.StartGroupType:
		body, _ := protowire.ConsumeGroup(number, b)
		value.end = value.start + int32(len(body)) // #nosec G115 -- lengths of a payload
	}
	return typ, value
}

// message reads the message whose pieces are the spans from index from on.
func (r *reader) message(m *message, from int) error {
	f, err := r.scan(m, from)
	if err != nil {
		return err
	}
	if m.special != plain && m.special != empty {
		err = r.special(f)
	} else if err = r.enter('{'); err == nil {
		err = r.fields(f)
		r.leave('}')
	}
	r.drop(f)
	return err
}

func (r *reader) enter(open byte) error {
	if r.depth++; r.depth > codec.MaxDepth {
		return errDeep
	}
	r.dst = append(r.dst, open)
	return nil
}

func (r *reader) leave(end byte) {
	r.depth--
	r.dst = append(r.dst, end)
}

// comma separates members and items.
func (r *reader) comma() {
	if last := r.dst[len(r.dst)-1]; last != '{' && last != '[' {
		r.dst = append(r.dst, ',')
	}
}

// fields writes the members of an object.
func (r *reader) fields(f found) error {
	for i := range f.message.fields {
		field := &f.message.fields[i]
		at := r.slots[f.slots+i]
		if at.first == 0 && (field.unset == nil || !r.types.options.Defaults) {
			continue
		}
		r.comma()
		r.dst = append(r.dst, field.key...)
		if err := r.field(field, at); err != nil {
			return codec.Under(field.name, err)
		}
		if err := r.bounded(); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) field(f *field, at slot) error {
	switch {
	case at.first == 0 && f.list && r.depth == codec.MaxDepth:
		return errDeep
	case at.first == 0:
		r.dst = append(r.dst, f.unset...)
		return nil
	case f.mapping:
		return r.mapping(f, at)
	case f.list:
		return r.items(f, at)
	case f.of != nil:
		from := len(r.spans)
		for n := at.first; n > 0; n = r.runs[n-1].next {
			for s := r.runs[n-1].span; s.start < s.end; {
				_, piece := r.next(&s)
				r.spans = append(r.spans, piece)
			}
		}
		return r.message(f.of, from)
	}
	s := r.runs[at.first-1].span
	_, value := r.next(&s)
	_, err := r.scalar(f, value)
	return err
}
