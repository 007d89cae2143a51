package jsonschema

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/schema"
)

// Keywords are the keywords of JSON Schema, in all drafts.
var Keywords = strings.Fields(`$schema $id id $ref $defs definitions $anchor $dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor
	$vocabulary $comment type enum const multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern
	items prefixItems additionalItems unevaluatedItems maxItems minItems uniqueItems contains maxContains minContains
	maxProperties minProperties required properties patternProperties additionalProperties unevaluatedProperties propertyNames
	dependencies dependentRequired dependentSchemas allOf anyOf oneOf not if then else format
	contentEncoding contentMediaType contentSchema title description default examples deprecated readOnly writeOnly`)

// FromNode converts a configuration value to the form of encoding/json, with numbers as json.Number and with placeholders
// resolved. d collects problems.
func FromNode(d *schema.Decoder, n *schema.Node) any {
	switch n.Kind {
	case schema.MapNode:
		m := make(map[string]any, len(n.Keys))
		for k, key := range n.Keys {
			if _, twice := m[key.Text]; twice {
				d.Report(key, schema.Problem{Code: schema.DuplicateKey,
					Message: fmt.Sprintf("key %q is given twice", key.Text), Remedy: "remove one"})
			}
			m[key.Text] = FromNode(d, n.Items[k])
		}
		return m
	case schema.ListNode:
		list := make([]any, len(n.Items))
		for k, item := range n.Items {
			list[k] = FromNode(d, item)
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
		return spelled(d, n, text)
	}
	return text
}

func isNumber(text string) bool {
	var number json.Number
	return text != "" && text[0] != '"' && text != "null" && json.Unmarshal([]byte(text), &number) == nil
}

// spelled keeps the spelling of numbers if JSON has it, too.
func spelled(d *schema.Decoder, n *schema.Node, text string) any {
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
