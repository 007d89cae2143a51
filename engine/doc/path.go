package doc

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Path leads to a value by keys and indexes. The zero Path is the whole document. A Path is immutable and safe for
// concurrent use.
type Path struct {
	text  string
	parts []part
}

// part is one step of a path: a key, or the index of an element.
type part struct {
	key   string
	index int
	elem  bool
}

// MakePath makes a path of keys (string) and indexes (int). Other values become keys in the form that fmt prints.
func MakePath(parts ...any) Path { return Path{}.Append(parts...) }

// Append returns p with further keys and indexes, as in [MakePath].
func (p Path) Append(parts ...any) Path {
	p.parts = slices.Grow(slices.Clip(p.parts), len(parts))
	for _, v := range parts {
		switch v := v.(type) {
		case int:
			p.parts = append(p.parts, part{index: v, elem: true})
		case string:
			p.parts = append(p.parts, part{key: v})
		default:
			p.parts = append(p.parts, part{key: fmt.Sprint(v)})
		}
	}
	p.text = format(p.parts)
	return p
}

// Keys returns the parts of the path, each a string or an int.
func (p Path) Keys() []any {
	keys := make([]any, len(p.parts))
	for i, part := range p.parts {
		if part.elem {
			keys[i] = part.index
		} else {
			keys[i] = part.key
		}
	}
	return keys
}

// Len returns the number of keys and indexes.
func (p Path) Len() int { return len(p.parts) }

// IsZero reports whether p is the whole document.
func (p Path) IsZero() bool { return len(p.parts) == 0 }

// Equal reports whether p and q are the same path, however they are written.
func (p Path) Equal(q Path) bool { return slices.Equal(p.parts, q.parts) }

// String returns the path as written.
func (p Path) String() string { return p.text }

// format writes parts as a path.
func format(parts []part) string {
	var b strings.Builder
	for i, p := range parts {
		switch {
		case p.elem:
			b.WriteString("[" + strconv.Itoa(p.index) + "]")
		case p.key == "" || nameLen(p.key) < len(p.key):
			b.Write(AppendString([]byte{'['}, p.key))
			b.WriteByte(']')
		case i > 0:
			b.WriteString("." + p.key)
		case p.key == document:
			b.WriteString(document + "." + p.key)
		default:
			b.WriteString(p.key)
		}
	}
	return b.String()
}
