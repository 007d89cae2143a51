package expr

import (
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
	"github.com/flowd-io/flowd/schema"
)

// bound decodes a field with parameters.
type bound struct {
	field  *field
	params *schema.Params
}

func (b *bound) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	d.DecodeAt(n, d.Bind(n, b.params), b.field)
}

// arg returns the value of a parameter as if read from a file.
func arg(text string, as schema.ParamType) schema.Param {
	n := &schema.Node{Kind: schema.TextNode, Text: text, Pos: schema.Pos{File: "p.yaml", Line: 3, Col: 5}}
	if unquoted, ok := strings.CutPrefix(text, `'`); ok {
		n.Text, n.Style = strings.TrimSuffix(unquoted, `'`), schema.SingleQuoted
	}
	return schema.Param{Value: n, As: as}
}

var params = &schema.Params{Of: "list", By: map[string]schema.Param{
	"n":       arg("5", schema.AsValue),
	"minus":   arg("-5", schema.AsValue),
	"digits":  arg("'5'", schema.AsValue),
	"yes":     arg("true", schema.AsValue),
	"text":    arg(`it's "x"`, schema.AsValue),
	"code":    arg(`"x" or true`, schema.AsValue),
	"part":    arg(`$(secret)`, schema.AsValue),
	"env":     arg(`${TEXT}`, schema.AsValue),
	"secret":  arg(`${SECRET}`, schema.AsValue),
	"path":    arg(`user.name`, schema.AsPath),
	"odd":     arg(`this["odd name"]`, schema.AsPath),
	"list":    arg(`list`, schema.AsPath),
	"sum":     arg(`1 + 2`, schema.AsCode),
	"either":  arg(`false or true`, schema.AsCode),
	"comment": arg(`1 // )`, schema.AsCode),
	"let":     arg(`let x = 2; x + 1`, schema.AsCode),
	"prod":    arg(`"${TEXT}" + '${param.inner}'`, schema.AsCode),
}, Outer: &schema.Params{By: map[string]schema.Param{"inner": arg(`it's`, schema.AsValue)}}}

func decodeBound(t *testing.T, n *schema.Node) (field, []string) {
	t.Helper()
	var f field
	d := schema.NewDecoder(func(name string) (string, bool, error) {
		v, ok := environment[name]
		return v, ok, nil
	})
	d.Decode(n, &bound{&f, params})
	var problems []string
	for _, p := range d.Problems() {
		problems = append(problems, p.String())
	}
	return f, problems
}

