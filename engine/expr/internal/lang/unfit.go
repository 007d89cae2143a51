package lang

import (
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// unfit is the failure of a value that a document can't contain, because it is or has in it bytes or a time zone. It is nil if a
// document can contain the value.
func unfit(offset int, v any) *failure {
	bad, way := unfitting(v, 0)
	if bad == nil {
		return nil
	}
	f := unfitKind(offset, value.KindOf(bad))
	if len(way) > 0 {
		slices.Reverse(way)
		f.msg = "at " + value.Clip(value.PathText(way)) + ": " + f.msg
	}
	return f
}

// unfitKind is unfit for a value of which only the kind is known.
func unfitKind(offset int, k value.Kinds) *failure {
	switch k {
	case value.Bytes:
		return &failure{offset: offset, msg: "bytes are not a value that a document can contain",
			remedy: "write string(x) where they are text, else to_base64(x) or to_hex(x)"}
	case value.Zone:
		return &failure{offset: offset, msg: "a time zone is not a value that a message can contain"}
	}
	return nil
}

// unfitting is the part of v that a document can't contain, or nil, and the keys that lead to it, the last one first.
func unfitting(v any, depth int) (bad any, way []any) {
	if depth > value.MaxDepth {
		return nil, nil
	}
	switch v := v.(type) {
	case []byte, *time.Location:
		return v, nil
	case []any:
		for i, e := range v {
			if bad, way = unfitting(e, depth+1); bad != nil {
				return bad, append(way, i)
			}
		}
	case map[string]any:
		for k, e := range v {
			x, below := unfitting(e, depth+1)
			if x != nil && (bad == nil || k < way[len(way)-1].(string)) { // always the same part, whatever the order of the map
				bad, way = x, append(below, k)
			}
		}
		return bad, way
	}
	return nil, nil
}
