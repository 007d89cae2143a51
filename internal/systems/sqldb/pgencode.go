package sqldb

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
)

// encode returns values as parameters: text that the server reads as the types of the parameters.
func (p *pgPool) encode(args []Value, oids []uint32) ([][]byte, error) {
	if len(args) != len(oids) {
		return nil, engine.Errorf(engine.Permanent, "the statement has %d parameters, but args has %d values", len(oids),
			len(args))
	}
	all := make([][]byte, len(args))
	for i, v := range args {
		if v.Kind == Null {
			continue
		}
		var err error
		if all[i], err = p.text(v, oids[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// text returns a value other than null in the server's format of a type.
func (p *pgPool) text(v Value, oid uint32) ([]byte, error) {
	t := p.typeOf(oid)
	if !t.isArray {
		return pgScalar(v, t.base)
	}
	if v.Kind != JSON || v.Text[0] != '[' {
		return pgScalar(v, 0) // the text of an array, or an error of the server
	}
	text, err := appendArrayOf(nil, v.Text, t.base, 1)
	return text, engine.WithClass(engine.Rejected, err)
}

func pgScalar(v Value, oid uint32) ([]byte, error) {
	switch oid {
	case oidJSON, oidJSONB:
		return v.JSON(), nil
	case oidBytea:
		return hex.AppendEncode([]byte(`\x`), v.Text), nil
	case oidInt2, oidInt4, oidInt8:
		if v.Kind == Number {
			return integer(v.Text), nil
		}
	case oidTimestamp, oidDate, oidTime:
		if v.Text == nil {
			break
		}
		return inUTC(v.Text, unzoned[oid])
	}
	if v.Text == nil {
		return []byte{}, nil // nil would be null
	}
	return v.Text, nil
}

// integer returns a number without a fraction, such as 1.0 or 1e3, in the format of integers. It leaves other numbers to the server,
// which refuses them.
func integer(text []byte) []byte {
	if !bytes.ContainsAny(text, ".eE") {
		return text
	}
	f, ok := doc.ParseFloat(text)
	if !ok || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return text
	}
	return strconv.AppendInt(nil, int64(f), 10)
}

// appendArrayOf appends a JSON array as an array of PostgreSQL.
func appendArrayOf(dst, list []byte, oid uint32, depth int) ([]byte, error) {
	if depth > mostDimensions {
		return dst, fmt.Errorf("a list has more than the %d dimensions that an array can have", mostDimensions)
	}
	dst = append(dst, '{')
	first := true
	for raw := range doc.Elements(list) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		v := OfJSON(raw)
		var err error
		switch {
		case v.Kind == Null:
			dst = append(dst, "NULL"...)
		case v.Kind == JSON && v.Text[0] == '[' && oid != oidJSON && oid != oidJSONB:
			if dst, err = appendArrayOf(dst, v.Text, oid, depth+1); err != nil {
				return dst, err
			}
		default:
			text, err := pgScalar(v, oid)
			if err != nil {
				return dst, err
			}
			dst = appendQuoted(dst, text)
		}
	}
	return append(dst, '}'), nil
}

func appendQuoted(dst, text []byte) []byte {
	dst = append(dst, '"')
	for _, c := range text {
		if c == '"' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}
