package expr

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowd-io/flowd/schema"
)

// callTexts returns calls as their name, their arguments and the text from their beginning on.
func callTexts(calls Calls, text string) (all []string) {
	for _, c := range calls {
		var args []string
		for _, a := range c.Args {
			switch {
			case a.Secret:
				args = append(args, fmt.Sprintf("secret %v", a.Value))
			case a.Const:
				args = append(args, fmt.Sprintf("%#v", a.Value))
			default:
				args = append(args, text[a.Offset:])
			}
		}
		all = append(all, fmt.Sprintf("%s(%s) at %s", c.Name, strings.Join(args, ", "), text[c.Offset:]))
	}
	return all
}

func TestCallsAreRecorded(t *testing.T) {
	tests := []struct {
		name, key, src string
		want           []string
	}{
		{"none", "expr", `upper(a)`, nil},
		{"a constant", "expr", `test_meta("x")`, []string{`test_meta("x") at test_meta("x")`}},
		{"made of constants", "expr", `test_meta("x" + "y")`, []string{`test_meta("xy") at test_meta("x" + "y")`}},
		{"by way of a let", "expr", `let n = "x"; test_meta(n)`, []string{`test_meta("x") at test_meta(n)`}},
		{"nil is a constant, too", "expr", `test_any(1, nil)`, []string{`test_any(1, <nil>) at test_any(1, nil)`}},
		{"a field", "expr", `1 + test_meta(a)`, []string{`test_meta(a)) at test_meta(a)`}},
		{"one in the other", "expr", `test_any(test_meta("x"))`,
			[]string{`test_meta("x") at test_meta("x"))`, `test_any(test_meta("x"))) at test_any(test_meta("x"))`}},
		{"in a predicate", "expr", `any(list, test_meta("x") == #)`, []string{`test_meta("x") at test_meta("x") == #)`}},
		{"a pipe", "expr", `"x" | test_meta()`, []string{`test_meta("x") at test_meta()`}},
		{"once where it is compiled twice", "expr", `1 < test_any(1) < 3`, []string{`test_any(1) at test_any(1) < 3`}},
		{"twice where it is written twice", "expr", `test_any() == test_any()`,
			[]string{`test_any() at test_any() == test_any()`, `test_any() at test_any()`}},
		{"of a condition", "cond", `test_any(5) == 5`, []string{`test_any(5) at test_any(5) == 5`}},
		{"in the parts of a template", "template", `é$(test_meta("x"))/$(test_meta("y"))`,
			[]string{`test_meta("x") at test_meta("x"))/$(test_meta("y"))`, `test_meta("y") at test_meta("y"))`}},
		{"with a placeholder", "expr", `test_meta("${TEXT}")`, []string{`test_meta(secret prod) at test_meta("${TEXT}")`}},
		{"behind a placeholder", "expr", `${LARGE} == test_meta("x")`, []string{`test_meta("x") at test_meta("x")`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := schema.NewDecoder(func(name string) (string, bool, error) { return environment[name], true, nil })
			var f field
			if !d.Decode(scalarNode(test.key, test.src), &f) {
				t.Fatalf("got %v", d.Problems())
			}
			own := map[string]Calls{"expr": f.Expr.Calls(), "cond": f.Cond.Calls(), "template": f.Template.Calls()}[test.key]
			if diff := cmp.Diff(callTexts(own, test.src), test.want); diff != "" {
				t.Errorf("%s: its own (-got +want):\n%s", test.src, diff)
			}
			if diff := cmp.Diff(callTexts(*schema.Shared[Calls](d), test.src), test.want); diff != "" {
				t.Errorf("%s: the decoder's (-got +want):\n%s", test.src, diff)
			}
		})
	}
}

func TestProblemOfACall(t *testing.T) {
	d := schema.NewDecoder(nil)
	var f field
	n := scalarNode("template", `é$(test_meta("x"))`)
	n.Items[0].Excerpt = func(p schema.Pos) string { return fmt.Sprintf("line %d, col %d", p.Line, p.Col) }
	d.Decode(n, &f)
	call := f.Template.Calls()[0]
	if name, ok := call.Text(0); name != "x" || !ok {
		t.Errorf("got %q, %v", name, ok)
	}
	if name, ok := call.Text(1); name != "" || ok {
		t.Errorf("an argument that is not there: got %q, %v", name, ok)
	}
	p := call.Problem(call.Args[0].Offset, schema.Problem{Message: "no x", Code: problemCode})
	if want := `p.yaml:7:24: template: no x [expression]`; p.String() != want || p.Caret != p.Pos || p.Excerpt != "line 7, col 24" {
		t.Errorf("got %s, caret %v, excerpt %q, want %s", p, p.Caret, p.Excerpt, want)
	}
	e := MustCompile(`test_meta("x")`)
	if p := e.Calls()[0].Problem(0, schema.Problem{Message: "no x", Code: problemCode}); p.String() != "no x [expression]" {
		t.Errorf("of a program: got %s", p)
	}
	var none Expr
	var text Template
	if none.Calls() != nil || text.Calls() != nil {
		t.Error("what was left out has calls")
	}
}
