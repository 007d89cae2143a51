package expr

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// grammar makes random expressions of the whole language, most of which fail
// somewhere: errors have to agree as much as values.
type grammar struct {
	t     *rapid.T
	loops int
}

var leaves = []string{
	"status", "ratio", "whole", "big", "max", "ok", "none", "missing", "text", "name", "empty", "list", "texts",
	"mixed", "items",
	"user", "user.name", "items[1].qty", "this.user.tags", "0", "1", "-1", "2.5", "503", `"503"`, `"A"`, "true",
	"false", "nil", "[]", "{}",
	"9223372036854775807", `int("18446744073709551616")`, `["a", "b"]`, "[503, 1]", `duration("1h")`,
	`date("2026-01-02")`,
}

func (g *grammar) pick(from ...string) string { return rapid.SampledFrom(from).Draw(g.t, "pick") }

func (g *grammar) expr(depth int) string {
	if depth == 0 || rapid.IntRange(0, 5).Draw(g.t, "leaf") == 0 {
		if g.loops > 0 && rapid.Bool().Draw(g.t, "element") {
			return g.pick("#", ".qty", ".sku", "#index", "#key")
		}
		return g.pick(leaves...)
	}
	a, b := func() string { return g.expr(depth - 1) }, func() string { return "(" + g.expr(depth-1) + ")" }
	switch rapid.IntRange(0, 9).Draw(g.t, "form") {
	case 0, 1, 2, 3:
		op := g.pick("==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "**", "in", "not in", "contains",
			"startsWith", "endsWith", "matches")
		return b() + " " + op + " " + b()
	case 4, 5:
		return b() + " " + g.pick("and", "or", "??") + " " + b()
	case 6:
		return g.pick("not ", "-", "+") + b()
	case 7:
		return b() + " ? " + b() + " : " + b()
	case 8:
		name := g.pick("len", "upper", "string", "int", "abs", "first", "keys", "sort", "uniq", "hash", "max", "toJSON",
			"to_hex", "sha256", "crc32", "from_base64url")
		return name + "(" + a() + ")"
	}
	return g.compound(depth)
}

func (g *grammar) compound(depth int) string {
	switch rapid.IntRange(0, 4).Draw(g.t, "compound") {
	case 0:
		return fmt.Sprintf("(let v%d = %s; %s)", depth, g.expr(depth-1),
			strings.ReplaceAll(g.expr(depth-1), "status", fmt.Sprintf("v%d", depth)))
	case 1:
		return "[" + g.expr(depth-1) + ", " + g.expr(depth-1) + "][" + g.expr(depth-1) + "]"
	case 2:
		return g.pick("{a: "+g.expr(depth-1)+"}.a",
			"{c: "+g.expr(depth-1)+", a: this, b: ["+g.expr(depth-1)+", items]}")
	case 3:
		return "(" + g.expr(depth-1) + ")[1:]"
	}
	if g.loops >= maxNested {
		return "list"
	}
	of := g.expr(depth - 1)
	g.loops++
	defer func() { g.loops-- }()
	name := g.pick("filter", "map", "any", "all", "none", "one", "count", "sum", "find", "findLast", "findIndex",
		"sortBy", "groupBy", "walk", "map_values", "uniq_by", "filter_values")
	return name + "(" + of + ", " + g.expr(depth-1) + ")"
}

// agree compiles src both ways and compares all that can be seen of it.
func agree(t rapid.TB, src string, m *message) (compiled bool) {
	direct, err := compileWith(src, false)
	plain, plainErr := compileWith(src, true)
	if errorText(err) != errorText(plainErr) {
		t.Fatalf("%s\ncompiles with %v\nand without shortcuts with %v", src, err, plainErr)
	}
	if err != nil {
		return false
	}
	if got, want := outcome(t, direct, m), outcome(t, plain, m); got != want {
		t.Fatalf("%s\nshortcuts: %s\nplain:    %s", src, got, want)
	}
	for form, write := range map[string]func(*program, *message) string{"encoded": encoded, "in a template": inTemplate,
		"as a body": asBody} {
		if got, want := write(direct, m), write(plain, m); got != want {
			t.Fatalf("%s, %s\nshortcuts: %s\nplain:    %s", src, form, got, want)
		}
	}
	if direct.kinds&value.Bool == 0 {
		return true
	}
	a, b := Cond{Expr{direct}}, Cond{Expr{plain}}
	is, err := a.Test(m)
	was, plainErr := b.Test(m)
	if is != was || errorText(err) != errorText(plainErr) {
		t.Fatalf("%s\nTest: %v %v\nplain:%v %v", src, is, err, was, plainErr)
	}
	return true
}

// encoded is what Encode makes of a value, or the error.
func encoded(p *program, m *message) string {
	e, out := Expr{p}, []byte(nil)
	err := e.Encode(m, func(v any) (err error) {
		out, err = doc.Append(nil, v)
		return err
	})
	return string(out) + limitless(err)
}

func asBody(p *program, m *message) string {
	e := Expr{p}
	out, err := e.AppendBody([]byte("before "), m)
	return string(out) + limitless(err)
}

func inTemplate(p *program, m *message) string {
	out, err := p.appendPart(nil, m, new(*frame))
	return string(out) + limitless(err)
}

// limitless is an error, without where exactly a limit was: that differs by a step.
func limitless(err error) string {
	if text := errorText(err); !strings.Contains(text, "engine.limits.expression") {
		return text
	}
	return "limit"
}

// Every operator meets every pair of kinds, as fields and as constants.
func TestClosuresAndVMAgreeOnAllPairs(t *testing.T) {
	m := msg(`{"zero": 0, "one": 1, "minus": -0, "float": 1.0, "half": 5e-1, "big": 18446744073709551616, "max": 9223372036854775807,
		"round": 9223372036854775808.0, "yes": true, "no": false, "none": null, "a": "a", "esc": "\u0061", "b": "b", "empty": "",
		"list": [1, "a"], "object": {"a": 1}}`)
	operands := []string{"zero", "one", "minus", "float", "half", "big", "max", "round", "yes", "none", "a", "esc",
		"empty",
		"list", "object", "missing", "1", "0.5", `"a"`, "nil", "true", `["a", "b"]`, "[0, 1]", `(none ?? "a")`}
	for _, op := range []string{"==", "!=", "<", "<=", ">", ">=", "in", "not in", "contains", "startsWith", "endsWith",
		"matches", "+", "-", "*", "and", "??"} {
		for _, l := range operands {
			for _, r := range operands {
				agree(t, l+" "+op+" "+r, m)
			}
		}
	}
	for _, x := range operands {
		agree(t, "not "+x, m)
		agree(t, "-"+x, m)
		agree(t, x, m)
	}
}

func TestClosuresAndVMAgreeOnRandomExpressions(t *testing.T) {
	m := msg(sample)
	compiled := 0
	rapid.Check(t, func(rt *rapid.T) {
		g := &grammar{t: rt}
		if agree(rt, g.expr(4), m) {
			compiled++
		}
	})
	if compiled == 0 {
		t.Error("no random expression compiled")
	}
}
