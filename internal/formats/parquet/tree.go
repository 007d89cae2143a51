package parquet

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
)

// shape says how a branch of a file's schema is shown.
type shape uint8

const (
	shapeLeaf shape = iota
	shapeObject
	shapeList    // one child: the items
	shapeMapping // two children: keys and values
)

// branch is a node of a file's schema. Columns are the ones to read, in order.
type branch struct {
	shape       shape
	key         []byte // with a colon, as a field
	name        string
	def         int // definition level from which it is not null; of a required list, that of its parent
	itemDef     int // of a list or mapping: definition level from which it has items
	rep         int // of a list or mapping: repetition level of further items
	items       []*branch
	first, last int // leaf columns below it; last is excluded
	column      int // of a leaf: its index in the file
	element     *element
	maxRep      int // of a leaf
}

// tree builds branches from the elements of a schema.
type tree struct {
	elements []element
	at       int
	columns  int
}

var errSchema = errors.New("the schema in the footer is not valid")

// root returns the whole schema of a file.
func (f *footer) root() (*branch, error) {
	t := tree{elements: f.schema}
	if len(t.elements) == 0 || t.elements[0].physical >= 0 {
		return nil, errSchema
	}
	t.elements[0].repeats, t.elements[0].logical, t.elements[0].converted = 0, logical{}, -1
	b, err := t.branch(0, 0, 0)
	switch {
	case err != nil:
		return nil, err
	case t.at != len(t.elements) || t.columns > mostColumns:
		return nil, errSchema
	}
	for _, g := range f.groups {
		if len(g.chunks) != t.columns {
			return nil, fmt.Errorf("a row group has %d columns, and the schema %d", len(g.chunks), t.columns)
		}
	}
	return b, nil
}

// branch returns the next branch, below one with these levels.
func (t *tree) branch(def, rep, depth int) (*branch, error) {
	if t.at >= len(t.elements) || depth > 2*mostLevels {
		return nil, errSchema
	}
	e := &t.elements[t.at]
	t.at++
	outer := def
	switch e.repeats {
	case 1:
		def++
	case 2:
		def++
		rep++
	}
	b := &branch{shape: shapeLeaf, name: e.name, def: def, element: e, column: t.columns, maxRep: rep}
	if e.physical >= 0 {
		t.columns++
	} else if err := t.group(b, rep, depth); err != nil {
		return nil, err
	}
	if e.repeats == 2 { // without an annotation, it is a list of its own values
		b = &branch{shape: shapeList, name: e.name, def: outer, itemDef: def, rep: rep, items: []*branch{b}, element: e}
	}
	b.key = append(doc.AppendString(nil, e.name), ':')
	return b, nil
}

// group reads the children of a group and determines its shape.
func (t *tree) group(b *branch, rep, depth int) error {
	b.shape = shapeObject
	for range b.element.children {
		child, err := t.branch(b.def, rep, depth+1)
		if err != nil {
			return err
		}
		b.items = append(b.items, child)
	}
	isList := b.element.logical.kind == logicalList || b.element.converted == 3
	isMap := b.element.logical.kind == logicalMap || b.element.converted == 1 || b.element.converted == 2
	if len(b.items) != 1 || b.items[0].element.repeats != 2 || !isList && !isMap {
		return nil
	}
	inner := b.items[0] // a list of the repeated field
	item := inner.items[0]
	switch {
	case isMap && item.shape == shapeObject && len(item.items) == 2 && item.items[0].shape == shapeLeaf:
		b.shape, b.items = shapeMapping, item.items
	case isMap:
		return nil
	case item.shape == shapeObject && len(item.items) == 1 && item.name != "array" && item.name != b.name+"_tuple":
		b.shape, b.items = shapeList, item.items
	default: // the form of older writers
		b.shape, b.items = shapeList, inner.items
	}
	b.itemDef, b.rep = inner.itemDef, inner.rep
	return nil
}

// pick keeps the columns that paths name, such as a and b.c, and records which paths exist.
func (b *branch) pick(paths []string, prefix string, found map[string]bool) (keep bool) {
	if b.shape != shapeObject {
		return false
	}
	b.items = slices.DeleteFunc(b.items, func(item *branch) bool {
		path := prefix + item.name
		if slices.Contains(paths, path) {
			found[path] = true
			return false
		}
		return !slices.ContainsFunc(paths, func(p string) bool { return strings.HasPrefix(p, path+".") }) ||
			!item.pick(paths, path+".", found)
	})
	return len(b.items) > 0
}

// number numbers the columns to read, and lists them.
func (b *branch) number(leaves []*branch) []*branch {
	b.first = len(leaves)
	if b.shape == shapeLeaf {
		leaves = append(leaves, b)
	}
	for _, item := range b.items {
		leaves = item.number(leaves)
	}
	b.last = len(leaves)
	return leaves
}

// least returns the minimum length of a value's text.
func (b *branch) least() int {
	if b.shape != shapeObject || b.def > 0 {
		return 1
	}
	n := 2
	for _, item := range b.items {
		n += len(item.key) + item.least() + 1
	}
	return max(2, n-1)
}
