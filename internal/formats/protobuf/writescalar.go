package protobuf

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/flowd-io/flowd/internal/formats/codec"
)

// key writes a key of a mapping, which is text in a document.
func (w *writer) key(f *field, name string) error {
	switch {
	case f.kind == protoreflect.StringKind:
		w.dst = protowire.AppendString(w.dst, name)
		return nil
	case f.kind != protoreflect.BoolKind:
		return w.integer(f, []byte(name))
	case name != "true" && name != "false":
		return errors.New("the key is not true or false")
	}
	w.dst = protowire.AppendVarint(w.dst, protowire.EncodeBool(name == "true"))
	return nil
}

// scalar writes a value that is not a message. Numbers may be written as text.
func (w *writer) scalar(f *field, json []byte) error {
	is := json[0]
	number := is == '-' || '0' <= is && is <= '9'
	switch f.kind {
	case protoreflect.BoolKind:
		if is != 't' && is != 'f' {
			break
		}
		w.dst = protowire.AppendVarint(w.dst, protowire.EncodeBool(is == 't'))
		return nil
	case protoreflect.StringKind:
		if is != '"' {
			break
		}
		w.dst = protowire.AppendBytes(w.dst, codec.Text(json))
		return nil
	case protoreflect.BytesKind:
		if is != '"' {
			break
		}
		b, err := fromBase64(codec.Text(json))
		w.dst = protowire.AppendBytes(w.dst, b)
		return err
	case protoreflect.EnumKind:
		return w.enum(f, json)
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		if number || is == '"' {
			return w.float(f, json)
		}
	default:
		if number || is == '"' {
			return w.integer(f, codec.Text(json))
		}
	}
	return unfit(f.kind.String(), json)
}

// fromBase64 decodes both alphabets, with or without padding.
func fromBase64(text []byte) ([]byte, error) {
	encoding := base64.StdEncoding
	if bytes.ContainsAny(text, "-_") {
		encoding = base64.URLEncoding
	}
	if len(text)%4 != 0 {
		encoding = encoding.WithPadding(base64.NoPadding)
	}
	b, err := encoding.AppendDecode(make([]byte, 0, encoding.DecodedLen(len(text))), text)
	if err != nil {
		return nil, fmt.Errorf("bytes are written as text in base64, and this is not: %w", err)
	}
	return b, nil
}

func (w *writer) enum(f *field, json []byte) error {
	switch is := json[0]; {
	case is == 'n' && f.null:
		w.dst = append(w.dst, 0)
		return nil
	case is == '"':
		n, ok := f.enum.numbers[string(codec.Text(json))]
		if !ok {
			return fmt.Errorf("%.40s is not a name of %s", json, f.enum.name)
		}
		w.dst = protowire.AppendVarint(w.dst, uint64(n)) // #nosec G115 -- the sign goes on
		return nil
	case is == '-' || '0' <= is && is <= '9':
		return w.integer(f, json)
	}
	return unfit(f.enum.name, json)
}

// integer writes an integer that is within the kind's bounds.
func (w *writer) integer(f *field, text []byte) error {
	var u uint64
	switch f.kind {
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		n, err := codec.Uint(text)
		if err != nil {
			return err
		}
		if (f.kind == protoreflect.Uint32Kind || f.kind == protoreflect.Fixed32Kind) && n > math.MaxUint32 {
			return fmt.Errorf("%.40s does not fit %s", text, f.kind)
		}
		u = n
	default:
		n, err := codec.Int(text)
		if err != nil {
			return err
		}
		switch f.kind {
		case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind, protoreflect.EnumKind:
			if n != int64(int32(n)) { // #nosec G115 -- this is the check
				return fmt.Errorf("%.40s does not fit 32 bits", text)
			}
		}
		u = uint64(n) // #nosec G115 -- the same bits
		if f.kind == protoreflect.Sint32Kind || f.kind == protoreflect.Sint64Kind {
			u = protowire.EncodeZigZag(n)
		}
	}
	switch f.wire {
	case protowire.Fixed32Type:
		w.dst = binary.LittleEndian.AppendUint32(w.dst, uint32(u)) // #nosec G115 -- checked above
	case protowire.Fixed64Type:
		w.dst = binary.LittleEndian.AppendUint64(w.dst, u)
	default:
		w.dst = protowire.AppendVarint(w.dst, u)
	}
	return nil
}

func (w *writer) float(f *field, json []byte) error {
	bits := 64
	if f.kind == protoreflect.FloatKind {
		bits = 32
	}
	text := codec.Text(json)
	n, ok := codec.NotNumbers[string(text)]
	if !ok {
		var err error
		if json[0] == '"' { // only digits are certainly valid JSON
			if _, err = codec.ParseDigits(string(text)); err != nil {
				return err
			}
		}
		if n, err = codec.Float(text, bits, f.kind.String()); err != nil {
			return err
		}
	}
	if bits == 32 {
		w.dst = binary.LittleEndian.AppendUint32(w.dst, math.Float32bits(float32(n)))
		return nil
	}
	w.dst = binary.LittleEndian.AppendUint64(w.dst, math.Float64bits(n))
	return nil
}
