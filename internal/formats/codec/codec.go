// Package codec converts payloads of other formats to JSON text and back. Start at [Codec]. Each format has its own
// file, and its struct is both the codec and its configuration.
package codec

import (
	"errors"
	"fmt"
)

// Codec reads and writes one format. It is stateless and safe for concurrent use.
type Codec interface {
	// Decode appends the content of payload to dst, as JSON text. The error says why payload is not valid.
	Decode(dst, payload []byte) ([]byte, error)
	// Encode appends the payload of a value to dst. json is its text, which the caller has checked.
	Encode(dst, json []byte) ([]byte, error)
}

// Binary is a Codec whose decoded side is bytes instead of JSON: base64, hex.
type Binary interface {
	Codec
	Binary()
}

// Expanding is a Codec that can produce a large result from a small payload.
type Expanding interface {
	Codec
	// DecodeWithin is Decode for a result of about limit bytes at most. It returns ErrLimit for a longer one if a
	// higher limit may help.
	DecodeWithin(dst, payload []byte, limit int) ([]byte, error)
	// Working returns the maximum memory that decoding a payload takes besides the result.
	Working(payload []byte) int
}

// ErrLimit is the error of DecodeWithin for a result over its limit.
var ErrLimit = errors.New("the result is over the limit")

// Limits of decoded data: a small payload can't claim much memory, or nest deeper than a document may.
const (
	MaxDepth = 512
	MaxSize  = 64 << 20
)

var (
	errTooDeep  = fmt.Errorf("nested deeper than %d", MaxDepth)
	errTooLarge = fmt.Errorf("decodes to more than %d MiB", MaxSize>>20)
	errUTF8     = errors.New("is not valid UTF-8 (for other bytes use `encode: base64`)")
)
