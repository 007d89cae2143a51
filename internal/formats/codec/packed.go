package codec

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/doc"
)

// Packed is a Codec whose payload is bytes, not text: a field contains it as base64.
type Packed interface {
	Codec
	Packed()
}

var (
	errShort    = errors.New("the payload ends in the middle of it")
	errDeep     = fmt.Errorf("nested deeper than %d", MaxDepth)
	errNotText  = errors.New("text is not valid UTF-8")
	errInstant  = errors.New("a timestamp is outside of the years 1 to 9999")
	errNanos    = errors.New("a timestamp has a billion nanoseconds or more")
	errStringed = errors.New("a key is neither text nor a number")
)

// unpacker writes JSON text while it reads one payload, without a tree in between.
type unpacker struct {
	src   []byte // unread
	dst   []byte
	most  int // of dst
	depth int
	radix radix
}

// radix is the encoding of bytes as text.
type radix uint8

const (
	inBase64 radix = iota
	inBase64URL
	inHex
)

// unpacked returns the result of a decoder that has read a payload into u, or its error.
func (u *unpacker) unpacked(format string, dst []byte, limit int, err error) ([]byte, error) {
	if err == nil {
		err = u.bounded()
	}
	switch {
	case err == nil && len(u.src) > 0:
		return dst, fmt.Errorf("%s: %d bytes are left after the value", format, len(u.src))
	case errors.Is(err, ErrLimit) && limit >= MaxSize:
		return dst, fmt.Errorf("%s: %w", format, errTooLarge)
	case errors.Is(err, ErrLimit):
		return dst, ErrLimit
	case err != nil:
		return dst, fmt.Errorf("%s: %w", format, err)
	}
	return u.dst, nil
}

// next returns the next n bytes.
func (u *unpacker) take(n uint64) ([]byte, error) {
	if n > uint64(len(u.src)) {
		return nil, errShort
	}
	b := u.src[:n]
	u.src = u.src[n:]
	return b, nil
}

// number reads a big-endian number of 1, 2, 4 or 8 bytes.
func (u *unpacker) number(size int) (n uint64, err error) {
	if size > len(u.src) {
		return 0, errShort
	}
	for _, c := range u.src[:size] {
		n = n<<8 | uint64(c)
	}
	u.src = u.src[size:]
	return n, nil
}

func (u *unpacker) bounded() error {
	if len(u.dst) > u.most {
		return ErrLimit
	}
	return nil
}

func (u *unpacker) enter(open byte) error {
	if u.depth++; u.depth > MaxDepth {
		return errDeep
	}
	u.dst = append(u.dst, open)
	return nil
}

func (u *unpacker) leave(end byte) {
	u.depth--
	u.dst = append(u.dst, end)
}

func (u *unpacker) text(b []byte) error {
	if len(u.dst)+len(b) > u.most {
		return ErrLimit
	}
	if !utf8.Valid(b) {
		return errNotText
	}
	u.dst = doc.AppendString(u.dst, b)
	return nil
}

func (u *unpacker) blob(b []byte) error {
	if len(u.dst)+len(b) > u.most {
		return ErrLimit
	}
	u.dst = append(u.dst, '"')
	switch u.radix {
	case inBase64:
		u.dst = base64.StdEncoding.AppendEncode(u.dst, b)
	case inBase64URL:
		u.dst = base64.RawURLEncoding.AppendEncode(u.dst, b)
	case inHex:
		u.dst = hex.AppendEncode(u.dst, b)
	}
	u.dst = append(u.dst, '"')
	return nil
}

func (u *unpacker) float(f float64, bits int) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Errorf("%s is not a JSON number", strconv.FormatFloat(f, 'g', -1, 64))
	}
	u.dst = AppendFloat(u.dst, f, bits)
	return nil
}

// instant writes a time in RFC 3339. nanos is below a billion.
func (u *unpacker) instant(seconds int64, nanos uint64) error {
	const first, last = -62_135_596_800, 253_402_300_799
	if seconds < first || seconds > last {
		return errInstant
	}
	at := time.Unix(seconds, int64(nanos)).UTC() // #nosec G115 -- below a billion
	u.dst = append(u.dst, '"')
	u.dst = at.AppendFormat(u.dst, time.RFC3339Nano)
	u.dst = append(u.dst, '"')
	return nil
}

// key turns the key written at from into text.
func (u *unpacker) key(from int) error {
	switch u.dst[from] {
	case '"':
	case '{', '[':
		return errStringed
	default:
		u.dst = append(u.dst, 0, '"')
		copy(u.dst[from+1:], u.dst[from:len(u.dst)-2])
		u.dst[from] = '"'
	}
	u.dst = append(u.dst, ':')
	return nil
}

// under adds the key at from in dst to an error of its member.
func (u *unpacker) under(from, to int, err error) error {
	return Under(string(Text(u.dst[from:to])), err)
}
