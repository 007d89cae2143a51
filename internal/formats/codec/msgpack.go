package codec

import (
	"fmt"
	"math"
	"strconv"
)

var (
	_ Packed    = (*MsgPack)(nil)
	_ Expanding = (*MsgPack)(nil)
)

// MsgPack reads and writes one value of MessagePack.
type MsgPack struct{}

// Packed marks a codec whose payloads are bytes.
func (c *MsgPack) Packed() {}

// Decode decodes the value. Bytes become base64, timestamps RFC 3339, other extensions objects of their type and
// data, and numeric keys text.
func (c *MsgPack) Decode(dst, payload []byte) ([]byte, error) {
	return c.DecodeWithin(dst, payload, MaxSize)
}

// Working returns 0: the result is written while the payload is read.
func (c *MsgPack) Working([]byte) int { return 0 }

// DecodeWithin is like Decode.
func (c *MsgPack) DecodeWithin(dst, payload []byte, limit int) ([]byte, error) {
	r := msgpackReader{unpacker{src: payload, dst: dst, most: len(dst) + limit}}
	err := r.value()
	return r.unpacked("msgpack", dst, limit, err)
}

type msgpackReader struct{ unpacker }

func (r *msgpackReader) value() error {
	if len(r.src) == 0 {
		return errShort
	}
	c := r.src[0]
	r.src = r.src[1:]
	switch {
	case c < 0x80:
		r.dst = strconv.AppendUint(r.dst, uint64(c), 10)
		return nil
	case c < 0x90:
		return r.object(uint64(c & 0xf))
	case c < 0xa0:
		return r.list(uint64(c & 0xf))
	case c < 0xc0:
		return r.string(uint64(c & 0x1f))
	case c >= 0xe0:
		r.dst = strconv.AppendInt(r.dst, int64(int8(c)), 10) // #nosec G115 -- two's complement
		return nil
	}
	return r.typed(c)
}

// typed reads a value after its type byte.
func (r *msgpackReader) typed(c byte) error {
	switch c {
	case 0xc0:
		r.dst = append(r.dst, "null"...)
		return nil
	case 0xc1:
		return fmt.Errorf("byte 0x%x begins no value", c)
	case 0xc2:
		r.dst = append(r.dst, "false"...)
		return nil
	case 0xc3:
		r.dst = append(r.dst, "true"...)
		return nil
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		return r.extension(1 << (c - 0xd4))
	}
	n, err := r.number(msgpackSize(c))
	if err != nil {
		return err
	}
	switch c {
	case 0xc4, 0xc5, 0xc6:
		b, err := r.take(n)
		if err != nil {
			return err
		}
		return r.blob(b)
	case 0xc7, 0xc8, 0xc9:
		return r.extension(n)
	case 0xca:
		return r.float(float64(math.Float32frombits(uint32(n))), 32) // #nosec G115 -- of four bytes
	case 0xcb:
		return r.float(math.Float64frombits(n), 64)
	case 0xcc, 0xcd, 0xce, 0xcf:
		r.dst = strconv.AppendUint(r.dst, n, 10)
		return nil
	case 0xd9, 0xda, 0xdb:
		return r.string(n)
	case 0xdc, 0xdd:
		return r.list(n)
	case 0xde, 0xdf:
		return r.object(n)
	}
	unused := 64 - 8<<(c-0xd0)                                     // bits; the type is 0xd0 to 0xd3
	r.dst = strconv.AppendInt(r.dst, int64(n<<unused)>>unused, 10) // #nosec G115 -- two's complement
	return nil
}

// msgpackSize returns how many bytes of a number follow a type byte.
func msgpackSize(c byte) int {
	switch {
	case c <= 0xc6:
		return 1 << (c - 0xc4)
	case c <= 0xc9:
		return 1 << (c - 0xc7)
	case c <= 0xcb:
		return 4 << (c - 0xca)
	case c <= 0xcf:
		return 1 << (c - 0xcc)
	case c <= 0xd3:
		return 1 << (c - 0xd0)
	case c <= 0xdb:
		return 1 << (c - 0xd9)
	case c <= 0xdd:
		return 2 << (c - 0xdc)
	}
	return 2 << (c - 0xde)
}

func (r *msgpackReader) string(n uint64) error {
	b, err := r.take(n)
	if err != nil {
		return err
	}
	return r.text(b)
}

func (r *msgpackReader) list(n uint64) error {
	if err := r.enter('['); err != nil {
		return err
	}
	for i := range n { // each takes at least a byte, so the loop ends with the payload
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

func (r *msgpackReader) object(n uint64) error {
	if err := r.enter('{'); err != nil {
		return err
	}
	for i := range n {
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

// extension reads a timestamp, or opaque data.
func (r *msgpackReader) extension(n uint64) error {
	kind, err := r.number(1)
	if err != nil {
		return err
	}
	if kind == 0xff {
		return r.timestamp(n)
	}
	data, err := r.take(n)
	if err != nil {
		return err
	}
	if err := r.enter('{'); err != nil {
		return err
	}
	r.dst = append(r.dst, `"type":`...)
	r.dst = strconv.AppendInt(r.dst, int64(int8(kind)), 10) // #nosec G115 -- two's complement
	r.dst = append(r.dst, `,"data":`...)
	if err := r.blob(data); err != nil {
		return err
	}
	r.leave('}')
	return nil
}

func (r *msgpackReader) timestamp(size uint64) error {
	var nanos, seconds uint64
	var err error
	switch size {
	case 4:
		seconds, err = r.number(4)
	case 8:
		seconds, err = r.number(8)
		nanos, seconds = seconds>>34, seconds&(1<<34-1)
	case 12:
		if nanos, err = r.number(4); err == nil {
			seconds, err = r.number(8)
		}
	default:
		err = fmt.Errorf("a timestamp has %d bytes, not 4, 8 or 12", size)
	}
	switch {
	case err != nil:
		return err
	case nanos >= 1e9:
		return errNanos
	}
	return r.instant(int64(seconds), nanos) // #nosec G115 -- two's complement
}
