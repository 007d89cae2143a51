// Package codec turns payloads of other formats into JSON text and back. Start
// at [Codec]; each format is one file, and its struct is both the codec and the
// configuration of its options.
package codec

import (
	"errors"
	"fmt"
)

// Codec reads and writes one format. It keeps no state: one codec serves all
// goroutines at once.
type Codec interface {
	// Decode appends what payload says to dst, as JSON text. The error says why
	// payload is not of the format.
	Decode(dst, payload []byte) ([]byte, error)
	// Encode appends the payload of a value to dst; json is its text, which the
	// caller has checked.
	Encode(dst, json []byte) ([]byte, error)
}

// Binary is a Codec whose decoded side is bytes instead of JSON: base64, hex.
type Binary interface {
	Codec
	Binary()
}

// Expanding is a Codec that can make very much of a small payload.
type Expanding interface {
	Codec
	// DecodeWithin is Decode for a result of up to limit bytes, about. A longer one is
	// ErrLimit, if a higher limit may help.
	DecodeWithin(dst, payload []byte, limit int) ([]byte, error)
	// Working is how much memory decoding a payload takes at most, in addition to the
	// result.
	Working(payload []byte) int
}

// ErrLimit is what DecodeWithin gives for a result over its limit.
var ErrLimit = errors.New("the result is over the limit")

// Limits of what is decoded: a small payload can't claim much memory, or nest
// deeper than a document may.
const (
	MaxDepth = 512
	MaxSize  = 64 << 20
)

var (
	errTooDeep  = fmt.Errorf("nested deeper than %d", MaxDepth)
	errTooLarge = fmt.Errorf("decodes to more than %d MiB", MaxSize>>20)
	errUTF8     = errors.New("is not valid UTF-8 (for other bytes use `encode: base64`)")
)
