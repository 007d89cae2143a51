package expr

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
	"github.com/flowd-io/flowd/schema"
)

// field is a configuration struct with one field of each kind.
type field struct {
	Expr     Expr     `yaml:"expr"`
	Cond     Cond     `yaml:"cond"`
	Template Template `yaml:"template"`
	Scoped   Expr     `yaml:"scoped" scope:"batch,output"`
}

var environment = map[string]string{
	"TEXT": "prod", "NUMBER": "5", "NEGATIVE": "-1.5", "LARGE": "18446744073709551616", "TRUE": "true", "NULL": "null",
	"CODE": `" or true or "`, "TICK": "a` or `b", "QUOTE": `it's "it" \ ` + "\n", "EMPTY": "", "PART": "$(secret)",
	"CALL":  "upper(name)",
	"ZEROS": "007", "SECRET": "hunter2", "PAREN": `") + upper(name) + ("`, "BACKSLASH": `\`,
	"MIN": "-9223372036854775808", "GROUP": "$hunter2", "VERB": "%hunter2", "PATTERN": "(hunter2",
}

// scalar returns a node as if read from line 7, column 11 of a file.
func scalarNode(key, text string, edit ...func(*schema.Node)) *schema.Node {
	n := &schema.Node{Kind: schema.TextNode, Text: text, Pos: schema.Pos{File: "p.yaml", Line: 7, Col: 11}}
	for _, e := range edit {
		e(n)
	}
	return &schema.Node{
		Kind:  schema.MapNode,
		Keys:  []*schema.Node{{Kind: schema.TextNode, Text: key, Pos: schema.Pos{File: "p.yaml", Line: 7, Col: 3}}},
		Items: []*schema.Node{n},
	}
}

func decodeField(n *schema.Node) (field, []string) {
	var f field
	d := schema.NewDecoder(func(name string) (string, bool, error) {
		v, ok := environment[name]
		return v, ok, nil
	})
	d.Decode(n, &f)
	var problems []string
	for _, p := range d.Problems() {
		problems = append(problems, p.String())
	}
	return f, problems
}

func TestPlaceholders(t *testing.T) {
	tests := []struct {
		name, src string
		want      any
	}{
		{"a text", `"prod" == ${TEXT}`, true},
		{"a number", `${NUMBER} + 1`, 6},
		{"a negative number", `3 -${NEGATIVE}`, 4.5},
		{"a negative base", `${NEGATIVE} ** 2`, 2.25},
		{"a large number", `this.big == ${LARGE}`, true},
		{"the least integer", `${MIN} < 0`, true},
		{"true", `not ${TRUE}`, false},
		{"null", `${NULL} == nil`, true},
		{"nothing", `${EMPTY} == ""`, true},
		{"leading zeros make a text", `${ZEROS} == "007"`, true},
		{"code is text", `${CALL}`, "upper(name)"},
		{"code with quotes is text", `${CODE} == "x"`, false},
		{"in quotes it is text", `"a-${TEXT}-b"`, "a-prod-b"},
		{"in quotes it cannot close them", `"${CODE}" == "x"`, false},
		{"in single quotes", `'${QUOTE}'`, "it's \"it\" \\ \n"},
		{"in double quotes", `"${QUOTE}"`, "it's \"it\" \\ \n"},
		{"in backticks", "`${TICK}`", "a` or `b"},
		{"a backslash before the closing quote", `"${BACKSLASH}" + "x"`, `\x`},
		{"behind an escaped quote", `"\"${CODE}"`, `"` + environment["CODE"]},
		{"in a comment", "1 // ${QUOTE}\n + 1", 2},
		{"an escape is no placeholder", `"$${NUMBER}"`, "${NUMBER}"},
		{"a list of them", `${NUMBER} in [${NUMBER}, ${TEXT}]`, true},
		{"a key", `{a: ${TEXT}}.a`, "prod"},
		{"an index", `list[${NUMBER}]`, nil},
		{"a field by name", `this[${TEXT}]`, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f, problems := decodeField(scalarNode("expr", test.src))
			if len(problems) > 0 {
				t.Fatalf("%s: got problems %q", test.src, problems)
			}
			got, err := f.Expr.Eval(exprtest.NewMessage(exprtest.Sample))
			if err != nil || got != test.want {
				t.Errorf("%s: got %#v, %v, want %#v", test.src, got, err, test.want)
			}
			if f.Expr.String() != test.src {
				t.Errorf("String() = %s, want it as written", f.Expr.String())
			}
		})
	}
}

