package redis

import (
	"strconv"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
)

// deepest is how far lists of an answer may be nested.
const deepest = 100

// appendValue appends an answer as JSON.
func appendValue(to []byte, v any, depth int) (_ []byte, err error) {
	switch v := v.(type) {
	case nil:
		return append(to, "null"...), nil
	case int64:
		return strconv.AppendInt(to, v, 10), nil
	case string:
		return appendText(to, v)
	case error: // an element of a list
		return nil, engine.Errorf(engine.Rejected, "a part of the answer is an error: %w", v)
	case []any:
		if depth == deepest {
			return nil, engine.Errorf(engine.Decode, "the answer is nested too deeply")
		}
		to = append(to, '[')
		for i, x := range v {
			if i > 0 {
				to = append(to, ',')
			}
			if to, err = appendValue(to, x, depth+1); err != nil {
				return nil, err
			}
		}
		return append(to, ']'), nil
	}
	return nil, engine.Errorf(engine.Decode, "the answer contains a value of an unknown type: %T", v)
}

func appendText(to []byte, text string) ([]byte, error) {
	if !utf8.ValidString(text) {
		return nil, engine.Errorf(engine.Decode, "the answer is not UTF-8 text")
	}
	return doc.AppendString(to, []byte(text)), nil
}

// object converts a list of names and values to an object. Of duplicate names, the last counts.
func object(list []any) (to []byte, err error) {
	if len(list)%2 != 0 {
		return nil, engine.Errorf(engine.Rejected, "the answer is not a list of names and values (write `reply: value`)")
	}
	at := map[string]int{}
	for i := 0; i < len(list); i += 2 {
		name, ok := list[i].(string)
		if !ok {
			return nil, engine.Errorf(engine.Rejected, "the answer is not a list of names and values (write `reply: value`)")
		}
		at[name] = i
	}
	to = append(to, '{')
	for i := 0; i < len(list); i += 2 {
		name := list[i].(string)
		if at[name] != i {
			continue
		}
		if len(to) > 1 {
			to = append(to, ',')
		}
		if to, err = appendText(to, name); err != nil {
			return nil, err
		}
		if to, err = appendValue(append(to, ':'), list[i+1], 1); err != nil {
			return nil, err
		}
	}
	return append(to, '}'), nil
}

// fromJSON checks that text is JSON.
func fromJSON(text string) ([]byte, error) {
	var d doc.Doc
	d.Reset([]byte(text), nil)
	if err := d.Valid(); err != nil {
		return nil, engine.Errorf(engine.Decode, "the answer is not JSON: %w (write `reply: value`)", err)
	}
	return []byte(text), nil
}
