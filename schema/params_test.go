package schema_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/schema"
)

// ofParams decodes a value with parameters in force.
type ofParams struct {
	params *schema.Params
	into   any
}

func (b *ofParams) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	type fields struct {
		Text string            `yaml:"text"`
		Wait time.Duration     `yaml:"wait"`
		Map  map[string]string `yaml:"map"`
	}
	var f fields
	d.DecodeAt(n, d.Bind(n, b.params), &f)
	b.into = f.Text + "|" + f.Wait.String() + "|" + f.Map["x-trace.a"]
}

func TestParametersInValuesAndKeys(t *testing.T) {
	param := func(text string, as schema.ParamType) schema.Param {
		return schema.Param{Value: &schema.Node{Kind: schema.TextNode, Text: text}, As: as}
	}
	doubled := &schema.Params{By: map[string]schema.Param{"big": param(strings.Repeat("x", 1000), schema.AsValue)}}
	for range 30 { // each value is twice the one around it
		doubled = &schema.Params{Outer: doubled, By: map[string]schema.Param{
			"big": param("${param.big}${param.big}", schema.AsValue)}}
	}
	values := &schema.Params{Of: "list", Outer: doubled, By: map[string]schema.Param{
		"name": param("trace", schema.AsValue), "n": param("5", schema.AsValue), "structure": param("a.b", schema.AsValue),
		"path": param("trace.a", schema.AsPath), "code": param("a + 1", schema.AsCode),
		"env": param("${NAME}", schema.AsValue), "big": param("${param.big}", schema.AsValue),
	}}
	tests := []struct{ name, in, want string }{
		{"a value and a number", `{"text": "a ${param.name}", "wait": "${param.n}s"}`, "a trace|5s|"},
		{"a placeholder in a value", `{"text": "${param.env}"}`, "orders|0s|"},
		{"a default that is a parameter", `{"text": "${NONE:-${param.name}}"}`, "trace|0s|"},
		{"an escape", `{"text": "$${param.name}"}`, "${param.name}|0s|"},
		{"a name in a key", `{"map": {"x-${param.name}.a": "1"}}`, "|0s|1"},
		{"a path in a key", `{"map": {"x-${param.path}": "2"}}`, "|0s|2"},
		{"structure in a key", `{"map": {"${param.structure}": "1"}}`, `"a.b" (from ${param.structure}) is not a name`},
		{"an expression in a key", `{"map": {"${param.code}": "1"}}`, "is an expression, which can't be part of a key"},
		{"an expression in text", `{"text": "${param.code}"}`, "is an expression, which has no place here"},
		{"a field that is chosen", `{"${param.name}": "1"}`, "a parameter can't choose a field"},
		{"what doubles without end", `{"text": "${param.big}"}`, "is longer than 1 MiB"},
		{"a placeholder in a key", `{"map": {"${NAME}": "1"}}`, "a placeholder in the key"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, b := schema.NewDecoder(lookup), &ofParams{params: values}
			d.Decode(parse(t, tt.in), b)
			got, _ := b.into.(string)
			for _, p := range d.Problems() {
				got = p.String()
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestParametersTravelAsJSON(t *testing.T) {
	n := &schema.Node{Kind: schema.TextNode, Text: "${param.a}", Params: &schema.Params{Of: "list",
		By:    map[string]schema.Param{"a": {Value: &schema.Node{Kind: schema.TextNode, Text: "<${param.b}>"}}},
		Outer: &schema.Params{By: map[string]schema.Param{"b": {Value: &schema.Node{Kind: schema.IntNode, Text: "7"}}}}}}
	text, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	var there schema.Node
	if err := json.Unmarshal(text, &there); err != nil {
		t.Fatal(err)
	}
	var got string
	d := schema.NewDecoder(lookup)
	if d.Decode(&there, &got); got != "<7>" || len(d.Problems()) > 0 {
		t.Errorf("got %q, %v", got, d.Problems())
	}
}
