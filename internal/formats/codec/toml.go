package codec

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/flowd-io/flowd/engine/doc"
)

// TOML reads and writes one TOML document. It writes keys in alphabetical order.
type TOML struct{}

var _ Expanding = (*TOML)(nil)

// Decode returns the document. Dates and times are text.
func (c *TOML) Decode(dst, payload []byte) ([]byte, error) {
	if err := checkTOML(payload); err != nil {
		return dst, fmt.Errorf("toml: %w", err)
	}
	var document map[string]any
	if err := toml.Unmarshal(payload, &document); err != nil {
		return dst, tomlError(err)
	}
	if document == nil {
		return append(dst, "{}"...), nil
	}
	out, err := doc.Append(dst, document)
	if err != nil {
		return dst, fmt.Errorf("toml: %w", err)
	}
	return out, nil
}

// Working returns the memory for a tree of maps and lists.
func (c *TOML) Working(payload []byte) int {
	maps, values := 1, 0
	for _, b := range payload {
		switch b {
		case '.', '[', '{', '=':
			maps++
		case ',':
			values++
		}
	}
	return 800*maps + 260*values + 4*len(payload)
}

// DecodeWithin is like Decode: the result is hardly longer than the input.
func (c *TOML) DecodeWithin(dst, payload []byte, _ int) ([]byte, error) {
	return c.Decode(dst, payload)
}

// mostKeys bounds the parts of keys in a document: the library compares each key with all others, and recurses for
// each part.
const mostKeys = 10_000

var errKeys = fmt.Errorf("has more than %d keys", mostKeys)

// checkTOML rejects documents that would take the library too long, and numbers that it would read as 0. The library
// reports invalid TOML.
func checkTOML(payload []byte) error {
	var p unstable.Parser
	p.Reset(payload)
	keys := 0
	for p.NextExpression() {
		if err := countTOML(p.Expression(), &keys); err != nil {
			return err
		}
	}
	return nil
}

// countTOML counts the keys of an expression or value.
func countTOML(n *unstable.Node, keys *int) error {
	switch n.Kind {
	case unstable.Table, unstable.ArrayTable, unstable.KeyValue:
		parts := 0
		for i := n.Key(); i.Next(); {
			parts++
		}
		*keys += parts
		switch {
		case parts > MaxDepth:
			return errTooDeep
		case *keys > mostKeys:
			return errKeys
		case n.Kind == unstable.KeyValue:
			return countTOML(n.Value(), keys)
		}
	case unstable.Float:
		text := strings.ReplaceAll(string(n.Data), "_", "")
		if f, err := strconv.ParseFloat(text, 64); err == nil && f == 0 && !doc.SpellsZero(text) {
			return fmt.Errorf("%.40s does not fit 64 bits", n.Data)
		}
	case unstable.Array, unstable.InlineTable:
		for i := n.Children(); i.Next(); {
			if err := countTOML(i.Node(), keys); err != nil {
				return err
			}
		}
	}
	return nil
}

func tomlError(err error) error {
	if d, ok := errors.AsType[*toml.DecodeError](err); ok {
		row, column := d.Position()
		return fmt.Errorf("toml: line %d, column %d: %s", row, column, strings.TrimPrefix(d.Error(), "toml: "))
	}
	return fmt.Errorf("toml: %s", strings.TrimPrefix(err.Error(), "toml: "))
}

// Encode writes an object.
func (c *TOML) Encode(dst, json []byte) ([]byte, error) {
	if json[0] != '{' {
		return dst, fmt.Errorf("toml: %s is not an object", kind(json))
	}
	v, err := tomlValue(json)
	if err != nil {
		return dst, fmt.Errorf("toml: %w", err)
	}
	out, err := toml.Marshal(v)
	if err != nil {
		return dst, tomlError(err)
	}
	return append(dst, out...), nil
}

var errNull = errors.New("null has no place in TOML (remove it with `unset`)")

// tomlValue converts a valid JSON value for the library.
func tomlValue(json []byte) (any, error) {
	switch json[0] {
	case '{':
		m := map[string]any{}
		for key, value := range doc.Members(json) {
			v, err := tomlValue(value)
			if err != nil {
				return nil, Under(key, err)
			}
			m[key] = v
		}
		return m, nil
	case '[':
		list := []any{}
		for item := range doc.Elements(json) {
			v, err := tomlValue(item)
			if err != nil {
				return nil, Under(strconv.Itoa(len(list)), err)
			}
			list = append(list, v)
		}
		return list, nil
	case '"':
		return text(json), nil
	case 't', 'f':
		return json[0] == 't', nil
	case 'n':
		return nil, errNull
	}
	if strings.ContainsAny(str(json), ".eE") {
		return Float(json, 64, "64 bits")
	}
	return Int(json)
}
