package expr

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
)

// grammar makes random expressions of the whole language. Most of them fail somewhere: errors must agree as well as values.
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
	if g.loops >= lang.MaxNested {
		return "list"
	}
	of := g.expr(depth - 1)
	g.loops++
	defer func() { g.loops-- }()
	name := g.pick("filter", "map", "any", "all", "none", "one", "count", "sum", "find", "findLast", "findIndex",
		"sortBy", "groupBy", "walk", "map_values", "uniq_by", "filter_values")
	return name + "(" + of + ", " + g.expr(depth-1) + ")"
}

// Every operator is used with every pair of kinds, as fields and as constants.
func TestClosuresAndVMAgreeOnAllPairs(t *testing.T) {
	m := exprtest.NewMessage(`{"zero": 0, "one": 1, "minus": -0, "float": 1.0, "half": 5e-1, "big": 18446744073709551616, 
		"max": 9223372036854775807,
		"round": 9223372036854775808.0, "yes": true, "no": false, "none": null, "a": "a", "esc": "\u0061", "b": "b", "empty": "",
		"list": [1, "a"], "object": {"a": 1}}`)
	operands := []string{"zero", "one", "minus", "float", "half", "big", "max", "round", "yes", "none", "a", "esc",
		"empty",
		"list", "object", "missing", "1", "0.5", `"a"`, "nil", "true", `["a", "b"]`, "[0, 1]", `(none ?? "a")`}
	for _, op := range []string{"==", "!=", "<", "<=", ">", ">=", "in", "not in", "contains", "startsWith", "endsWith",
		"matches", "+", "-", "*", "and", "??"} {
		for _, l := range operands {
			for _, r := range operands {
				exprtest.Agree(t, l+" "+op+" "+r, m)
			}
		}
	}
	for _, x := range operands {
		exprtest.Agree(t, "not "+x, m)
		exprtest.Agree(t, "-"+x, m)
		exprtest.Agree(t, x, m)
	}
}

func TestClosuresAndVMAgreeOnRandomExpressions(t *testing.T) {
	m := exprtest.NewMessage(exprtest.Sample)
	compiled := 0
	rapid.Check(t, func(rt *rapid.T) {
		g := &grammar{t: rt}
		if exprtest.Agree(rt, g.expr(4), m) {
			compiled++
		}
	})
	if compiled == 0 {
		t.Error("no random expression compiled")
	}
}
