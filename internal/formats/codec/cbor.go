package codec

import (
	"errors"
	"fmt"
	"math"
	"strconv"
)

var (
	_ Packed    = (*CBOR)(nil)
	_ Expanding = (*CBOR)(nil)
)

// CBOR reads and writes one data item of CBOR (RFC 8949).
type CBOR struct{}

// Packed marks a codec whose payloads are bytes.
func (c *CBOR) Packed() {}

// Decode decodes the item. Bytes become base64, times RFC 3339, numeric keys text. Large numbers and decimals stay
// exact. Other tags are left out.
func (c *CBOR) Decode(dst, payload []byte) ([]byte, error) {
	return c.DecodeWithin(dst, payload, MaxSize)
}

// Working returns 0: the result is written while the payload is read.
func (c *CBOR) Working([]byte) int { return 0 }

// DecodeWithin is like Decode.
func (c *CBOR) DecodeWithin(dst, payload []byte, limit int) ([]byte, error) {
	r := cborReader{unpacker{src: payload, dst: dst, most: len(dst) + limit}}
	err := r.value()
	return r.unpacked("cbor", dst, limit, err)
}

// The major types, in the upper three bits of an item's first byte.
const (
	cborUint = iota
	cborNegative
	cborBytes
	cborText
	cborList
	cborMap
	cborTag
	cborSimple
)

const cborBreak = 0xff // ends items without a length

type cborReader struct{ unpacker }

// cborHead is the beginning of an item.
type cborHead struct {
	major, info byte
	n           uint64 // the argument
}

// open reports whether the item has no length, but an end marker.
func (h cborHead) open() bool { return h.info == 31 }

func (r *cborReader) head() (h cborHead, err error) {
	if len(r.src) == 0 {
		return h, errShort
	}
	c := r.src[0]
	r.src = r.src[1:]
	h.major, h.info = c>>5, c&0x1f
	switch {
	case h.info < 24:
		h.n = uint64(h.info)
		return h, nil
	case h.info < 28:
		h.n, err = r.number(1 << (h.info - 24))
		return h, err
	case h.open() && h.major >= cborBytes && h.major <= cborMap:
		return h, nil
	}
	return h, fmt.Errorf("byte 0x%x begins no item", c)
}

func (r *cborReader) value() error {
	h, err := r.head()
	if err != nil {
		return err
	}
	switch h.major {
	case cborUint, cborNegative:
		r.integer(h)
		return nil
	case cborBytes:
		return r.bytes(h, r.blob)
	case cborText:
		return r.bytes(h, r.text)
	case cborList:
		return r.list(h)
	case cborMap:
		return r.object(h)
	case cborTag:
		return r.tagged(h.n)
	}
	return r.simple(h)
}

func (r *cborReader) integer(h cborHead) {
	switch {
	case h.major == cborUint:
		r.dst = strconv.AppendUint(r.dst, h.n, 10)
	case h.n == math.MaxUint64:
		r.dst = append(r.dst, "-18446744073709551616"...)
	default:
		r.dst = strconv.AppendUint(append(r.dst, '-'), h.n+1, 10)
	}
}

func (r *cborReader) simple(h cborHead) error {
	switch h.info {
	case 20:
		r.dst = append(r.dst, "false"...)
	case 21:
		r.dst = append(r.dst, "true"...)
	case 22, 23: // null, and undefined, which JSON lacks
		r.dst = append(r.dst, "null"...)
	case 25, 26, 27:
		return r.float(h.float())
	default:
		return fmt.Errorf("the simple value %d has no meaning in JSON", h.n)
	}
	return nil
}

// float returns a float, and the size in bits with which to print it.
func (h cborHead) float() (f float64, bits int) {
	switch h.info {
	case 25:
		return half(uint16(h.n)), 32 // #nosec G115 -- of two bytes
	case 26:
		return float64(math.Float32frombits(uint32(h.n))), 32 // #nosec G115 -- of four bytes
	}
	return math.Float64frombits(h.n), 64
}

// half returns a float of 16 bits.
func half(bits uint16) float64 {
	f := float64(bits & 0x3ff)
	switch exponent := int(bits >> 10 & 0x1f); {
	case exponent == 31 && f == 0:
		f = math.Inf(1)
	case exponent == 31:
		return math.NaN()
	case exponent == 0:
		f = math.Ldexp(f, -24)
	default:
		f = math.Ldexp(f+1024, exponent-25)
	}
	if bits>>15 == 1 {
		return -f
	}
	return f
}

var errChunk = errors.New("a string without a length contains items other than strings of its kind")

// bytes reads a string of either kind and passes it to write.
func (r *cborReader) bytes(h cborHead, write func([]byte) error) error {
	if !h.open() {
		b, err := r.take(h.n)
		if err != nil {
			return err
		}
		return write(b)
	}
	// Chunks are joined in place of the result, and removed once it is there.
	start := len(r.dst)
	for !r.ended() {
		chunk, err := r.head()
		if err == nil && (chunk.major != h.major || chunk.open()) {
			err = errChunk
		}
		if err != nil {
			return err
		}
		b, err := r.take(chunk.n)
		if err != nil {
			return err
		}
		if r.dst = append(r.dst, b...); len(r.dst) > r.most {
			return ErrLimit
		}
	}
	end := len(r.dst)
	if err := write(r.dst[start:end]); err != nil {
		return err
	}
	n := copy(r.dst[start:], r.dst[end:])
	r.dst = r.dst[:start+n]
	return nil
}

// ended reports whether an item without a length ends here, and skips the end.
func (r *cborReader) ended() bool {
	if len(r.src) == 0 || r.src[0] != cborBreak {
		return false
	}
	r.src = r.src[1:]
	return true
}

// more reports whether an item follows.
func (r *cborReader) more(h cborHead, been uint64) bool {
	if h.open() {
		return !r.ended()
	}
	return been < h.n
}

func (r *cborReader) list(h cborHead) error {
	if err := r.enter('['); err != nil {
		return err
	}
	for i := uint64(0); r.more(h, i); i++ { // each takes at least a byte, so the loop ends with the payload
		if i > 0 {
			r.dst = append(r.dst, ',')
		}
		err := r.value()
		if err == nil {
			err = r.bounded()
		}
		if err != nil {
			return Under(strconv.FormatUint(i, 10), err)
		}
	}
	r.leave(']')
	return nil
}

func (r *cborReader) object(h cborHead) error {
	if err := r.enter('{'); err != nil {
		return err
	}
	for i := uint64(0); r.more(h, i); i++ {
		if i > 0 {
			r.dst = append(r.dst, ',')
		}
		from := len(r.dst)
		err := r.value()
		if err == nil {
			err = r.key(from)
		}
		if err != nil {
			return Under("key", err)
		}
		to := len(r.dst) - 1
		if err = r.value(); err == nil {
			err = r.bounded()
		}
		if err != nil {
			return r.under(from, to, err)
		}
	}
	r.leave('}')
	return nil
}
