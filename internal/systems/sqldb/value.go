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

// Kind is the kind of a [Value].
type Kind uint8

// The kinds of values.
const (
	Null   Kind = iota
	Bool        // Text is true or false
	Number      // in the syntax of JSON
	Text        // UTF-8
	Bytes       // any bytes
	JSON        // a list or an object
	Time        // RFC 3339
)

// Value is a value for a column or parameter. Numbers keep their digits.
type Value struct {
	Kind Kind
	Text []byte // must not be changed
}

// Equal reports whether two values have the same kind and text.
func (v Value) Equal(other Value) bool {
	return v.Kind == other.Kind && bytes.Equal(v.Text, other.Text)
}

// ValueOf returns the value of an expression for a message. An expression that is only a path keeps the source text of the value.
func ValueOf(e *expr.Value, src expr.Source) (Value, error) {
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

// OfJSON returns the value of a valid JSON text.
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

// JSON returns the value as JSON text.
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

// Type is the type of a column, as far as values are converted for it.
type Type uint8

// The types of columns for which values are converted or checked.
const (
	AnyType Type = iota
	JSONType
	DateTimeType
	BoolType
	IntType     // of a server that rounds numbers with a fraction
	Float32Type // of a server that stores 0 for numbers that are too small
)

// Types has the types of columns of a table.
type Types interface {
	// Fit converts a value for column i. It returns an error if the column can't store the value.
	Fit(i int, v Value) (Value, error)
}

// types is the Types of databases that refuse most values that do not fit.
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
			if _, isInteger := d.Scaled(0); !isInteger {
				return v, engine.Errorf(engine.Rejected, "%.40s is not an integer, and the server would round it", v.Text)
			}
		}
	case Float32Type:
		if f, err := strconv.ParseFloat(string(v.Text), 32); v.Kind == Number && err == nil && f == 0 && !doc.SpellsZero(v.Text) {
			return v, engine.Errorf(engine.Rejected, "%.40s is too small for a 32-bit float, and would become 0", v.Text)
		}
	case DateTimeType:
		if v.Kind == Text {
			if parsed, err := time.Parse(time.RFC3339, string(v.Text)); err == nil {
				return Value{Time, parsed.AppendFormat(nil, time.RFC3339Nano)}, nil
			}
		}
	}
	return v, nil
}
