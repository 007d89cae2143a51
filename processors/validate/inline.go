package validate

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
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
		i.value = value(d, n)
	case schema.BoolNode:
		i.value = value(d, n)
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

// words are the keywords of JSON Schema, in all drafts.
var words = strings.Fields(`$schema $id id $ref $defs definitions $anchor $dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor
	$vocabulary $comment type enum const multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern
	items prefixItems additionalItems unevaluatedItems maxItems minItems uniqueItems contains maxContains minContains
	maxProperties minProperties required properties patternProperties additionalProperties unevaluatedProperties propertyNames
	dependencies dependentRequired dependentSchemas allOf anyOf oneOf not if then else format
	contentEncoding contentMediaType contentSchema title description default examples deprecated readOnly writeOnly`)

// checkWords reports the step's own fields among those of a schema, and a schema without keywords: unknown keywords
// are allowed, so it would match everything.
func checkWords(d *schema.Decoder, n *schema.Node) {
	known := len(n.Keys) == 0
	for _, key := range n.Keys {
		known = known || slices.Contains(words, key.Text)
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

// value converts a node to the form of encoding/json.
func value(d *schema.Decoder, n *schema.Node) any {
	switch n.Kind {
	case schema.MapNode:
		m := make(map[string]any, len(n.Keys))
		for k, key := range n.Keys {
			if _, twice := m[key.Text]; twice {
				d.Report(key, schema.Problem{Code: schema.DuplicateKey,
					Message: fmt.Sprintf("key %q is given twice", key.Text), Remedy: "remove one"})
			}
			m[key.Text] = value(d, n.Items[k])
		}
		return m
	case schema.ListNode:
		list := make([]any, len(n.Items))
		for k, item := range n.Items {
			list[k] = value(d, item)
		}
		return list
	case schema.NullNode:
		return nil
	}
	text, _ := d.Text(n)
	pieces := d.Pieces(n)
	replaced := len(pieces) == 1 && pieces[0].Placeholder // a placeholder alone may have a value of any kind
	switch {
	case n.Kind == schema.BoolNode || replaced && (text == "true" || text == "false"):
		return text == "true" || text == "True" || text == "TRUE"
	case n.Kind == schema.IntNode || n.Kind == schema.FloatNode || replaced && isNumber(text):
		return number(d, n, text)
	}
	return text
}

func isNumber(text string) bool {
	var number json.Number
	return text != "" && text[0] != '"' && text != "null" && json.Unmarshal([]byte(text), &number) == nil
}

// number keeps the spelling of numbers if JSON has it, too.
func number(d *schema.Decoder, n *schema.Node, text string) any {
	if isNumber(text) {
		return json.Number(text)
	}
	if i, err := strconv.ParseInt(text, 0, 64); err == nil {
		return json.Number(strconv.FormatInt(i, 10))
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) || f == 0 && !doc.SpellsZero(text) {
		d.Report(n, schema.Problem{Code: schema.BadValue, Message: strconv.Quote(text) + " is not a JSON number",
			Remedy: "write it in digits, or in quotes for text"})
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
}
