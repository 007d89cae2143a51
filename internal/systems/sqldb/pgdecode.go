package sqldb

import (
	"encoding/hex"
	"errors"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

// append appends a value that the server has sent as text, as JSON. nil is null.
func (t pgType) append(dst, text []byte) []byte {
	if text == nil {
		return append(dst, "null"...)
	}
	if t.isArray {
		if out, err := appendArray(dst, text, t.base); err == nil {
			return out
		}
		return doc.AppendString(dst, text)
	}
	return appendScalar(dst, text, t.base)
}

func appendScalar(dst, text []byte, oid uint32) []byte {
	switch oid {
	case oidBool:
		if string(text) == "t" {
			return append(dst, "true"...)
		}
		return append(dst, "false"...)
	case oidFloat4:
		return codec.AppendFloat32(dst, text)
	case oidInt2, oidInt4, oidInt8, oidOID, oidFloat8, oidNumeric:
		return appendNumber(dst, text)
	case oidJSON, oidJSONB:
		return appendJSON(dst, text)
	case oidBytea:
		if len(text) >= 2 && text[0] == '\\' && text[1] == 'x' {
			if b, err := hex.DecodeString(string(text[2:])); err == nil {
				return appendBase64(dst, b)
			}
		}
	case oidTimestamp:
		return appendMoment(dst, text, "")
	case oidTimestamptz:
		if n := len(text); n > 3 && string(text[n-3:]) == "+00" {
			return appendMoment(dst, text[:n-3], "Z")
		}
	}
	return doc.AppendString(dst, text)
}

var errArray = errors.New("the text is not a valid array")

// mostDimensions is the server's limit for the dimensions of an array.
const mostDimensions = 6

// appendArray appends an array, such as {1,"a b",NULL,{2}}, as a JSON array. Bounds, as in [0:1]={1,2}, are left out. After an error,
// dst is unchanged.
func appendArray(dst, text []byte, oid uint32) ([]byte, error) {
	if len(text) > 0 && text[0] == '[' {
		i := 0
		for i < len(text) && text[i] != '=' {
			i++
		}
		text = text[min(i+1, len(text)):]
	}
	a := arrayText{text: text, oid: oid}
	out, err := a.list(dst, 1)
	if err != nil || a.pos != len(text) {
		return dst, errArray
	}
	return out, nil
}

// arrayText converts the text of an array.
type arrayText struct {
	text []byte
	pos  int
	oid  uint32 // of the elements
	word []byte // an element without quotes and escapes
}

func (a *arrayText) peek() byte {
	if a.pos < len(a.text) {
		return a.text[a.pos]
	}
	return 0
}

func (a *arrayText) list(dst []byte, depth int) ([]byte, error) {
	if a.peek() != '{' || depth > mostDimensions {
		return dst, errArray
	}
	a.pos++
	dst = append(dst, '[')
	if a.peek() == '}' {
		a.pos++
		return append(dst, ']'), nil
	}
	for {
		var err error
		if a.peek() == '{' {
			dst, err = a.list(dst, depth+1)
		} else {
			dst, err = a.element(dst)
		}
		if err != nil {
			return dst, err
		}
		next := a.peek()
		a.pos++
		switch next {
		case '}':
			return append(dst, ']'), nil
		case ',':
			dst = append(dst, ',')
		default:
			return dst, errArray
		}
	}
}

func (a *arrayText) element(dst []byte) ([]byte, error) {
	a.word = a.word[:0]
	quoted := a.peek() == '"'
	if quoted {
		a.pos++
	}
	for ; ; a.pos++ {
		c := a.peek()
		switch {
		case a.pos >= len(a.text):
			return dst, errArray
		case quoted && c == '"':
			a.pos++
			return appendScalar(dst, a.word, a.oid), nil
		case !quoted && (c == ',' || c == '}'):
			if string(a.word) == "NULL" {
				return append(dst, "null"...), nil
			}
			if len(a.word) == 0 {
				return dst, errArray
			}
			return appendScalar(dst, a.word, a.oid), nil
		case c == '\\':
			a.pos++
			if a.pos >= len(a.text) {
				return dst, errArray
			}
			c = a.text[a.pos]
		case !quoted && (c == '{' || c == '"'):
			return dst, errArray
		}
		a.word = append(a.word, c)
	}
}
