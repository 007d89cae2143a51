package yamltext

import (
	"os"
	"path/filepath"
	"testing"
)

func TestASyntaxErrorIsShownWhereItIs(t *testing.T) {
	tests := []struct {
		name, text string
		line, col  int
	}{
		{"a tab indents", "a:\n\tb: 1\n", 2, 1},
		{"a tab indents behind spaces", "a:\n  b: 1\n  \tc: 2\n", 3, 3},
		{"no space behind a colon", "a:b\nc: d\n", 1, 2},
		{"no space behind a nested colon", "engine:\n  workers:8\n  order_by: x\n", 2, 10},
		{"a bracket is left open", "a: [1, 2\nb: 3\n", 1, 4},
		{"a brace is left open in a list", "p:\n  - set: {a: 1\n  - filter: b\n", 2, 10},
		{"a bracket is left open at the end", "a: [1, 2\n", 1, 4},
		{"a double quote is left open", "a: \"x\nb: c\n", 1, 4},
		{"a single quote is left open", "a: 'x\n", 1, 4},
		{"a quote is left open and another one closes it", "a: \"x\nb: \"y\"\n", 1, 4},
		{"a colon in a plain value", "a: b: c\n", 1, 5},
		{"an at sign begins a value", "x: 1\na: @foo\n", 2, 4},
		{"a percent sign begins a value", "x: 1\na: %foo\n", 2, 4},
		{"a backtick begins a value", "a: `x`\n", 1, 4},
		{"an indent that fits nowhere", "a:\n  b: 1\n c: 2\n", 3, 2},
		{"a key between list items", "a:\n  - b\n c\n", 3, 2},
		{"a bracket too many", "a: [b, c]]\n", 1, 10},
		{"a bracket closed by a brace", "a: {b: [c}\n", 1, 10},
		{"an apostrophe in single quotes", "x: 1\na: 'it's'\n", 2, 8},
		{"an expression that begins with a quote", "x: 1\na: \"a\" == b\n", 2, 8},
		{"an expression that begins with a star", "x: 1\na: *foo\n", 2, 4},
		{"an expression that begins with a star and goes on", "a: *x > 3\n", 1, 4},
		{"an expression that begins with a tag and an ampersand", "x: 1\na: !paid && b\n", 2, 4},
		{"an expression that begins with a tag and a bar", "a: !paid || b\n", 1, 4},
		{"an expression that begins with a tag and a comparison", "a: !n > 5\n", 1, 4},
		{"an expression that begins with a bracket", "x: 1\na: [a] == b\n", 2, 8},
		{"a regular expression in double quotes", "a: \"\\d+\"\n", 1, 5},
		{"a value and deeper keys", "a: 1\n  b: 2\n", 2, 3},
		{"text behind a block's sign", "a: |x\n b\n", 1, 5},
		{"a key beside list items", "- a\nb: c\n", 2, 1},
		{"a list item beside keys", "a: b\n- c\n", 2, 1},
		{"a list behind its key", "a: - b\n", 1, 4},
		{"a question mark in braces", "a: {x: a ? b : c}\n", 1, 10},
		{"an index in braces", "a: {x: b[0]}\n", 1, 9},
		{"a comma is missing in braces", "a: {x: 1 y: 2}\n", 1, 11},
		{"text without a colon", "key: value\nother\nx: 1\n", 2, 1},
		{"an equals sign for the colon", "key: value\nworkers = 8\nx: 1\n", 2, 1},
		{"columns count characters", "é: ü\nb: ää: c\n", 2, 6},
		{"a value before an unclosed bracket in the next line", "é: ü [\nb: ]\n", 2, 4},
		{"a bracket begins a value", "a: b\nc: ] d\n", 2, 4},
		{"a bracket begins a line", "a: b\n] c: d\n", 2, 1},
		{"a comma begins a line", "a:\n  b: c\n  ,d: e\n", 3, 3},
		{"a comma with nothing in front of it", "a: {b: 1, , c: 2}\n", 1, 11},
		{"a bar in braces", "a: {b: |c}\n", 1, 8},
		{"a comma is missing behind a brace", "a: {b: {} c: d}\n", 1, 11},
		{"a key without a name, and a tab", "a: b\n\tc: d\n", 2, 1},
		{"a tag that is none", "a: !<\n", 1, 4},
		{"a directive", "%YAML 1.3\n---\na: b\n", 1, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root, problems := Parse("f.yaml", []byte(tt.text))
			if root != nil || len(problems) != 1 {
				t.Fatalf("parse gives %v, %v, want one problem", root, problems)
			}
			p := problems[0]
			if p.Pos.Line != tt.line || p.Pos.Col != tt.col {
				t.Errorf("%v: want it at %d:%d", p, tt.line, tt.col)
			}
			if p.Remedy == "" || p.Code != "yaml-syntax" {
				t.Errorf("%v: want a remedy and the code yaml-syntax", p)
			}
		})
	}
}

// What precedes a mistake must not be taken for one.
func TestDiagnoseFindsNothingInGoodYAML(t *testing.T) {
	texts := []string{`
# a comment
"quoted key": 'it''s, and more'
name: a:b   # c: d
url: http://host:80/x?y=[1]&z={2}
list:
- a: 1
  b: 2
- - nested
  - items
- "quoted": x
  'single ''q''': y
flow: {a: [1, {b: c}], "d:e": 'f, g', h: "i \" ] }", j: k}
flow over lines: [
  a, b,   # with: a comment
  {c: d,
   e: f},
  g
]
deep:
    deeper:
        deepest: x
    next: y
literal: |
  a: b: c
    [ ' " {
  - @
 
  %
folded: >-
  a
after: |2
    two more
plain: one
  two three
  four
quoted: "one
  two: three
  - four"
single: 'a
  # no comment'
empty:
also empty: ~
anchor: &x {a: b}
alias: *x
merged:
  <<: *x
tag: !!str 5
tagged list: !!seq
  - a
question: a?b
number sign: a#b
dash: -1
dashes: --- x
tilde: ~
windows: "C:\\x\u00e4\x41"
colon at the end: "a:"
star: 'a * b'
` + "crlf: a\r\nnext: b\r\n", `
? complex
: value
`, "- a\n-\n  b: c\n-\n  - d\n", "a: [b]\nc: {}\nd: []\n", "{a: b, c: {d: [e, f]}}\n", "a:\n  - b: |\n      x\n    c: d\n  - e\n",
		"a: {b: 'c'}\n...\n", "a: { x: 1, }\n", "\"a\": [\n'b', \"c\"]\n"}
	for _, text := range texts {
		if _, _, err := documents(text); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if f := diagnose(text); f != nil {
			t.Errorf("%v: %s (%s) in\n%s", newSource("f", text).Pos(f.off), f.message, f.remedy, text)
		}
	}
	cases, err := filepath.Glob("../testdata/[^s]*.yaml") // not those of syntax
	if err != nil || len(cases) == 0 {
		t.Fatal(cases, err)
	}
	for _, path := range cases {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := documents(string(text)); err == nil && diagnose(string(text)) != nil {
			t.Errorf("%s: %+v", path, diagnose(string(text)))
		}
	}
}
