// Package avro converts Avro's binary form to JSON text and back. Start at [Compile]. The options of steps are
// [Reads] and [Writes].
package avro

import (
	"fmt"
	"slices"
	"strings"

	twmb "github.com/twmb/avro"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/registry"
)

// kind says how a value is written and shown.
type kind uint8

const (
	null kind = iota
	boolean
	integer // int
	long
	float
	double
	blob // bytes
	text // string
	record
	enum
	array
	mapping
	union
	fixed
	decimal // of bytes, or of fixed if it has a size
	uuid    // of fixed; a UUID in a string is text
	date
	timeOfDay
	timestamp
	duration
)

// node is one type of a schema. It is immutable once compiled.
type node struct {
	kind kind
	name string // in errors: "long", "com.shop.Order"

	fields   []field        // of a record
	needed   int            // number of fields that a document must have
	index    map[string]int // of names of fields, or of symbols
	symbols  []string
	item     *node // of an array or a mapping
	branches []*node
	size     int  // of fixed
	wide     bool // a time in a long
	unit     int  // of a time: units per second
	local    bool // a timestamp without a zone

	precision, scale int // of a decimal
}

// field is one field of a record.
type field struct {
	name  string
	key   []byte // `,"name":`
	of    *node
	fills []byte // its value if a document lacks it; nil: it is required
}

// Program is a compiled schema. It is a codec, safe for concurrent use.
type Program struct {
	root    *node
	parsed  *twmb.Schema
	unknown bool // leave out fields of a document that are not in the schema
}

// Options are how a schema is compiled.
type Options struct {
	Raw         bool // show dates and other logical types as their numbers and bytes
	DropUnknown bool
}

// Compile compiles a schema.
func Compile(s *engine.Schema, o Options) (*Program, error) {
	if err := bounded(s); err != nil {
		return nil, fmt.Errorf("not an Avro schema: %w", err)
	}
	var cache twmb.SchemaCache
	for _, needed := range s.Needs {
		if _, err := cache.Parse(needed.Text); err != nil {
			return nil, fmt.Errorf("%s: %w", needed.Name, reason(err))
		}
	}
	parsed, err := cache.Parse(s.Text)
	if err != nil {
		return nil, reason(err)
	}
	return compile(parsed, o)
}

// bounded checks the size of a schema before the library parses it: the library has no limits.
func bounded(s *engine.Schema) error {
	const marks, most = "{[,", 60_000
	texts := registry.Texts(s)
	if err := registry.Bounded(texts, marks, most); err != nil {
		return err
	}
	for _, text := range texts {
		var d doc.Doc
		if d.Reset([]byte(text), nil); strings.ContainsAny(text, "{[") {
			if err := d.Valid(); err != nil {
				return err
			}
		}
	}
	return expands(texts)
}

func compile(parsed *twmb.Schema, o Options) (*Program, error) {
	c := compiler{raw: o.Raw, named: map[string]*node{}, whole: map[*node]*twmb.Schema{}}
	root, err := c.node(parsed.Root(), "")
	if err != nil {
		return nil, err
	}
	return &Program{root: root, parsed: parsed, unknown: o.DropUnknown}, nil
}

// reason removes the library's name from its error.
func reason(err error) error {
	return fmt.Errorf("not an Avro schema: %s", strings.TrimPrefix(err.Error(), "avro: "))
}

// Record returns the full name of the schema's record, or of another named type, or "".
func (p *Program) Record() string {
	if slices.Contains([]kind{record, enum, fixed}, p.root.kind) {
		return p.root.name
	}
	return ""
}

type compiler struct {
	raw   bool
	named map[string]*node
	whole map[*node]*twmb.Schema // types of defaults, on their own
	again int                    // types that the library parsed again for defaults
}

// mostAgain bounds types that are parsed again: nested records may all be defaults.
const mostAgain = 60_000

var primitives = map[string]kind{"null": null, "boolean": boolean, "int": integer, "long": long, "float": float,
	"double": double, "bytes": blob, "string": text}

func (c *compiler) node(s *twmb.SchemaNode, space string) (*node, error) {
	if k, ok := primitives[s.Type]; ok {
		return c.logical(s, &node{kind: k, name: s.Type}), nil
	}
	n := &node{name: s.Type}
	switch s.Type {
	case "record", "error", "enum", "fixed":
		space = s.Namespace
		if n.name = s.Name; space != "" && !strings.Contains(s.Name, ".") {
			n.name = space + "." + s.Name
		}
		c.named[n.name] = n
		return n, c.define(s, n, space)
	case "array", "map":
		of := s.Items
		if n.kind = array; s.Type == "map" {
			n.kind, of = mapping, s.Values
		}
		var err error
		n.item, err = c.node(of, space)
		return n, err
	case "union":
		n.kind = union
		for i := range s.Branches {
			b, err := c.node(&s.Branches[i], space)
			if err != nil {
				return nil, err
			}
			n.branches = append(n.branches, b)
		}
		return n, nil
	}
	if known := c.named[space+"."+s.Type]; known != nil && !strings.Contains(s.Type, ".") {
		return known, nil
	}
	if known := c.named[s.Type]; known != nil {
		return known, nil
	}
	return nil, fmt.Errorf("not an Avro schema: unknown type %q", s.Type)
}

