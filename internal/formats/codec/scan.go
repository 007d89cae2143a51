package codec

import (
	"bytes"
	"unsafe"

	"github.com/flowd-io/flowd/engine/doc"
)

// Text returns the text of a JSON value: the content of a string, otherwise its JSON. It shares memory with the value
// if possible: payloads never change.
func Text(value []byte) []byte {
	if value[0] != '"' {
		return value
	}
	inner := value[1 : len(value)-1 : len(value)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	return []byte(doc.Unquote(value))
}

// text is Text without a copy.
func text(value []byte) string {
	b := Text(value)
	return unsafe.String(unsafe.SliceData(b), len(b))
}