func TestPlaceholdersInTemplates(t *testing.T) {
	tests := []struct{ src, want string }{
		{`a/${TEXT}/$(name)`, `a/prod/Ann`},
		{`a/${PART}/$(name)`, `a/$(secret)/Ann`},
		{`$${TEXT}$(name)`, `${TEXT}Ann`},
		{`$(name + ${TEXT})`, `Annprod`},
		{`$(name + "${PAREN}")`, `Ann") + upper(name) + ("`},
		{`$(name + ${PAREN})`, `Ann") + upper(name) + ("`},
	}
	for _, test := range tests {
		f, problems := decodeField(scalarNode("template", test.src))
		got, err := f.Template.Text(exprtest.NewMessage(exprtest.Sample))
		if len(problems) > 0 || err != nil || got != test.want {
			t.Errorf("%s: got %q, %v, %q, want %q", test.src, got, err, problems, test.want)
		}
	}
}

func TestProblems(t *testing.T) {
	style := func(s schema.Style) func(*schema.Node) { return func(n *schema.Node) { n.Style = s } }
	tag := func(tag string) func(*schema.Node) { return func(n *schema.Node) { n.Tag = tag } }
	tail := func(tail string) func(*schema.Node) { return func(n *schema.Node) { n.Tail = tail } }
	list := func(n *schema.Node) {
		n.Kind = schema.ListNode
		n.Items = []*schema.Node{{Kind: schema.TextNode, Text: "a"},
			{Kind: schema.TextNode, Text: "b", Style: schema.DoubleQuoted}}
	}
	mapping := func(n *schema.Node) {
		n.Kind = schema.MapNode
		n.Keys = []*schema.Node{{Kind: schema.TextNode, Text: "a"}}
		n.Items = []*schema.Node{{Kind: schema.IntNode, Text: "1"}}
	}
	// lines returns where bytes of the text are on another line of the file.
	lines := func(breaks ...int) func(*schema.Node) {
		return func(n *schema.Node) {
			n.Offset = func(i int) schema.Pos {
				p := schema.Pos{File: "p.yaml", Line: 7, Col: 11 + utf8.RuneCountInString(n.Text[:i])}
				for _, b := range breaks {
					if i >= b {
						p.Line, p.Col = p.Line+1, 5+i-b
					}
				}
				return p
			}
		}
	}
	tests := []struct {
		name string
		node *schema.Node
		want string // "": no problem
	}{
		{"an error has its place", scalarNode("expr", `status = 500`),
			`p.yaml:7:18: expr: unexpected = (write == to compare) [expression]`},
		{"also in another line", scalarNode("expr", "status > 1 and a = 1", lines(15)),
			`p.yaml:8:7: expr: unexpected = (write == to compare) [expression]`},
		{"behind a placeholder", scalarNode("expr", `${LARGE} == 1 = 2`),
			`p.yaml:7:25: expr: unexpected = (write == to compare) [expression]`},
		{"a type error", scalarNode("expr", `upper(5)`),
			`p.yaml:7:11: expr: upper() needs text, not number 5 [expression]`},
		{"a placeholder of a wrong type", scalarNode("expr", `upper(${NUMBER})`),
			`p.yaml:7:11: expr: upper() needs text, not number [expression]`},
		{"its value does not show", scalarNode("expr", `"${SECRET}" > 1`),
			`p.yaml:7:23: expr: cannot compare text with number 1 using > [expression]`},
		{"nor behind an operator", scalarNode("expr", `("a" + ${SECRET}) > 1`),
			`p.yaml:7:29: expr: cannot compare text with number 1 using > [expression]`},
		{"nor as a pattern", scalarNode("expr", `re_find(a, "${PATTERN}")`),
			`p.yaml:7:22: expr: re_find(): text is not a regular expression: missing closing ) [expression]`},
		{"nor a group of it", scalarNode("expr", `re_replace(a, "b", "${GROUP}")`),
			`p.yaml:7:30: expr: re_replace(): the pattern does not have such a group [expression]`},
		{"nor as a format", scalarNode("expr", `printf("${VERB}", 1)`),
			`p.yaml:7:18: expr: printf(): the format has something else behind a %, which is not a verb` +
				` (write %s %d %x %f %e %g %q %t %c %b %o, or %% for a percent sign) [expression]`},
		{"nor as a value of one", scalarNode("expr", `printf("%d", "${SECRET}")`),
			`p.yaml:7:24: expr: printf(): %d needs a whole number, not text [expression]`},
		{"next to a digit it is not a number", scalarNode("expr", `1${NUMBER}`),
			`p.yaml:7:12: expr: unexpected 5 (an operator is missing before it) [expression]`},
		{"a negative one is no subtraction", scalarNode("expr", `status ${NEGATIVE}`),
			`p.yaml:7:18: expr: unexpected float (an operator is missing before it) [expression]`},
		{"nor a call", scalarNode("expr", `upper ${NUMBER}`),
			`p.yaml:7:17: expr: unexpected 5 (an operator is missing before it) [expression]`},
		{"it is no member", scalarNode("expr", `user.${TEXT}`),
			`p.yaml:7:16: expr: the name of a field belongs here (write any other key in brackets: this["odd name"]) [expression]`},
		{"an unresolved one is told once", scalarNode("expr", `upper(${NOWHERE}, 1)`),
			`p.yaml:7:17: expr: ${NOWHERE} is not set (set it, or give a default: ${NOWHERE:-…}) [unresolved-placeholder]`},
		{"a condition that is a number", scalarNode("cond", `1 + 1`),
			`p.yaml:7:13: cond: a condition must be true or false, but this is number [expression]`},
		{"a condition that is a text", scalarNode("cond", `upper(x)`),
			`p.yaml:7:11: cond: a condition must be true or false, but this is text [expression]`},
		{"a scoped function elsewhere", scalarNode("expr", `test_batch()`),
			`p.yaml:7:11: expr: test_batch() cannot be called here, only where there is a batch [expression]`},
		{"a scoped function in its place", scalarNode("scoped", `test_batch()`), ``},
		{"a warning", scalarNode("expr", `any(items, qty > 1)`),
			`p.yaml:7:22: expr: warning: qty in a predicate is the document's field (write .qty for the element's field, this.qty for the ` +
				`document's) [expression]`},
		{"an error in a template", scalarNode("template", `a/$(name = 1)`),
			`p.yaml:7:20: template: unexpected = (write == to compare) [expression]`},
		{"an open part of a template", scalarNode("template", `a/$(name`),
			`p.yaml:7:13: template: this $( has no ) (add the closing bracket) [expression]`},
		{"a warning in a template", scalarNode("template", `a/$(any(items, qty > 1))`),
			`p.yaml:7:26: template: warning: qty in a predicate is the document's field (write .qty for the element's field, this.qty for the ` +
				`document's) [expression]`},

		{"a tag", scalarNode("cond", ``, tag("!paid")),
			`p.yaml:7:11: cond: YAML reads !paid as a tag (write not paid) [expression]`},
		{"a tag before more", scalarNode("cond", `and shipped`, tag("!paid")),
			`p.yaml:7:11: cond: YAML reads !paid as a tag (write not paid and shipped) [expression]`},
		{"a date", scalarNode("expr", `2026-01-02`, tag("!!timestamp")),
			`p.yaml:7:11: expr: YAML reads 2026-01-02 as a date (write 'parse_time("2026-01-02")' for a time, ` +
				`'"2026-01-02"' for text) [expression]`},
		{"a list", scalarNode("expr", ``, list),
			`p.yaml:7:11: expr: expected an expression, got a list (quote it: '[a, "b"]') [expression]`},
		{"a mapping", scalarNode("expr", ``, mapping),
			`p.yaml:7:11: expr: expected an expression, got a mapping (quote it: '{a: 1}') [expression]`},
		{"a list in a template", scalarNode("template", ``, list),
			`p.yaml:7:11: template: expected text, got a list (put it in quotes) [expression]`},
		{"a comment behind an expression", scalarNode("expr", `customer.id`, tail("# messages keep their order")), ``},
		{"an expression cut off at a #", scalarNode("expr", `any(items,`, tail("# > 3)")),
			`p.yaml:7:21: expr: the expression ends too early; YAML takes what follows a blank and # for a comment (quote it: 'any(items, # > ` +
				`3)') [expression]`},
		{"a template cut off at a #", scalarNode("template", `a/$(map(items,`, tail("# + 1))")),
			`p.yaml:7:13: template: this $( has no ); YAML takes what follows a blank and # for a comment (quote it: 'a/$(map(items, # + 1))') ` +
				`[expression]`},
		{"a comment in a folded text", scalarNode("cond", `a > 1 // first and b > 1`, style(schema.Folded)),
			`p.yaml:7:17: cond: YAML joins these lines, so this comment swallows the code after it (write the text with | in place of >) ` +
				`[expression]`},
		{"a comment in a plain text of two lines", scalarNode("cond", `a > 1 // first and b > 1`, lines(15)),
			`p.yaml:7:17: cond: YAML joins these lines, so this comment swallows the code after it (write the text with | in place of >) ` +
				`[expression]`},
		{"a comment at the end of a line", scalarNode("cond", `a > 1 // first`), ``},
		{"a comment in a text with lines", scalarNode("cond", "a > 1 // first\nand b > 1\n", style(schema.Literal)),
			``},
		{"slashes in a text", scalarNode("expr", `"http://" + host`, style(schema.Folded)), ``},
		{"a quoted word", scalarNode("expr", `prod`, style(schema.DoubleQuoted)),
			`p.yaml:7:11: expr: quoted for YAML, this still reads the field prod (write prod without quotes for the field, '"prod"' for text) ` +
				`[expression]`},
		{"a quoted variable", scalarNode("expr", `$prod`, style(schema.DoubleQuoted)),
			`p.yaml:7:11: expr: there are no variables, so $prod means nothing (write prod for a field, or this["$prod"] where the $ is part of ` +
				`its name) [expression]`},
		{"a quoted true", scalarNode("cond", `true`, style(schema.SingleQuoted)), ``},
		{"a quoted expression", scalarNode("expr", `a.b`, style(schema.SingleQuoted)), ``},
		{"a quoted text", scalarNode("expr", `"prod"`, style(schema.SingleQuoted)), ``},
		{"a quoted placeholder", scalarNode("expr", `${TEXT}`, style(schema.DoubleQuoted)), ``},
		{"a quoted word in a template", scalarNode("template", `prod`, style(schema.DoubleQuoted)), ``},
		{"nothing", scalarNode("expr", ``, func(n *schema.Node) { n.Kind = schema.NullNode }), ``},
		{"a number", scalarNode("expr", `5`, func(n *schema.Node) { n.Kind = schema.IntNode }), ``},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, problems := decodeField(test.node)
			if got := strings.Join(problems, "\n"); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestRunTimeErrorsKnowTheirPlaceAndHideValues(t *testing.T) {
	f, problems := decodeField(scalarNode("expr", `status == "${SECRET}"`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	_, err := f.Expr.Eval(exprtest.NewMessage(exprtest.Sample))
	e, ok := err.(*Error)
	if !ok {
		t.Fatalf("got error %v, want an *Error", err)
	}
	if got, want := e.Pos.String(), "p.yaml:7:18"; got != want {
		t.Errorf("the error is at %s, want %s", got, want)
	}
	if got := f.Expr.Place().Path; got != "expr" {
		t.Errorf("Place().Path = %q, want expr", got)
	}
	if strings.Contains(e.Error(), "hunter2") {
		t.Errorf("the error shows the placeholder's value:\n%v", e)
	}
}

func TestDescribeConfig(t *testing.T) {
	for want, d := range map[string]schema.Describer{"expression": Expr{}, "condition": Cond{},
		"template": Template{}} {
		if got := d.DescribeConfig().Text(); got != want {
			t.Errorf("docs call a %T %q, want %q", d, got, want)
		}
	}
}

func TestZeroFieldsStayUnset(t *testing.T) {
	f, problems := decodeField(scalarNode("expr", ``, func(n *schema.Node) { n.Kind = schema.NullNode }))
	if !f.Expr.IsZero() || !f.Cond.IsZero() || !f.Template.IsZero() || len(problems) > 0 {
		t.Errorf("got %v and problems %v, want nothing set", f, problems)
	}
}