// define completes a named type. It may be in use already, in itself.
func (c *compiler) define(s *twmb.SchemaNode, n *node, space string) error {
	n.index = map[string]int{}
	switch s.Type {
	case "enum":
		n.kind, n.symbols = enum, s.Symbols
		for i, symbol := range s.Symbols {
			n.index[symbol] = i
		}
		return nil
	case "fixed":
		n.kind, n.size = fixed, s.Size
		c.logical(s, n)
		return nil
	}
	n.kind = record
	for i := range s.Fields {
		f := &s.Fields[i]
		of, err := c.node(&f.Type, space)
		if err != nil {
			return err
		}
		own := field{name: f.Name, key: append(doc.AppendString(nil, f.Name), ':'), of: of}
		if own.fills, err = c.fills(f, of); err != nil {
			return fmt.Errorf("not an Avro schema: the default of field %q: %w", f.Name, err)
		}
		if own.fills == nil {
			n.needed++
		}
		n.index[f.Name] = i
		n.fields = append(n.fields, own)
	}
	return nil
}

// fills returns the binary default of a field. A nullable field without a default is null.
func (c *compiler) fills(f *twmb.SchemaField, of *node) ([]byte, error) {
	if f.HasDefault {
		s, err := c.schema(f, of)
		if err != nil {
			return nil, err
		}
		return s.AppendEncode([]byte{}, f.Default)
	}
	for i, b := range of.branches {
		if b.kind == null {
			return appendLong(nil, int64(i)), nil
		}
	}
	return nil, nil
}

// schema returns the type of a default on its own.
func (c *compiler) schema(f *twmb.SchemaField, of *node) (*twmb.Schema, error) {
	if known := c.whole[of]; known != nil {
		return known, nil
	}
	if c.again += reachable(of, map[*node]bool{}); c.again > mostAgain {
		return nil, fmt.Errorf("its type consists of too many others (define them before the record, and refer to them)")
	}
	s, err := f.Type.Schema()
	if of.kind == record {
		c.whole[of] = s
	}
	return s, err
}

// reachable returns how many types a type consists of.
func reachable(n *node, seen map[*node]bool) int {
	if n == nil || seen[n] {
		return 0
	}
	sum := 1 + reachable(n.item, seen)
	if len(n.fields)+len(n.branches) > 0 {
		seen[n] = true
	}
	for i := range n.fields {
		sum += reachable(n.fields[i].of, seen)
	}
	for _, b := range n.branches {
		sum += reachable(b, seen)
	}
	return sum
}

const (
	seconds = 1
	millis  = 1e3
	micros  = 1e6
	nanos   = 1e9
)

// logical applies the logical type in the annotation; unknown ones are ignored.
func (c *compiler) logical(s *twmb.SchemaNode, n *node) *node {
	if c.raw || s.LogicalType == "" {
		return n
	}
	units := map[string]int{"millis": millis, "micros": micros, "nanos": nanos}
	family, unit, _ := strings.Cut(strings.TrimPrefix(s.LogicalType, "local-"), "-")
	switch at := units[unit]; {
	case s.LogicalType == "decimal" && (n.kind == blob || n.kind == fixed):
		n.kind, n.precision, n.scale = decimal, s.Precision, s.Scale
	case s.LogicalType == "uuid" && n.kind == fixed && n.size == 16:
		n.kind = uuid
	case s.LogicalType == "duration" && n.kind == fixed && n.size == 12:
		n.kind = duration
	case s.LogicalType == "date" && n.kind == integer:
		n.kind, n.unit = date, seconds
	case s.LogicalType == "time-millis" && n.kind == integer, s.LogicalType == "time-micros" && n.kind == long:
		n.kind, n.unit, n.wide = timeOfDay, at, n.kind == long
	case family == "timestamp" && at != 0 && n.kind == long:
		n.kind, n.unit, n.wide, n.local = timestamp, at, true, s.LogicalType != family+"-"+unit
	default:
		return n
	}
	if n.size == 0 || n.name == s.Type {
		n.name = s.LogicalType
	}
	return n
}
