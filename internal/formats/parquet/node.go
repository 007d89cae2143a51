// Package parquet turns batches of documents into Parquet files, and files into lists of documents. Start at [Writes]
// and [Reads], which are config structs of steps.
package parquet

import (
	"fmt"
	"reflect"

	"github.com/parquet-go/parquet-go"
)

// kind is the kind of a node's values.
type kind uint8

const (
	unknown kind = iota // only null has been seen
	booleans
	int32s
	int64s
	float32s
	float64s
	texts
	blobs
	jsons
	decimals
	dates
	timestamps
	uuids
	lists
	mappings
	objects
)

// node is a column, or a group of columns.
type node struct {
	kind     kind
	label    string // name of the type in errors: "decimal(12,2)"
	required bool
	digits   int            // of a decimal
	scale    int            // of a decimal: digits after the point
	unit     int64          // of a timestamp: units per second
	fields   []*node        // of an object
	name     string         // as a field
	index    map[string]int // of fields, by name
	item     *node          // of a list, or the values of a mapping
	wide     bool           // inferred: contains an integer that a double can't represent
	first    int            // first leaf column, and the one after the last
	end      int
	rep      int // of a list or mapping: the repetition level of further items
}

// Bounds of a schema.
const (
	mostLevels  = 32 // of nesting
	mostColumns = 10_000
)

// place numbers the leaf columns from first on, and returns their end.
func (n *node) place(first, rep int) int {
	n.first, n.end = first, first
	switch n.kind {
	case objects:
		for _, f := range n.fields {
			n.end = f.place(n.end, rep)
		}
	case lists:
		n.rep = rep + 1
		n.end = n.item.place(first, n.rep)
	case mappings:
		n.rep = rep + 1
		n.end = n.item.place(first+1, n.rep) // after the keys
	default:
		n.end++
	}
	return n.end
}

// add appends a field to an object.
func (n *node) add(f *node) {
	if n.index == nil {
		n.index = map[string]int{}
	}
	n.index[f.name] = len(n.fields)
	n.fields = append(n.fields, f)
}

// schema returns the node for the library.
func (n *node) schema() parquet.Node {
	of := n.bare()
	if n.required {
		return of
	}
	return parquet.Optional(of)
}

func (n *node) bare() parquet.Node {
	switch n.kind {
	case objects:
		g := group{}
		for _, f := range n.fields {
			g.fields = append(g.fields, field{f.schema(), f.name})
		}
		return g
	case lists:
		return parquet.List(n.item.schema())
	case mappings:
		return parquet.Map(parquet.String(), n.item.schema())
	case texts, unknown:
		return parquet.Encoded(parquet.String(), &parquet.RLEDictionary)
	case decimals:
		return parquet.Decimal(n.scale, n.digits, decimalType(n.digits))
	case timestamps:
		return parquet.Timestamp(unitOf(n.unit))
	}
	return leaves[n.kind]()
}

// leaves are the kinds of columns without parameters.
var leaves = map[kind]func() parquet.Node{
	booleans: func() parquet.Node { return parquet.Leaf(parquet.BooleanType) },
	int32s:   func() parquet.Node { return parquet.Int(32) },
	int64s:   func() parquet.Node { return parquet.Int(64) },
	float32s: func() parquet.Node { return parquet.Leaf(parquet.FloatType) },
	float64s: func() parquet.Node { return parquet.Leaf(parquet.DoubleType) },
	blobs:    func() parquet.Node { return parquet.Leaf(parquet.ByteArrayType) },
	jsons:    parquet.JSON,
	dates:    parquet.Date,
	uuids:    parquet.UUID,
}

// decimalType returns the smallest type for so many digits.
func decimalType(digits int) parquet.Type {
	switch {
	case digits <= 9:
		return parquet.Int32Type
	case digits <= 18:
		return parquet.Int64Type
	}
	return parquet.FixedLenByteArrayType(wideDecimal)
}

// wideDecimal is the size of decimals beyond 64 bits, in bytes.
const wideDecimal = 16

func unitOf(perSecond int64) parquet.TimeUnit {
	switch perSecond {
	case 1e3:
		return parquet.Millisecond
	case 1e6:
		return parquet.Microsecond
	}
	return parquet.Nanosecond
}

// group is an object that keeps the order of its fields. A parquet.Group sorts them.
type group struct {
	parquet.Group
	fields []parquet.Field
}

func (g group) Fields() []parquet.Field { return g.fields }

// GoType returns any: rows are not made of Go values.
func (g group) GoType() reflect.Type { return reflect.TypeFor[map[string]any]() }

func (g group) String() string { return fmt.Sprintf("group of %d fields", len(g.fields)) }

type field struct {
	parquet.Node
	name string
}

func (f field) Name() string { return f.name }

// Value is for rows of Go values.
func (field) Value(reflect.Value) reflect.Value { return reflect.Value{} }
