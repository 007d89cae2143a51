package yamltext

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flowd-io/flowd/schema"
)

// mustParse gives the nodes of a text without mistakes.
func mustParse(t *testing.T, text string) *schema.Node {
	t.Helper()
	root, problems := Parse("f.yaml", []byte(text))
	if len(problems) > 0 {
		t.Fatalf("parse %q: %v", text, problems)
	}
	return root
}

func TestAScalarKeepsWhatYAMLWouldLose(t *testing.T) {
	tests := []struct {
		name, text string
		want       schema.Node
	}{
		{"text", "a: status >= 500", schema.Node{Kind: schema.TextNode, Text: "status >= 500"}},
		{"a number", "a: 017", schema.Node{Kind: schema.IntNode, Text: "017"}},
		{"a number with underscores is text", "a: 1_000", schema.Node{Kind: schema.TextNode, Text: "1_000"}},
		{"a fraction", "a: 1e3", schema.Node{Kind: schema.FloatNode, Text: "1e3"}},
		{"a truth", "a: True", schema.Node{Kind: schema.BoolNode, Text: "True"}},
		{"yes is text", "a: yes", schema.Node{Kind: schema.TextNode, Text: "yes"}},
		{"nothing", "a:", schema.Node{Kind: schema.NullNode}},
		{"a tilde", "a: ~", schema.Node{Kind: schema.NullNode, Text: "~"}},
		{"a date", "a: 2026-01-01", schema.Node{Kind: schema.TextNode, Text: "2026-01-01", Tag: "!!timestamp"}},
		{"a date in quotes is text", "a: '2026-01-01'",
			schema.Node{Kind: schema.TextNode, Text: "2026-01-01", Style: schema.SingleQuoted}},
		{"a tag that swallows an expression", "a: !paid", schema.Node{Kind: schema.TextNode, Tag: "!paid"}},
		{"a tag in front of a value", "a: !!str 5", schema.Node{Kind: schema.TextNode, Text: "5", Tag: "!!str"}},
		{"a number in quotes is text", `a: "5"`, schema.Node{Kind: schema.TextNode, Text: "5",
			Style: schema.DoubleQuoted}},
		{"a comment that swallows an expression's end", "a: status # >= 500  ",
			schema.Node{Kind: schema.TextNode, Text: "status", Tail: "# >= 500"}},
		{"a comment that swallows an expression", "a: #status", schema.Node{Kind: schema.NullNode, Tail: "#status"}},
		{"a comment behind quotes", "a: 'b # c'  # d",
			schema.Node{Kind: schema.TextNode, Text: "b # c", Style: schema.SingleQuoted, Tail: "# d"}},
		{"a comment behind a value of two lines", "a: b\n  c # d",
			schema.Node{Kind: schema.TextNode, Text: "b c", Tail: "# d"}},
		{"a comment on the next line is nobody's", "a: b\n# c", schema.Node{Kind: schema.TextNode, Text: "b"}},
		{"a number sign inside a word", "a: b#c", schema.Node{Kind: schema.TextNode, Text: "b#c"}},
		{"a folded block", "a: >-\n  b // c\n  d\n",
			schema.Node{Kind: schema.TextNode, Text: "b // c d", Style: schema.Folded}},
		{"a literal block with a comment at its head", "a: | # head\n  b\n",
			schema.Node{Kind: schema.TextNode, Text: "b\n", Style: schema.Literal}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := mustParse(t, tt.text).Items[0]
			got := schema.Node{Kind: n.Kind, Text: n.Text, Style: n.Style, Tag: n.Tag, Tail: n.Tail}
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(schema.Node{})); diff != "" {
				t.Errorf("%q (-want +got):\n%s", tt.text, diff)
			}
		})
	}
}

