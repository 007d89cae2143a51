package parquet

import (
	"math"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
)

// mostInferred bounds the columns of an inferred schema: each document can name others, and every row has all.
const mostInferred = 1000

// inference finds a schema that fits all documents it has seen.
type inference struct {
	root    *node
	columns int
}

// addDocument takes a document into account. Fields beyond the limit are not in the schema.
func (in *inference) addDocument(document []byte) {
	if in.root == nil {
		in.root = &node{kind: objects, required: true}
	}
	in.members(in.root, document, 1)
}

// schema returns the inferred schema, or nil if there is no field.
func (in *inference) schema() *node {
	if in.root == nil || len(in.root.fields) == 0 {
		return nil
	}
	settle(in.root)
	in.root.place(0, 0)
	return in.root
}

func (in *inference) members(n *node, object []byte, depth int) {
	for name, value := range doc.Members(object) {
		i, ok := n.index[name]
		if !ok {
			if in.columns >= mostInferred {
				if n != in.root {
					in.mix(n)
					return
				}
				continue
			}
			in.columns++
			i = len(n.fields)
			n.add(&node{name: name})
		}
		in.value(n.fields[i], value, depth)
	}
}

// value widens the type of n to include another value.
func (in *inference) value(n *node, value []byte, depth int) {
	seen := seenKind(value)
	switch {
	case seen == unknown || n.kind == jsons:
		return
	case depth > mostLevels && (seen == lists || seen == objects):
		seen = jsons
	}
	if seen == int64s || seen == float64s {
		n.wide = n.wide || seen == int64s && !fitsDouble(value)
		if n.kind == int64s || n.kind == float64s {
			if seen != n.kind {
				seen, n.kind = float64s, float64s
			}
			if n.kind == float64s && n.wide {
				seen = jsons
			}
		}
	}
	switch {
	case n.kind == unknown:
		n.kind = seen
	case n.kind != seen:
		in.mix(n)
	}
	switch n.kind {
	case objects:
		in.members(n, value, depth+1)
	case lists:
		if n.item == nil {
			n.item = &node{}
		}
		for item := range doc.Elements(value) {
			in.value(n.item, item, depth+1)
		}
	}
}

// mix makes n JSON, which fits every value.
func (in *inference) mix(n *node) {
	in.columns -= below(n)
	n.kind, n.fields, n.index, n.item = jsons, nil, nil, nil
}

// below returns the number of fields below n.
func below(n *node) (count int) {
	for _, f := range n.fields {
		count += 1 + below(f)
	}
	if n.item != nil {
		count += below(n.item)
	}
	return count
}

// settle gives types to fields that were always null or empty.
func settle(n *node) {
	for _, f := range n.fields {
		settle(f)
	}
	switch {
	case n.kind == unknown:
		n.kind = texts
	case n.kind == objects && len(n.fields) == 0:
		n.kind = jsons
	case n.kind == lists:
		settle(n.item)
	}
	n.label = labels[n.kind]
}

var labels = map[kind]string{booleans: "bool", int64s: "int64", float64s: "double", texts: "text", jsons: "json", lists: "a list",
	objects: "an object"}

// seenKind returns the narrowest kind of a value.
func seenKind(value []byte) kind {
	switch value[0] {
	case 'n':
		return unknown
	case 't', 'f':
		return booleans
	case '"':
		return texts
	case '{':
		return objects
	case '[':
		return lists
	}
	if !strings.ContainsAny(string(value), ".eE") {
		if _, ok := doc.ParseInt(value); ok {
			return int64s
		}
		return jsons // beyond 64 bits
	}
	if f, ok := doc.ParseFloat(value); !ok || math.IsInf(f, 0) {
		return jsons
	}
	return float64s
}

// fitsDouble reports whether a double represents an integer exactly.
func fitsDouble(value []byte) bool {
	i, _ := doc.ParseInt(value)
	return i >= -1<<53 && i <= 1<<53
}
