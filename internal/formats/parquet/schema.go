package parquet

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/schema"
)

// Schema is a config field: names and types of columns.
type Schema struct{ root *node }

// types lists the types for errors.
const types = "bool, int32, int64, float, double, text, bytes, json, decimal(12,2), date, timestamp(ms|us|ns), uuid, " +
	`[TYPE] for a list, {"*": TYPE} for an object with any keys, or a mapping of names and types`

// UnmarshalConfig decodes a mapping of names and types.
func (s *Schema) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	if n.Kind != schema.MapNode || len(n.Keys) == 0 {
		d.Report(n, schema.Problem{Code: schema.WrongKind, Message: "expected names and types of columns, got " + n.Kind.String(),
			Remedy: "write {id: int64, name: text}; types are " + types})
		return
	}
	root := typed(d, n, 0)
	if root == nil {
		return
	}
	root.required = true
	if columns := root.place(0, 0); columns > mostColumns || root.kind != objects {
		d.Report(n, schema.Problem{Code: schema.BadValue, Message: fmt.Sprintf("has %d columns", columns),
			Remedy: fmt.Sprintf("name up to %d; make objects with many fields json", mostColumns)})
		return
	}
	s.root = root
}

// DescribeConfig describes a mapping.
func (*Schema) DescribeConfig() *schema.Type {
	return schema.AnyOf("names and types", map[string]*schema.Node(nil))
}

// typed parses the type in a node, or returns nil after a report.
func typed(d *schema.Decoder, n *schema.Node, depth int) *node {
	report := func(message string) *node {
		d.Report(n, schema.Problem{Code: schema.BadValue, Message: message, Remedy: "types are " + types})
		return nil
	}
	switch {
	case depth > mostLevels:
		return report(fmt.Sprintf("is nested deeper than %d", mostLevels))
	case n.Kind == schema.TextNode:
		s, ok := d.Text(n)
		if !ok {
			return nil
		}
		of, err := parseType(s)
		if err != nil {
			return report(err.Error())
		}
		return of
	case n.Kind == schema.ListNode && len(n.Items) == 1:
		return around(lists, "a list", typed(d, n.Items[0], depth+1))
	case n.Kind == schema.MapNode && len(n.Keys) == 1 && n.Keys[0].Text == "*" && depth > 0:
		return around(mappings, "an object", typed(d, n.Items[0], depth+1))
	case n.Kind == schema.MapNode && len(n.Keys) > 0:
		return fieldsOf(d, n, depth)
	}
	return report("is " + n.Kind.String() + ", not a type")
}

func around(k kind, label string, item *node) *node {
	if item == nil {
		return nil
	}
	return &node{kind: k, label: label, item: item}
}

func fieldsOf(d *schema.Decoder, n *schema.Node, depth int) *node {
	o := &node{kind: objects, label: "an object"}
	whole := true
	for i, key := range n.Keys {
		if _, twice := o.index[key.Text]; twice {
			d.Report(key, schema.Problem{Code: schema.DuplicateKey, Message: fmt.Sprintf("column %q is given twice", key.Text),
				Remedy: "remove one"})
			continue
		}
		f := typed(d, n.Items[i], depth+1)
		if f == nil {
			whole = false
			continue
		}
		f.name = key.Text
		o.add(f)
	}
	if !whole {
		return nil
	}
	return o
}

// plain are the types without parameters, by name.
var plain = map[string]kind{"bool": booleans, "int32": int32s, "int64": int64s, "float": float32s, "double": float64s, "text": texts,
	"bytes": blobs, "json": jsons, "date": dates, "uuid": uuids}

var units = map[string]int64{"ms": 1e3, "us": 1e6, "ns": 1e9}

var decimalForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^decimal\( *(\d{1,3}) *, *(\d{1,3}) *\)$`) })

// parseType parses a type written as text, such as `decimal(12,2) required`.
func parseType(s string) (*node, error) {
	s, required := strings.CutSuffix(strings.TrimSpace(s), " required")
	n := &node{label: strings.TrimSpace(s), required: required}
	if k, ok := plain[n.label]; ok {
		n.kind = k
		return n, nil
	}
	if m := decimalForm().FindStringSubmatch(n.label); m != nil {
		n.kind = decimals
		n.digits, _ = strconv.Atoi(m[1])
		n.scale, _ = strconv.Atoi(m[2])
		if n.digits < 1 || n.digits > 38 || n.scale > n.digits {
			return nil, fmt.Errorf("%s is not a decimal of 1 to 38 digits, with up to as many after the point", n.label)
		}
		return n, nil
	}
	unit := "us"
	if n.label != "timestamp" {
		unit = strings.TrimSuffix(strings.TrimPrefix(n.label, "timestamp("), ")")
	}
	if n.unit = units[unit]; n.unit == 0 || n.label != "timestamp" && n.label != "timestamp("+unit+")" {
		return nil, fmt.Errorf("%.60q is not a type", s)
	}
	n.kind = timestamps
	return n, nil
}
