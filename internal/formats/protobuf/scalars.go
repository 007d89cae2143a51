package protobuf

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

// scalar reads the value at the start of a span, and returns its length.
func (r *reader) scalar(f *field, s span) (int, error) {
	b := r.src[s.start:s.end]
	switch f.wire {
	case protowire.BytesType:
		return len(b), r.text(f, b)
	case protowire.Fixed32Type:
		if len(b) < 4 {
			return 0, errShort
		}
		r.fixed(f, uint64(binary.LittleEndian.Uint32(b)))
		return 4, nil
	case protowire.Fixed64Type:
		if len(b) < 8 {
			return 0, errShort
		}
		r.fixed(f, binary.LittleEndian.Uint64(b))
		return 8, nil
	}
	u, n := protowire.ConsumeVarint(b)
	if n < 0 {
		return 0, failed(n)
	}
	r.varint(f, u)
	return n, nil
}

// varint writes the value of a number of variable length. Bits beyond the type are cut off, as all readers do.
func (r *reader) varint(f *field, u uint64) {
	switch f.kind {
	case protoreflect.BoolKind:
		r.dst = strconv.AppendBool(r.dst, u != 0)
	case protoreflect.EnumKind:
		r.dst = f.enum.append(r.dst, int32(u)) // #nosec G115 -- cut off
	case protoreflect.Int32Kind:
		r.dst = strconv.AppendInt(r.dst, int64(int32(u)), 10) // #nosec G115 -- cut off
	case protoreflect.Sint32Kind:
		r.dst = strconv.AppendInt(r.dst, int64(int32(protowire.DecodeZigZag(u&math.MaxUint32))), 10) // #nosec G115 -- cut off
	case protoreflect.Uint32Kind:
		r.dst = strconv.AppendUint(r.dst, u&math.MaxUint32, 10)
	case protoreflect.Int64Kind:
		r.dst = strconv.AppendInt(r.dst, int64(u), 10) // #nosec G115 -- the same bits
	case protoreflect.Sint64Kind:
		r.dst = strconv.AppendInt(r.dst, protowire.DecodeZigZag(u), 10)
	default:
		r.dst = strconv.AppendUint(r.dst, u, 10)
	}
}

func (r *reader) fixed(f *field, u uint64) {
	switch f.kind {
	case protoreflect.Sfixed32Kind:
		r.dst = strconv.AppendInt(r.dst, int64(int32(u)), 10) // #nosec G115 -- the same bits
	case protoreflect.Sfixed64Kind:
		r.dst = strconv.AppendInt(r.dst, int64(u), 10) // #nosec G115 -- the same bits
	case protoreflect.FloatKind:
		r.dst = codec.AppendFloat(r.dst, float64(math.Float32frombits(uint32(u))), 32) // #nosec G115 -- the same bits
	case protoreflect.DoubleKind:
		r.dst = codec.AppendFloat(r.dst, math.Float64frombits(u), 64)
	default:
		r.dst = strconv.AppendUint(r.dst, u, 10)
	}
}

func (r *reader) text(f *field, b []byte) error {
	if f.kind == protoreflect.StringKind {
		if !utf8.Valid(b) {
			return errors.New("is not valid UTF-8")
		}
		r.dst = doc.AppendString(r.dst, b)
		return nil
	}
	r.dst = append(r.dst, '"')
	r.dst = base64.StdEncoding.AppendEncode(r.dst, b)
	r.dst = append(r.dst, '"')
	return nil
}

// append appends the name of a number, or the number itself.
func (e *enum) append(dst []byte, n int32) []byte {
	if name := e.names[n]; name != nil {
		return append(dst, name...)
	}
	return strconv.AppendInt(dst, int64(n), 10)
}

// number returns the value of a singular integer field, or 0.
func (r *reader) number(f found, i int) int64 {
	at := r.slots[f.slots+i]
	if at.first == 0 {
		return 0
	}
	s := r.runs[at.first-1].span
	_, value := r.next(&s)
	u, _ := protowire.ConsumeVarint(r.src[value.start:value.end])
	return int64(u) // #nosec G115 -- the same bits
}

// bytes returns the value of a singular text or bytes field.
func (r *reader) bytes(f found, i int) (span, error) {
	at := r.slots[f.slots+i]
	if at.first == 0 {
		return span{}, nil
	}
	s := r.runs[at.first-1].span
	_, value := r.next(&s)
	if f.fields[i].kind == protoreflect.StringKind && !utf8.Valid(r.src[value.start:value.end]) {
		return span{}, codec.Under(f.fields[i].name, errors.New("is not valid UTF-8"))
	}
	return value, nil
}
