package avro

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

var _ codec.Expanding = (*Program)(nil)

var (
	errShort   = errors.New("the payload ends in the middle of it")
	errVarint  = errors.New("is not a valid integer: it is too long")
	errDeep    = fmt.Errorf("nested deeper than %d", codec.MaxDepth)
	errTooMuch = fmt.Errorf("decodes to more than %d MiB", codec.MaxSize>>20)
)

// Decode appends the single value in payload.
func (p *Program) Decode(dst, payload []byte) ([]byte, error) {
	return p.DecodeWithin(dst, payload, codec.MaxSize)
}

// Working returns 0: the result is written while the payload is read.
func (p *Program) Working([]byte) int { return 0 }

// DecodeWithin is Decode with a limit. Names of fields, and items without bytes, can make the document larger than
// the payload.
func (p *Program) DecodeWithin(dst, payload []byte, limit int) ([]byte, error) {
	r := reader{src: payload, dst: dst, most: len(dst) + limit}
	err := r.value(p.root)
	if err == nil && len(r.src) > 0 {
		err = fmt.Errorf("%d bytes are left after the value: it was written by another schema", len(r.src))
	}
	switch {
	case errors.Is(err, codec.ErrLimit) && limit >= codec.MaxSize:
		return dst, fmt.Errorf("avro: %w", errTooMuch)
	case errors.Is(err, codec.ErrLimit):
		return dst, codec.ErrLimit
	case err != nil:
		return dst, fmt.Errorf("avro: %w", err)
	}
	return r.dst, nil
}

// reader reads one payload.
type reader struct {
	src   []byte // unread
	dst   []byte
	most  int // of dst
	depth int
}

func (r *reader) value(n *node) error {
	switch n.kind {
	case null:
		r.dst = append(r.dst, "null"...)
		return nil
	case boolean:
		return r.boolean()
	case integer, long:
		i, err := r.long(n)
		r.dst = strconv.AppendInt(r.dst, i, 10)
		return err
	case float, double:
		return r.float(n)
	case blob, text:
		b, err := r.bytes()
		if err != nil {
			return err
		}
		return r.text(n, b)
	case fixed, uuid, duration:
		b, err := r.take(n.size)
		if err != nil {
			return err
		}
		return r.text(n, b)
	case enum:
		i, err := r.long(n)
		if err == nil && (i < 0 || i >= int64(len(n.symbols))) {
			err = fmt.Errorf("symbol %d is not one of the %d of %s", i, len(n.symbols), n.name)
		}
		if err == nil {
			r.dst = doc.AppendString(r.dst, n.symbols[i])
		}
		return err
	case union:
		i, err := r.long(n)
		if err == nil && (i < 0 || i >= int64(len(n.branches))) {
			err = fmt.Errorf("branch %d is not one of the %d of the union", i, len(n.branches))
		}
		if err != nil {
			return err
		}
		return r.value(n.branches[i])
	case decimal:
		return r.decimal(n)
	case date, timeOfDay, timestamp:
		i, err := r.long(n)
		if err == nil {
			r.dst, err = appendTime(r.dst, n, i)
		}
		return err
	}
	return r.nested(n)
}

// nested reads a value that contains others. If these may take no bytes of the payload, the size of the result bounds
// their number.
func (r *reader) nested(n *node) error {
	if r.depth++; r.depth > codec.MaxDepth {
		return errDeep
	}
	var err error
	switch n.kind {
	case record:
		err = r.record(n)
	case array:
		err = r.items(n, '[', ']')
	default:
		err = r.items(n, '{', '}')
	}
	r.depth--
	return err
}

func (r *reader) record(n *node) error {
	r.dst = append(r.dst, '{')
	for i := range n.fields {
		f := &n.fields[i]
		if i > 0 {
			r.dst = append(r.dst, ',')
		}
		r.dst = append(r.dst, f.key...)
		if err := r.value(f.of); err != nil {
			return codec.Under(f.name, err)
		}
		if len(r.dst) > r.most {
			return codec.ErrLimit
		}
	}
	r.dst = append(r.dst, '}')
	return nil
}