// Every letter and digit of a value is in the file where At says.
func TestEveryByteOfAScalarHasItsPlace(t *testing.T) {
	tests := []struct{ name, text string }{
		{"plain", "a: status >= 500"},
		{"plain behind other characters", "ärger: größe >= 500 && ü"},
		{"plain of several lines", "a: one\n   two\n\n\n   three  four\n"},
		{"plain behind a tag and an anchor", "a: !!str &x one two"},
		{"plain below its tag", "a: !!str\n  one two"},
		{"single quotes", "a: 'it''s one, it''s two'"},
		{"single quotes of several lines", "a: 'one ''\n\n  two   \n three'"},
		{"double quotes", `a: "one \t\"two\" \x41b \u00e4c \U0001F600d \_e \Lf \Ng"`},
		{"double quotes of several lines", "a: \"one \\\n   two\n\n  three \\\n four\\\n  \\ five\""},
		{"a literal block", "a: |\n  one\n\n    two\n  three\n"},
		{"a literal block with a given indent", "a: |2-\n    one\n   two\n"},
		{"a literal block that begins with empty lines", "a: |\n\n \n  one\n"},
		{"a folded block", "a: >\n  one\n  two\n\n  three\n\n\n  four\n"},
		{"a folded block with deeper lines", "a: >\n  one\n    two\n    three\n\n  four\n\n    five\n  six\n"},
		{"a folded block that keeps its end", "a: >+\n  one\n  two\n\n\n"},
		{"windows line ends", "x: 1\r\na: |\r\n  one\r\n  two\r\nb: 'three\r\n  four'\r\n"},
		{"a flow", "a: [one, {b: two, c: 'three'}]"},
		{"a byte order mark", "\ufeffa: one"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lines := strings.Split(strings.TrimPrefix(tt.text, "\ufeff"), "\n")
			each(mustParse(t, tt.text), func(n *schema.Node) {
				for i, r := range n.Text {
					at := n.At(i)
					if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzäöüß0123456789", r) ||
						strings.Contains(tt.text, `\x41`) && strings.ContainsRune("ä", r) {
						continue
					}
					if got := []rune(lines[at.Line-1])[at.Col-1]; got != r {
						t.Errorf("%q: byte %d is %q, but %v has %q", n.Text, i, r, at, got)
					}
				}
				if end, all := n.At(len(n.Text)), fmt.Sprint(n.At(len(n.Text)+1)); fmt.Sprint(end) != all &&
					n.Style == schema.Plain && end.Line == 0 {
					t.Errorf("%q ends at %v", n.Text, end)
				}
			})
		})
	}
}

// each visits n and all below it.
func each(n *schema.Node, visit func(*schema.Node)) {
	visit(n)
	for _, list := range [][]*schema.Node{n.Keys, n.Items} {
		for _, item := range list {
			each(item, visit)
		}
	}
}

func TestAliasesAndMergeKeysAreWrittenOut(t *testing.T) {
	root := mustParse(t, `
base: &base {a: 1, b: 2}
more: &more {b: 3, c: 4}
own:
  b: 5
  <<: [*base, *more]
same: *base
`)
	own := root.Lookup("own")
	for key, want := range map[string]string{"a": "1", "b": "5", "c": "4"} {
		if got := own.Lookup(key); got == nil || got.Text != want {
			t.Errorf("own.%s is %+v, want %s", key, got, want)
		}
	}
	if got := root.Lookup("same").Lookup("b"); got.Text != "2" || got.Pos.Line != 2 {
		t.Errorf("same.b is %s at %v, want 2 where the anchor is", got.Text, got.Pos)
	}
}

