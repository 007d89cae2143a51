package value

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// EqualTypes are the kinds that can be compared with ==. To compare others is an error: they are never silently unequal.
var EqualTypes = Operands{
	{Nil, Any, Bool}, {Any, Nil, Bool},
	{Number, Number, Bool}, {Text | Bytes, Text | Bytes, Bool}, {Bool, Bool, Bool},
	{List, List, Bool}, {Object, Object, Bool},
	{Time, Time, Bool}, {Duration, Duration, Bool}, {Zone, Zone, Bool},
}

// OrderTypes are the kinds that have an order.
var OrderTypes = Operands{
	{Number, Number, Bool}, {Text, Text, Bool}, {Time, Time, Bool}, {Duration, Duration, Bool},
}

// Order compares two values. ok is false if they have no order.
func Order(a, b any) (c int, ok bool) {
	switch a := a.(type) {
	case string:
		if b, ok := b.(string); ok {
			return strings.Compare(a, b), true
		}
	case time.Time:
		if b, ok := b.(time.Time); ok {
			return a.Compare(b), true
		}
	case time.Duration:
		if b, ok := b.(time.Duration); ok {
			return cmp.Compare(a, b), true
		}
	default:
		if KindOf(a)&Number != 0 && KindOf(b)&Number != 0 {
			return CompareNumbers(a, b), true
		}
	}
	return 0, false
}

// MaxDepth is how deep a value may nest, as in documents.
const MaxDepth = 512

// Equal compares two values. ok is false if their kinds can't be compared. Inside lists and objects, values of different kinds are
// just unequal.
func Equal(a, b any) (eq, ok bool) {
	if a == nil || b == nil {
		return a == nil && b == nil, true
	}
	if EqualTypes.Result(KindOf(a), KindOf(b)) == 0 {
		return false, false
	}
	return DeepEqual(a, b, 0), true
}

func DeepEqual(a, b any, depth int) bool {
	if depth > MaxDepth {
		return false
	}
	switch a := a.(type) {
	case nil, bool:
		return a == b
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, func(v, w any) bool { return DeepEqual(v, w, depth+1) })
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			w, there := b[k]
			if !there || !DeepEqual(v, w, depth+1) {
				return false
			}
		}
		return true
	case []byte:
		return KindOf(b)&(Text|Bytes) != 0 && string(a) == TextOf(b)
	case string:
		return KindOf(b)&(Text|Bytes) != 0 && a == TextOf(b)
	case *time.Location:
		b, ok := b.(*time.Location)
		return ok && a.String() == b.String()
	}
	c, ok := Order(a, b)
	return ok && c == 0
}

// InTypes are the kinds that the operator `in` takes. nil is in nothing, and nothing is in nil.
var InTypes = Operands{
	{Any, List, Bool}, {Any, Nil, Bool}, {Nil, Text | Object, Bool}, {Text, Text | Object, Bool},
}

// IsIn says whether a is an element, a key or a part of b. ok is false if it never could be: to look for a number among texts is a
// mistake.
func IsIn(a, b any) (is, ok bool) {
	switch b := b.(type) {
	case nil:
		return false, true
	case []any:
		return inList(a, b)
	case map[string]any:
		key, isText := a.(string)
		_, is = b[key]
		return is && isText, isText || a == nil
	case string:
		part, isText := a.(string)
		return isText && strings.Contains(b, part), isText || a == nil
	}
	return false, false
}

func inList(a any, list []any) (is, ok bool) {
	ok = len(list) == 0 || a == nil
	for _, v := range list {
		eq, comparable := Equal(a, v)
		if eq {
			return true, true
		}
		ok = ok || comparable
	}
	return false, ok
}