func TestParameters(t *testing.T) {
	tests := []struct {
		name, src string
		want      any
		shown     string
	}{
		{"a number", `${param.n} + 1`, 6, `5 + 1`},
		{"a negative number is one operand", `3 -${param.minus}`, 8, `3 -int("-5")`},
		{"digits in quotes are text", `${param.digits} == "5"`, true, `"5" == "5"`},
		{"true", `not ${param.yes}`, false, `not true`},
		{"a text", `${param.text}`, `it's "x"`, `"it's \"x\""`},
		{"a text in quotes", `'${param.text}'`, `it's "x"`, `'it\'s "x"'`},
		{"a value is no code", `${param.code} == "x"`, false, `"\"x\" or true" == "x"`},
		{"a placeholder in a value", `${param.env}`, "prod", `"prod"`},
		{"a path", `${param.path}`, "Ann", `user.name`},
		{"a path and more", `${param.list}[0] ?? ${param.path}`, 1, `list[0] ?? user.name`},
		{"a path with an odd name", `${param.odd}`, 3, `this["odd name"]`},
		{"a path in quotes is text", `"${param.path}"`, "user.name", `"user.name"`},
		{"a path behind a dot", `this.${param.path}`, "Ann", `this.user.name`},
		{"an expression alone", `${param.sum}`, 3, `1 + 2`},
		{"an expression is one operand", `${param.sum} * 2`, 6, `(1 + 2) * 2`},
		{"whatever is around it", `false and ${param.either}`, false, `false and (false or true)`},
		{"its comment ends with it", `${param.comment} + 1`, 2, "(1 // )\n) + 1"},
		{"it may have variables", `[${param.let}, 1][0]`, 3, `[(let x = 2; x + 1), 1][0]`},
		{"what is in its quotes stays there", `${param.prod} + "!"`, "prodit's!", `("${TEXT}" + 'it\'s') + "!"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, problems := decodeBound(t, scalarNode("expr", tt.src))
			if len(problems) > 0 {
				t.Fatalf("problems %q", problems)
			}
			got, err := f.Expr.Eval(exprtest.NewMessage(`{"user": {"name": "Ann"}, "list": [1], "odd name": 3}`))
			if err != nil || got != tt.want {
				t.Errorf("got %#v, %v, want %#v", got, err, tt.want)
			}
			if f.Expr.String() != tt.shown {
				t.Errorf("shown as %s, want %s", f.Expr.String(), tt.shown)
			}
		})
	}
}

func TestParametersInTemplates(t *testing.T) {
	tests := []struct{ src, want, shown string }{
		{`a/${param.text}/$(name)`, `a/it's "x"/Ann`, `a/it's "x"/$(name)`},
		{`a/${param.part}`, `a/$(secret)`, `a/$$(secret)`},
		{`${param.path}=$(${param.path})`, `user.name=Kim`, `user.name=$(user.name)`},
		{`$(${param.sum} * 2)$(")")${param.n}`, `6)5`, `$((1 + 2) * 2)$(")")5`},
		{`$$(${param.n}) $(string(${param.n}))`, `$(5) 5`, `$$(5) $(string(5))`},
	}
	for _, tt := range tests {
		f, problems := decodeBound(t, scalarNode("template", tt.src))
		got, err := f.Template.Text(exprtest.NewMessage(`{"name": "Ann", "user": {"name": "Kim"}}`))
		if len(problems) > 0 || err != nil || got != tt.want || f.Template.String() != tt.shown {
			t.Errorf("%s: got %q, %v, %q, shown as %q, want %q shown as %q", tt.src, got, err, problems, f.Template.String(),
				tt.want, tt.shown)
		}
	}
}

func TestParametersHaveTheirPlace(t *testing.T) {
	tests := []struct{ field, src, want string }{
		{"expr", `"a ${param.sum}"`,
			"p.yaml:7:14: expr: ${param.sum} is an expression, which would be text here (an expression stands outside of quotes: join texts with " +
				"+) [expression]"},
		{"template", `a ${param.sum}`,
			"p.yaml:7:13: template: ${param.sum} is an expression, which would be text here (write $(${param.sum})) [expression]"},
		{"expr", `x${param.path}`, "p.yaml:7:12: expr: unexpected user (an operator is missing before it) [expression]"},
		{"expr", `${param.path} = 1`, "p.yaml:7:25: expr: unexpected = (write == to compare) [expression]"},
		{"expr", `upper(${param.sum}) = 1`, "p.yaml:7:31: expr: unexpected = (write == to compare) [expression]"},
		{"expr", `${param.secret} > 1`, "p.yaml:7:27: expr: cannot compare text with number 1 using > [expression]"},
		{"expr", `${param.txt}`,
			`p.yaml:7:11: expr: ${param.txt} names no parameter of steps list (did you mean "text"?) [bad-placeholder]`},
	}
	for _, tt := range tests {
		_, problems := decodeBound(t, scalarNode(tt.field, tt.src))
		if len(problems) != 1 || problems[0] != tt.want {
			t.Errorf("%s: got %q\nwant %q", tt.src, problems, tt.want)
		}
	}
}

// FuzzParameter inserts a value, a path and code into an expression. Each remains a single operand.
func FuzzParameter(f *testing.F) {
	for _, seed := range []string{"5", "a.b", "x) or (y", `"`, "1 // 2", "/*", "a[", "$(", "${param.x}", "let x = 1; x", "not", "'", "`"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "${") {
			return
		}
		values := &schema.Params{By: map[string]schema.Param{"v": arg(text, schema.AsValue)}}
		if _, err := Compile(text); err == nil {
			values.By["c"] = arg(text, schema.AsCode)
			values.By["c"].Value.Style = schema.Plain
		}
		for _, src := range []string{`[1, ${param.v}, 2][2]`, `[1, "${param.v}", 2][2]`, `[1, ${param.c}, 2][2]`} {
			if values.By["c"].Value == nil && strings.Contains(src, "param.c") {
				continue
			}
			var got field
			d := schema.NewDecoder(nil)
			d.Decode(scalarNode("expr", src), &bound{&got, values})
			if len(d.Problems()) > 0 {
				continue // an error of its own, such as a wrong type
			}
			if v, err := got.Expr.Eval(exprtest.NewMessage(`{}`)); err == nil && v != 2 {
				t.Errorf("%s with %q is %v", src, text, v)
			}
		}
	})
}
