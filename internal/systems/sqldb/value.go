package sqldb

import (
	"bytes"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

// Kind is what a [Value] is.
type Kind uint8

// The kinds of values.
const (
	Null   Kind = iota
	Bool        // Text is true or false
	Number      // as it is spelled in JSON
	Text        // UTF-8
	Bytes       // anything
	JSON        // a list or an object
	Time        // RFC 3339
)

// Value is what goes into a column or in place of a parameter. Numbers keep their digits.
type Value struct {
	Kind Kind
	Text []byte // never changes
}

// Equal reports whether v is written as other is.
func (v Value) Equal(other Value) bool {
	return v.Kind == other.Kind && bytes.Equal(v.Text, other.Text)
}

// Of is the value of an expression for a message. A bare path keeps the source text.
func Of(e *expr.Value, src expr.Source) (Value, error) {
	if err := e.Fits(src); err != nil {
		return Value{}, engine.WithClass(engine.Permanent, err)
	}
	if p, ok := e.Path(); ok {
		raw, found, err := src.Document().Raw(p)
		switch {
		case err != nil:
			return Value{}, engine.WithClass(engine.Decode, err)
		case !found:
			return Value{}, nil
		}
		if err := doc.Surrogate(raw); err != nil && raw[0] == '"' {
			return Value{}, engine.WithClass(engine.Permanent, err)
		}
		return OfJSON(raw), nil
	}
	v, err := e.EvalOut(src)
	if err != nil {
		return Value{}, err
	}
	switch v := v.(type) {
	case nil:
		return Value{}, nil
	case []byte:
		return Value{Bytes, v}, nil
	case string:
		if !utf8.ValidString(v) {
			return Value{Bytes, []byte(v)}, nil
		}
		return Value{Text, []byte(v)}, nil
	case time.Time:
		return Value{Time, v.AppendFormat(nil, time.RFC3339Nano)}, nil
	}
	raw, err := doc.Append(nil, v)
	if err != nil {
		return Value{}, engine.WithClass(engine.Permanent, err)
	}
	return OfJSON(raw), nil
}

// OfJSON is the value of JSON text, which has been checked.
func OfJSON(raw []byte) Value {
	raw = bytes.TrimSpace(raw)
	switch raw[0] {
	case 'n':
		return Value{}
	case 't', 'f':
		return Value{Bool, raw}
	case '"':
		return Value{Text, []byte(doc.Unquote(raw))}
	case '[', '{':
		return Value{JSON, raw}
	}
	return Value{Number, raw}
}

// JSON is the value as JSON text.
func (v Value) JSON() []byte {
	switch v.Kind {
	case Null:
		return []byte("null")
	case Text, Time:
		return doc.AppendString(nil, v.Text)
	case Bytes:
		return appendBase64(nil, v.Text)
	}
	return v.Text
}

// Type is what a column holds, as far as it matters for values.
type Type uint8

// The types of columns that values are fitted to.
const (
	AnyType Type = iota
	JSONType
	DateTimeType
	BoolType
	IntType     // of a server that rounds what is not whole
	Float32Type // of a server that makes 0 of what is too small
)

// Types are those of the columns of a table.
type Types interface {
	// Fit makes of a value what the i-th column takes it for. An error says that it has no room for it.
	Fit(i int, v Value) (Value, error)
}

// types are Types of databases that refuse most of what does not fit by themselves.
type types []Type

func (t types) Fit(i int, v Value) (Value, error) {
	if v.Kind == Null {
		return v, nil
	}
	switch t[i] {
	case JSONType:
		if v.Kind != JSON {
			return Value{JSON, v.JSON()}, nil
		}
	case IntType:
		if d, err := codec.ParseDigits(string(v.Text)); v.Kind == Number && err == nil {
			if _, whole := d.Scaled(0); !whole {
				return v, engine.Errorf(engine.Rejected, "%.40s is not a whole number, and the server would round it", v.Text)
			}
		}
	case Float32Type:
		if f, err := strconv.ParseFloat(string(v.Text), 32); v.Kind == Number && err == nil && f == 0 && !doc.SpellsZero(v.Text) {
			return v, engine.Errorf(engine.Rejected, "%.40s is too small for a float of 32 bits, and would be 0", v.Text)
		}
	case DateTimeType:
		if v.Kind == Text {
			if at, err := time.Parse(time.RFC3339, string(v.Text)); err == nil {
				return Value{Time, at.AppendFormat(nil, time.RFC3339Nano)}, nil
			}
		}
	}
	return v, nil
}
