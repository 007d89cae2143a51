package manifest

import (
	"testing"

	"github.com/flowd-io/flowd/config/yamltext"
	"github.com/flowd-io/flowd/schema"
)

func FuzzRead(f *testing.F) {
	f.Add(rate, "{model: small, retry: {times: 2}, words: [a], program: {timeout: 2s}}")
	f.Add("name: x\nkind: input\ncommand: [x]\nconfig: {properties: {a: {$ref: '#'}, b: {default: [1]}}}\nexamples: ['x: {a: 1}']\n",
		"{a: {b: 2}}")
	f.Add("name: x\nkind: output\ncommand: [x]\nconfig: {properties: {a: {items: {const: 1}}, 1: {enum: [a, null]}}}\n", "{a: [2], 1: a}")
	f.Fuzz(func(t *testing.T, text, settings string) {
		m := read("plugin.yaml", []byte(text), func(*manifest) string { return "" }, func(...schema.Problem) {})
		if m == nil {
			return
		}
		if _, err := schema.JSONSchema(m.typ, "", schema.TopLevel{}); err != nil {
			t.Error(err)
		}
		m.typ.Fields()
		n, _ := yamltext.Parse("", []byte(settings))
		if n == nil {
			return
		}
		d := offline()
		if _, ok := m.typ.Decode(d, n).(program); !ok {
			t.Error("the configuration has another type than the component program")
		}
		d.Problems()
	})
}
