package expr

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Kinds that can be equal; other pairs are an error, never silently unequal.
var equalTypes = []combo{
	{kNil, kAny, kBool}, {kAny, kNil, kBool},
	{kNumber, kNumber, kBool}, {kText | kBytes, kText | kBytes, kBool}, {kBool, kBool, kBool},
	{kList, kList, kBool}, {kObject, kObject, kBool},
	{kTime, kTime, kBool}, {kDuration, kDuration, kBool}, {kZone, kZone, kBool},
}

// Kinds that have an order.
var orderTypes = []combo{
	{kNumber, kNumber, kBool}, {kText, kText, kBool}, {kTime, kTime, kBool}, {kDuration, kDuration, kBool},
}

// order compares two values that have an order; ok is false for all others.
func order(a, b any) (c int, ok bool) {
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
		if kindOf(a)&kNumber != 0 && kindOf(b)&kNumber != 0 {
			return compareNumbers(a, b), true
		}
	}
	return 0, false
}

// maxDepth is how deep a value may nest, as in documents.
const maxDepth = 512

// equal compares two values; ok is false when their kinds can't be compared.
// Inside lists and objects, values of different kinds are merely unequal.
func equal(a, b any) (eq, ok bool) {
	if a == nil || b == nil {
		return a == nil && b == nil, true
	}
	if result(equalTypes, kindOf(a), kindOf(b)) == 0 {
		return false, false
	}
	return deepEqual(a, b, 0), true
}

func deepEqual(a, b any, depth int) bool {
	if depth > maxDepth {
		return false
	}
	switch a := a.(type) {
	case nil, bool:
		return a == b
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, func(v, w any) bool { return deepEqual(v, w, depth+1) })
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			w, there := b[k]
			if !there || !deepEqual(v, w, depth+1) {
				return false
			}
		}
		return true
	case []byte:
		return kindOf(b)&(kText|kBytes) != 0 && string(a) == textOf(b)
	case string:
		return kindOf(b)&(kText|kBytes) != 0 && a == textOf(b)
	case *time.Location:
		b, ok := b.(*time.Location)
		return ok && a.String() == b.String()
	}
	c, ok := order(a, b)
	return ok && c == 0
}

// Kinds that `in` takes. nil is in nothing, and nothing is in nil.
var inTypes = []combo{
	{kAny, kList, kBool}, {kAny, kNil, kBool}, {kNil, kText | kObject, kBool}, {kText, kText | kObject, kBool},
}

// in says whether a is an element, a key or a part of b. ok is false when it
// could never be: a number among texts is a mistake, not a "no".
func in(a, b any) (is, ok bool) {
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
		eq, comparable := equal(a, v)
		if eq {
			return true, true
		}
		ok = ok || comparable
	}
	return false, ok
}

// textOf is a text, or bytes as one that may not be UTF-8.
func textOf(v any) string {
	if b, ok := v.([]byte); ok {
		return string(b)
	}
	return v.(string)
}