func TestWhatIsNoPipelineFileIsRefused(t *testing.T) {
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'h'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c,
			strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", c-1), 10), ", "))
	}
	tests := []struct {
		name, text string
		want       string
	}{
		{"an empty file", "", "f.yaml:1:1: the file contains no pipeline"},
		{"a file of comments", "# nothing\n", "f.yaml:1:1: the file contains no pipeline"},
		{"an empty document", "---\n", "f.yaml:1:1: the file contains no pipeline"},
		{"a list", "- a\n", "f.yaml:1:1: a pipeline is a mapping, but this is a list"},
		{"text", "hello\n", "f.yaml:1:1: a pipeline is a mapping, but this is text"},
		{"two documents", "a: 1\n---\nb: 2\n", "f.yaml:3:1: a second document begins here"},
		{"a mistake in a second document", "a: 1\n---\nb: @\n", "f.yaml:3:4: a value can't begin with @"},
		{"UTF-16", "\xff\xfea\x00", "f.yaml:1:1: the file is UTF-16"},
		{"bytes that are no text", "a: b\nc: \xff\n", "f.yaml:2:4: the text is not UTF-8 here"},
		{"a NUL", "a: b\nc: d\x00\n", "f.yaml:2:5: the control character U+0000 is not allowed"},
		{"an alias bomb", bomb, "aliases expand to more than 100000 values"},
		{"an alias inside itself", "a: &a [b, *a]\n", "f.yaml:1:11: a[1]: *a is inside the value that it repeats"},
		{"depth", "a: " + strings.Repeat("[", 300) + strings.Repeat("]", 300),
			"f.yaml:1:204: nested more than 200 levels deep"},
		{"a key twice", "a: 1\nb: 2\na: 3\n", `f.yaml:3:1: a: key "a" is given twice, first at 1:1`},
		{"a key twice in braces", "x: {a: 1, a: 2}\n", `f.yaml:1:11: x.a: key "a" is given twice, first at 1:5`},
		{"a list as a key", "x: {[a]: 1}\n", "f.yaml:1:5: x: a list or mapping can't be a key"},
		{"a mapping as a key", "? {a: b}\n: 1\n", "f.yaml:1:3: a list or mapping can't be a key"},
		{"no key", ": 1\n", "f.yaml:1:1: a key is missing"},
		{"a tag at a key", "!x a: 1\n", "f.yaml:1:1: a key can't have the tag !x"},
		{"an alias as a key", "a: &x b\n*x : 1\n", "f.yaml:2:1: the alias *x can't be a key"},
		{"a tag at a mapping", "a: !x {b: 1}\n", "f.yaml:1:4: a: the tag !x has no meaning here"},
		{"a merge of text", "a:\n  <<: b\n", "f.yaml:2:7: a: << takes a mapping"},
		{"a comma that ends a value in braces", "a: {when: f(b, c), d: 1}\n",
			`f.yaml:1:16: a.when: YAML reads "c)" as a separate key`},
		{"brackets by the ten thousand", "a: " + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
			"f.yaml:1:1: nested more than 200 levels deep"},
		{"brackets behind a mistake", "a: b c: d\ne: " + strings.Repeat("[", 30_000) + strings.Repeat("]", 30_000),
			"f.yaml:1:7: "},
		{"dashes by the ten thousand", "a: 1\nb:\n  " + strings.Repeat("- ", 100_000) + "c",
			"nested more than 200 levels deep"},
		{"a list of millions", "a: [" + strings.Repeat("1,", 2_000_000) + "1]", "more than 100000 values in one file"},
		{"millions of comments", strings.Repeat("#\n", 2_000_000) + "a: 1", "more than 100000 values in one file"},
		{"directives that the parser compares with each other", strings.Repeat("%TAG !a! b\n", 1_000) + "---\na: 1",
			"more than 100000 values in one file"},
		{"a long text by its alias", "a: &a |\n  " + strings.Repeat("x", 100_000) + "\nb: [" + strings.Repeat("*a,",
			200) + "]", "aliases expand to more than 16 MiB"},
		{"too large", strings.Repeat("#", MaxFile+1), "f.yaml:1:1: the file is larger than 16 MiB"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, problems := Parse("f.yaml", []byte(tt.text))
			if len(problems) != 1 {
				t.Fatalf("%d problems: %.300v, want one", len(problems), problems)
			}
			if got := problems[0].String(); !strings.Contains(got, tt.want) {
				t.Errorf("got  %.300s\nwant %s", got, tt.want)
			}
			if problems[0].Remedy == "" {
				t.Errorf("%v has no remedy", problems[0])
			}
		})
	}
}
