package value

import (
	"cmp"
	"maps"
	"slices"

	"github.com/flowd-io/flowd/engine/doc"
)

// PathText is a path as expressions write it: a.b[0], or this for the whole document.
func PathText(keys []any) string { return cmp.Or(doc.MakePath(keys...).String(), "this") }

// SortedKeys are the keys of an object in order: a result must not depend on the order of a Go map.
func SortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
