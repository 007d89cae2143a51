package pgoutput

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

// Shape says how the values of a type become JSON. The zero Shape makes them strings.
type Shape struct {
	form      form
	element   *Shape // of an array; nil: not an array
	delimiter byte   // between the elements of an array
}

// form is the kind of JSON value that a value becomes.
type form uint8

const (
	asText form = iota
	asBool
	asFloat32
	asNumber // NaN and Infinity become strings
	asBytes
	asJSON
	asTimestamp
	asTimestampTZ
)

// builtin are the shapes of PostgreSQL's built-in types that do not become strings, by OID. These OIDs never change.
var builtin = map[uint32]Shape{
	16: {form: asBool}, 17: {form: asBytes},
	20: {form: asNumber}, 21: {form: asNumber}, 23: {form: asNumber}, 26: {form: asNumber}, 28: {form: asNumber},
	700: {form: asFloat32}, 701: {form: asNumber}, 1700: {form: asNumber},
	114: {form: asJSON}, 3802: {form: asJSON}, 1114: {form: asTimestamp}, 1184: {form: asTimestampTZ},
}

// ShapeOf returns the shape of a built-in type by its OID.
func ShapeOf(oid uint32) Shape { return builtin[oid] }

// List returns the shape of arrays of s. delimiter separates their elements, which is a comma for most types.
func (s Shape) List(delimiter byte) Shape { return Shape{element: &s, delimiter: delimiter} }

// Append appends a value as JSON: numbers without loss, json and jsonb unchanged, arrays as arrays, bytea in base64, timestamps
// in RFC 3339, and anything else as a string. A value that does not have the format of its type becomes a string, too. The
// server must be set to bytea_output hex, DateStyle ISO, and the time zone UTC.
func (s Shape) Append(dst, text []byte) []byte {
	if s.element != nil {
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
		if isNumber(text) {
			return append(dst, text...)
		}
	case asBytes:
		return appendBytes(dst, text)
	case asJSON:
		return appendJSON(dst, text)
	case asTimestamp, asTimestampTZ:
		return appendTime(dst, text, s.form == asTimestampTZ)
	}
	return doc.AppendString(dst, text)
}

// isNumber reports whether text is a JSON number.
func isNumber(text []byte) bool {
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

// appendJSON appends a document on one line. PostgreSQL keeps the line breaks in values of the type json.
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

// appendTime appends a time such as 2006-01-02 15:04:05.123 in the format of RFC 3339. With a zone, the time is in UTC; without,
// the result has no zone. Infinity, years before Christ and years with five digits stay unchanged.
func appendTime(dst, text []byte, zoned bool) []byte {
	const pattern = "dddd-dd-dd dd:dd:dd"
	local := text // without the zone
	if zoned {
		var ok bool
		if local, ok = bytes.CutSuffix(text, []byte("+00")); !ok {
			return doc.AppendString(dst, text)
		}
	}
	for i := range local {
		c, want := local[i], byte('d')
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
	if len(local) < len(pattern) {
		return doc.AppendString(dst, text)
	}
	from := len(dst) + 1
	dst = append(append(dst, '"'), local...)
	dst[from+len("dddd-dd-dd")] = 'T'
	if zoned {
		dst = append(dst, 'Z')
	}
	return append(dst, '"')
}
