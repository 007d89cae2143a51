package validate

import (
	"slices"
	"strconv"

	"github.com/flowd-io/flowd/internal/formats/jsonschema"
	"github.com/flowd-io/flowd/schema"
)

// Inline is a config field that holds a JSON Schema, written in YAML, or the name of its file.
type Inline struct {
	value any    // in the form of encoding/json
	file  string // instead of value
	given bool
}

// UnmarshalConfig decodes a mapping, true or false, or a file name.
func (i *Inline) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	i.given = true
	switch n.Kind {
	case schema.MapNode:
		checkWords(d, n)
		i.value = jsonschema.FromNode(d, n)
	case schema.BoolNode:
		i.value = jsonschema.FromNode(d, n)
	case schema.TextNode:
		var ok bool
		if i.file, ok = d.Text(n); ok && i.file == "" {
			d.Report(n, schema.Problem{Code: schema.BadValue, Message: "the file's name is empty",
				Remedy: "write `validate: orders.schema.json`, or the schema itself: {type: object, …}"})
		}
	default:
		d.Report(n, schema.Problem{Code: schema.WrongKind, Message: "expected a JSON Schema, got " + n.Kind.String(),
			Remedy: "write {type: object, …}, or a file's name"})
	}
}

// checkWords reports the step's own fields among those of a schema, and a schema without keywords: unknown keywords
// are allowed, so it would match everything.
func checkWords(d *schema.Decoder, n *schema.Node) {
	known := len(n.Keys) == 0
	for _, key := range n.Keys {
		known = known || slices.Contains(jsonschema.Keywords, key.Text)
		if key.Text == "file" || key.Text == "schema" || key.Text == "draft" {
			d.Report(key, schema.Problem{Code: schema.UnknownField,
				Message: strconv.Quote(key.Text) + " is next to a key that the step does not have",
				Remedy:  "the step has file, schema, draft, format; put the schema itself under `schema`"})
			return
		}
	}
	if !known {
		d.Report(n.Keys[0], schema.Problem{Code: schema.UnknownField, Message: strconv.Quote(n.Keys[0].Text) +
			" is not a keyword of JSON Schema", Remedy: "write {type: object, required: [id]}, or a file's name"})
	}
}

// DescribeConfig describes a mapping, true or false, or a file name.
func (i *Inline) DescribeConfig() *schema.Type {
	return schema.AnyOf("JSON Schema or PATH", "", map[string]*schema.Node(nil), false)
}