// items reads blocks of values, or of keys and values for a mapping.
func (r *reader) items(n *node, open, end byte) error {
	r.dst = append(r.dst, open)
	for done := 0; ; {
		count, err := r.count()
		if err != nil {
			return err
		}
		if count == 0 {
			r.dst = append(r.dst, end)
			return nil
		}
		for ; count > 0; count-- {
			if done > 0 {
				r.dst = append(r.dst, ',')
			}
			if n.kind == mapping {
				if err := r.key(); err != nil {
					return codec.Under(strconv.Itoa(done), err)
				}
			}
			if err := r.value(n.item); err != nil {
				return codec.Under(strconv.Itoa(done), err)
			}
			if len(r.dst) > r.most {
				return codec.ErrLimit
			}
			done++
		}
	}
}

// count returns the number of values in a block. A negative count is followed by the block's size.
func (r *reader) count() (uint64, error) {
	i, err := r.varint()
	if err != nil || i >= 0 {
		return uint64(i), err // #nosec G115 -- it is not negative
	}
	_, err = r.varint()
	return -uint64(i), err // #nosec G115 -- as a positive number, that of math.MinInt64 included
}

func (r *reader) key() error {
	b, err := r.bytes()
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if !utf8.Valid(b) {
		return errors.New("the key is not valid UTF-8")
	}
	r.dst = append(doc.AppendString(r.dst, b), ':')
	return nil
}

func (r *reader) boolean() error {
	b, err := r.take(1)
	if err == nil && b[0] > 1 {
		err = fmt.Errorf("byte 0x%02x is neither true nor false", b[0])
	}
	if err == nil {
		r.dst = strconv.AppendBool(r.dst, b[0] == 1)
	}
	return err
}

// long reads an integer, and checks that an int fits 32 bits.
func (r *reader) long(n *node) (int64, error) {
	i, err := r.varint()
	narrow := n.kind == integer || n.kind == date || n.kind == timeOfDay && !n.wide
	if err == nil && narrow && i != int64(int32(i)) { // #nosec G115 -- this is the check
		return 0, fmt.Errorf("%d does not fit an int", i)
	}
	return i, err
}

func (r *reader) varint() (int64, error) {
	if len(r.src) > 0 && r.src[0] < 0x80 { // fast path: most are short
		u := r.src[0]
		r.src = r.src[1:]
		return int64(u>>1) ^ -int64(u&1), nil
	}
	i, n := binary.Varint(r.src)
	switch {
	case n == 0:
		return 0, errShort
	case n < 0:
		return 0, errVarint
	}
	r.src = r.src[n:]
	return i, nil
}

func (r *reader) take(n int) ([]byte, error) {
	if n > len(r.src) {
		return nil, errShort
	}
	b := r.src[:n:n]
	r.src = r.src[n:]
	return b, nil
}

func (r *reader) bytes() ([]byte, error) {
	n, err := r.varint()
	switch {
	case err != nil:
		return nil, err
	case n < 0 || n > int64(len(r.src)):
		return nil, fmt.Errorf("claims to be %d bytes long, there are %d: %w", n, len(r.src), errShort)
	}
	return r.take(int(n))
}

func (r *reader) float(n *node) error {
	b, err := r.take(n.bits() / 8)
	if err != nil {
		return err
	}
	if n.kind == float {
		r.dst = codec.AppendFloat(r.dst, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), 32)
		return nil
	}
	r.dst = codec.AppendFloat(r.dst, math.Float64frombits(binary.LittleEndian.Uint64(b)), 64)
	return nil
}

// bits returns the size of a float or double.
func (n *node) bits() int {
	if n.kind == float {
		return 32
	}
	return 64
}

// text writes bytes as text, or as the text that represents them.
func (r *reader) text(n *node, b []byte) error {
	switch n.kind {
	case text:
		was := len(r.dst)
		if r.dst = doc.AppendString(r.dst, b); len(r.dst)-was != len(b)+2 && !utf8.Valid(b) {
			return errors.New("is not valid UTF-8")
		}
	case uuid:
		r.dst = codec.AppendUUID(r.dst, b)
	case duration:
		r.dst = codec.AppendMonths(r.dst, b)
	default:
		r.dst = append(r.dst, '"')
		r.dst = base64.StdEncoding.AppendEncode(r.dst, b)
		r.dst = append(r.dst, '"')
	}
	return nil
}
