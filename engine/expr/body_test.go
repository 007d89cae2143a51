package expr

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/schema"
)

// bodyProblem returns the problem that lint finds in a body, or "".
func bodyProblem(t *testing.T, text string) string {
	t.Helper()
	d := schema.NewDecoder(nil)
	var b Body
	d.Decode(&schema.Node{Kind: schema.TextNode, Text: text}, &b)
	if len(d.Problems()) == 0 {
		return ""
	}
	return d.Problems()[0].Message + " (" + d.Problems()[0].Remedy + ")"
}

// same reports whether two bodies are equal, or equal JSON.
func same(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil {
		return reflect.DeepEqual(x, y)
	}
	return string(a) == string(b)
}

type document struct{ doc.Doc }

func (d *document) Document() *doc.Doc { return &d.Doc }

// A template that is refused has a remedy: an expression with the same body.
func TestATemplateIsRefusedWithTheExpressionToWrite(t *testing.T) {
	var d document
	d.Reset([]byte(`{"name": "Ada", "n": 1.5, "o": {"a": [1]}, "say": "it's"}`), nil)
	tests := []struct{ template, code string }{
		{`Hello $(name)!`, `"Hello " + string(name) + "!"`},
		{`$(name)`, `name`},
		{`$( o )`, `o`},
		{`<$(n)>`, `"<" + string(n) + ">"`},
		{`$(name)$(n)`, `string(name) + string(n)`},
		{`say "$(say)"`, `"say \"" + string(say) + "\""`},
		{`{"who":"$(name)","n":$(n)}`, `{"who":string(name),"n":n}`},
		{`{"who":"Dear $(name), \"$(n)\""}`, `{"who":"Dear " + string(name) + ", \"" + string(n) + "\""}`},
		{`{"a\\\\":"$(name)$(n) x","b":"$(n)"}`, `{"a\\\\":string(name) + string(n) + " x","b":string(n)}`},
		{`[$(n),"a"]`, `[n,"a"]`},
		{`{$(name)}`, `"{" + string(name) + "}"`},
		{`it's $(n) $$(x)`, `"it's " + string(n) + " $(x)"`},
	}
	for _, tt := range tests {
		got := bodyProblem(t, tt.template)
		if want := "this is an expression, not a template (write " + inYAML(tt.code) + ")"; got != want {
			t.Errorf("%s: got %s, want %s", tt.template, got, want)
			continue
		}
		template := MustTemplate(tt.template)
		old, err := template.Append(nil, &d)
		if err != nil {
			t.Fatal(err)
		}
		e := MustCompile(tt.code)
		now, err := e.AppendBody(nil, &d)
		if !same(now, old) || err != nil {
			t.Errorf("%s gives %s (%v), the template gave %s", tt.code, now, err, old)
		}
	}
}

func TestWordsAreRefusedAsABody(t *testing.T) {
	for text, want := range map[string]string{
		`Hello world`: `write '"Hello world"'`,
		`It's on!`:    `write '"It''s on!"'`,
		`<ping/>`:     `write '"<ping/>"'`,
		`$(1 +)`:      `write text in quotes`,
		`nope(`:       `the ( before it is not closed`,
		`a and or b`:  `unexpected or`,
	} {
		if got := bodyProblem(t, text); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{`name`, `"Hello " + name`, `{"a": n}`, `a - b`, `1`, `"costs $5 (net)"`} {
		if got := bodyProblem(t, text); got != "" {
			t.Errorf("%s is refused: %s", text, got)
		}
	}
}
