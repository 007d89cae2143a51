package pgoutput

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

// Shape is how the values of a type become JSON. The zero Shape makes them text.
type Shape struct {
	form   form
	of     *Shape // of the elements of a list; nil: not a list
	delims byte   // between them
}

type form uint8

const (
	asText form = iota
	asBool
	asFloat32
	asNumber // NaN and Infinity are text
	asBytes
	asJSON
	asTimestamp
	asZoned
)

// builtin are the shapes of PostgreSQL's own types that are not text, by their numbers, which never change.
var builtin = map[uint32]Shape{
	16: {form: asBool}, 17: {form: asBytes},
	20: {form: asNumber}, 21: {form: asNumber}, 23: {form: asNumber}, 26: {form: asNumber}, 28: {form: asNumber},
	700: {form: asFloat32}, 701: {form: asNumber}, 1700: {form: asNumber},
	114: {form: asJSON}, 3802: {form: asJSON}, 1114: {form: asTimestamp}, 1184: {form: asZoned},
}

// ShapeOf is the shape of a base type of PostgreSQL's own.
func ShapeOf(id uint32) Shape { return builtin[id] }

// List is the shape of lists of s, whose elements stand between delimiters; it is usually a comma.
func (s Shape) List(delimiter byte) Shape { return Shape{of: &s, delims: delimiter} }

// Append appends a value as JSON: numbers as exact as they are, json as it is, lists as lists, bytea in base64, times as
// of RFC 3339, all else as text. What does not look as its type should is text, too. It expects that the server writes
// bytea in hexadecimal digits, times in ISO style, and UTC.
func (s Shape) Append(dst, text []byte) []byte {
	if s.of != nil {
		if all, ok := appendList(dst, text, s); ok {
			return all
		}
		return doc.AppendString(dst, text)
	}
	switch s.form {
	case asBool:
		switch string(text) {
		case "t":
			return append(dst, "true"...)
		case "f":
			return append(dst, "false"...)
		}
	case asFloat32:
		return codec.AppendFloat32(dst, text)
	case asNumber:
		if number(text) {
			return append(dst, text...)
		}
	case asBytes:
		return appendBytes(dst, text)
	case asJSON:
		return appendJSON(dst, text)
	case asTimestamp, asZoned:
		return appendTime(dst, text, s.form == asZoned)
	}
	return doc.AppendString(dst, text)
}

// number reports whether text is a number of JSON.
func number(text []byte) bool {
	i := 0
	digits := func() bool {
		from := i
		for i < len(text) && text[i] >= '0' && text[i] <= '9' {
			i++
		}
		return i > from
	}
	if i < len(text) && text[i] == '-' {
		i++
	}
	if first := i; !digits() || text[first] == '0' && i > first+1 {
		return false
	}
	if i < len(text) && text[i] == '.' {
		if i++; !digits() {
			return false
		}
	}
	if i < len(text) && (text[i] == 'e' || text[i] == 'E') {
		if i++; i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		if !digits() {
			return false
		}
	}
	return i == len(text)
}

func appendBytes(dst, text []byte) []byte {
	digits, ok := bytes.CutPrefix(text, []byte(`\x`))
	if !ok {
		return doc.AppendString(dst, text)
	}
	raw := make([]byte, hex.DecodedLen(len(digits)))
	if _, err := hex.Decode(raw, digits); err != nil {
		return doc.AppendString(dst, text)
	}
	dst = base64.StdEncoding.AppendEncode(append(dst, '"'), raw)
	return append(dst, '"')
}

// appendJSON appends a document, on one line: those of the type json keep how they were written.
func appendJSON(dst, text []byte) []byte {
	if bytes.ContainsAny(text, "\r\n") {
		var line bytes.Buffer
		if json.Compact(&line, text) == nil {
			return append(dst, line.Bytes()...)
		}
	} else if json.Valid(text) {
		return append(dst, text...)
	}
	return doc.AppendString(dst, text)
}

// appendTime appends 2006-01-02 15:04:05.123 as RFC 3339 writes it; the zone is UTC, and absent where the type has
// none. Infinity, years before Christ, and those with five digits stay as they are.
func appendTime(dst, text []byte, zoned bool) []byte {
	const pattern = "dddd-dd-dd dd:dd:dd"
	at := text
	if zoned {
		var ok bool
		if at, ok = bytes.CutSuffix(text, []byte("+00")); !ok {
			return doc.AppendString(dst, text)
		}
	}
	for i := range at {
		c, want := at[i], byte('d')
		switch {
		case i < len(pattern):
			want = pattern[i]
		case i == len(pattern):
			want = '.'
		}
		if c != want && (want != 'd' || c < '0' || c > '9') {
			return doc.AppendString(dst, text)
		}
	}
	if len(at) < len(pattern) {
		return doc.AppendString(dst, text)
	}
	from := len(dst) + 1
	dst = append(append(dst, '"'), at...)
	dst[from+len("dddd-dd-dd")] = 'T'
	if zoned {
		dst = append(dst, 'Z')
	}
	return append(dst, '"')
}
