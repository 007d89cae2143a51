package value

import (
	"unicode/utf8"
	"unsafe"
)

// ViewBytes is the bytes of a text or of bytes, without a copy. The caller does not write to them.
func ViewBytes(v any) []byte {
	if b, ok := v.([]byte); ok {
		return b
	}
	return ViewText(v.(string))
}

// ViewText is the bytes of a text, without a copy. The caller does not write to them.
func ViewText(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }

// TextOrBytes is text if b is valid UTF-8, else b.
func TextOrBytes(b []byte) any {
	if utf8.Valid(b) {
		return string(b)
	}
	return b
}

// StringOrBytes is TextOrBytes of a Go string.
func StringOrBytes(text string) any {
	if utf8.ValidString(text) {
		return text
	}
	return []byte(text)
}

// TextOf is the text or bytes v as a Go string, which may not be UTF-8.
func TextOf(v any) string {
	if b, ok := v.([]byte); ok {
		return string(b)
	}
	return v.(string)
}
