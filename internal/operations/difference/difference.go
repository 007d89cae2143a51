// Package difference compares JSON values field by field.
package difference

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
)

// Change is one difference between two values.
type Change struct {
	Path string // of the field, as in expressions; "" is the whole value
	Old  string // as JSON; "": there is none
	New  string // likewise
}

// Of returns the differences between two values at a path, in the order of the keys' names. Values are those of
// doc.Decode. JSON has one kind of number: 1 and 1.0 are equal, 9007199254740993 and 9007199254740992 are not.
func Of(path string, before, after any) (all []Change) {
	switch before := before.(type) {
	case map[string]any:
		after, ok := after.(map[string]any)
		if !ok {
			break
		}
		both := maps.Clone(before)
		maps.Copy(both, after)
		for _, key := range slices.Sorted(maps.Keys(both)) {
			o, was := before[key]
			n, is := after[key]
			below := field(path, key)
			switch {
			case !is:
				all = append(all, Change{below, Show(o), ""})
			case !was:
				all = append(all, Change{below, "", Show(n)})
			default:
				all = append(all, Of(below, o, n)...)
			}
		}
		return all
	case []any:
		after, ok := after.([]any)
		if !ok {
			break
		}
		for i := range max(len(before), len(after)) {
			below := path + "[" + strconv.Itoa(i) + "]"
			switch {
			case i >= len(after):
				all = append(all, Change{below, Show(before[i]), ""})
			case i >= len(before):
				all = append(all, Change{below, "", Show(after[i])})
			default:
				all = append(all, Of(below, before[i], after[i])...)
			}
		}
		return all
	default:
		if equal(before, after) {
			return nil
		}
	}
	return []Change{{path, Show(before), Show(after)}}
}

func field(path, key string) string {
	name := doc.MakePath(key).String()
	if path == "" || strings.HasPrefix(name, "[") {
		return path + name
	}
	return path + "." + name
}

// equal compares two values that are not objects or lists.
func equal(want, got any) bool {
	a, ok := rational(want)
	b, also := rational(got)
	if ok && also {
		return a.Cmp(b) == 0
	}
	switch want.(type) {
	case nil, bool, string:
		return want == got
	}
	return false
}

// rational returns the exact value of a number.
func rational(v any) (*big.Rat, bool) {
	switch v := v.(type) {
	case int:
		return new(big.Rat).SetInt64(int64(v)), true
	case float64:
		r := new(big.Rat).SetFloat64(v)
		return r, r != nil
	case doc.Number:
		return new(big.Rat).SetString(string(v)) // an integer: no large exponent can blow it up
	}
	return nil, false
}

// Show formats a value as JSON, on one line.
func Show(v any) string {
	text, err := doc.Append(nil, v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
