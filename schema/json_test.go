package schema_test

import (
	"strings"
	"testing"

	"github.com/flowd-io/flowd/schema"
)

func parse(t testing.TB, text string) *schema.Node {
	t.Helper()
	n, err := schema.ParseJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestParseJSON(t *testing.T) {
	n := parse(t, "{\n  \"b\": [1, 2.5, \"ü\", null],\n  \"a\": {\"b\": true}, \"b\": \"\"\n}")
	if got := []string{n.Keys[0].Text, n.Keys[1].Text, n.Keys[2].Text}; strings.Join(got, "") != "bab" {
		t.Errorf("keys are %q, want them in order and twice where they stand twice", got)
	}
	items := n.Items[0].Items
	if got, want := items[1].Pos, (schema.Pos{Line: 2, Col: 12}); got != want {
		t.Errorf("2.5 is at %v, want %v", got, want)
	}
	if got, want := items[3].Pos, (schema.Pos{Line: 2, Col: 22}); got != want {
		t.Errorf("null is at %v, want %v: columns count characters", got, want)
	}
	kinds := []schema.NodeKind{items[0].Kind, items[1].Kind, items[2].Kind, items[3].Kind, n.Items[1].Items[0].Kind}
	want := []schema.NodeKind{schema.IntNode, schema.FloatNode, schema.TextNode, schema.NullNode, schema.BoolNode}
	for i := range want {
		if kinds[i] != want[i] {
			t.Errorf("kind %d is %v, want %v", i, kinds[i], want[i])
		}
	}
	if got, want := n.Items[1].Excerpt(n.Items[1].Pos), `  "a": {"b": true}, "b": ""`; got != want {
		t.Errorf("the line is %q, want %q", got, want)
	}
}

func TestParseJSONPlacesBytesBehindEscapes(t *testing.T) {
	n := parse(t, `"a\n\ud83d\ude00é\"x"`)
	if n.Text != "a\n😀é\"x" {
		t.Fatalf("text is %q", n.Text)
	}
	for part, col := range map[string]int{"a": 2, "\n": 3, "😀": 5, "é": 17, "\"": 18, "x": 20} {
		if got := n.At(strings.Index(n.Text, part)).Col; got != col {
			t.Errorf("%q is at column %d, want %d", part, got, col)
		}
	}
}

func TestParseJSONErrorsNameThePlace(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"a word", "{\"a\":\n oops}", "2:2: "},
		{"two values", "1 2", "1:3: expected only one value"},
		{"an end too early", "[1,", "1:4: unexpected EOF"},
		{"nothing", "", "1:1: unexpected EOF"},
		{"no end of depth", strings.Repeat("[", 5000), "nested too deep"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := schema.ParseJSON(test.text)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q in it", err, test.want)
			}
		})
	}
}
