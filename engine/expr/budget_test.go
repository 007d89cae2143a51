package expr

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
)

func init() {
	Register(Func{Name: "payload_", Doc: "the payload as text", Types: []any{new(func() string)},
		Call: func(s Source, _ ...any) (any, error) {
			return string(s.Document().Bytes()), nil
		}})
}

// Expressions that share, copy or visit too much data fail because of their budget. The error has a place and a remedy, and comes before
// much more memory is used than the budget allows.
func TestABudgetEndsWhatTakesTooMuch(t *testing.T) {
	exprtest.Unraced(t)
	const memory, steps = "engine.limits.expression.memory", "engine.limits.expression.steps"
	limits := Limits{Memory: 8 << 20, Steps: 1_250_000} // an eighth of the default
	long := strings.Repeat("a", 1<<17)
	var items strings.Builder
	for i := range 18_000 {
		fmt.Fprintf(&items, `,{"n":%d}`, i)
	}
	m := exprtest.NewMessage(fmt.Sprintf(`{"n": 300000, "long": %q, "same": %q, "items": [%s], "thousand": [%s0], "accents": %q}`, long,
		long[1:]+"b", items.String()[1:], strings.Repeat("0,", 999), strings.Repeat("é", 1<<16)))
	tests := []struct{ src, want, at string }{
		{`map(items, this)`, memory, `map(`},
		{`{a: map(items, this)}`, memory, `{a:`},
		{`toJSON(map(items, this))`, steps, `toJSON`},
		{`string(map(thousand, items))`, steps, `string`},
		{`hash(map(items, this))`, steps, `hash`},
		{`uniq(map(thousand, items))`, steps, `uniq`},
		{`groupBy(thousand, payload_())`, memory, `payload_`},
		{`count(items, payload_() == "")`, memory, `payload_`},
		{`reduce(1..24, #acc + #acc, "aaaaaaaa")`, memory, `+`},
		{`reduce(1..40, [#acc, #acc], 1)`, steps, `reduce`},
		{`toJSON(reduce(1..40, [#acc, #acc], 1))`, steps, `toJSON`},
		{`let t = reduce(1..40, [#acc, #acc], 1); t == t`, steps, `==`},
		{`flatten(reduce(1..40, [#acc, #acc], 1))`, steps, `flatten`},
		{`reduce(1..40, concat(#acc, #acc), [1])`, memory, `concat`},
		{`join(map(1..100, long), "")`, memory, `join`},
		{`replace(long, "a", "` + strings.Repeat("b", 65) + `")`, memory, `replace`},
		{`repeat(long, 65)`, memory, `repeat`},
		{`split(long, "")`, memory, `split`},
		{`1..n`, memory, `..`},
		{`map(1..100, toBase64(long))`, memory, `toBase64`},
		{`map(1..100, fromJSON(toJSON(items)))`, memory, ``},
		{`count(items, long[0:1] == "b")`, steps, `[`},
		{`count(items, accents[1:] == "b")`, memory, `[`},
		{`let l = accents; count(items, l[-1] == "b")`, steps, `[`},
		{`count(items, upper(accents) == "b")`, memory, `upper`},
		{`count(items, len(accents) == 0)`, steps, `len`},
		{`count(items, long contains "b")`, steps, `contains`},
		{`count(items, long + "b" == long)`, memory, `+`},
		{`count(items, repeat("x", 1000000) + string(#index) == "")`, memory, `+`},
		{`count(items, long matches "(a|aa)+b$")`, steps, `matches`},
		{`sortBy(items, .n % 2 == 0 ? long : same)`, steps, `sortBy`},
		{`let a = 1..1000; filter(a, any(a, any(a, # < 0)))`, steps, ``},
		{`count(items, count(items, count(items, true) > 0) > 0)`, steps, ``},
		{`count(items, get(items[0], "a" + long) == nil)`, memory, ``},
		{`map(1..1000, values(groupBy(items, .n)))`, memory, ``},
		{`count(items, # in items)`, steps, `in items`},
		{`map(1..1000, sort(map(items, .n)))`, memory, ``},
		{`map(items, .n / len(items) + len(first(items)))`, "", ``},
		{`filter(items, .n > 10 and .n % 2 == 0) | map(({n: .n, text: string(.n)}))`, "", ``},
		{`sum(items, .n) + len(toJSON(items))`, "", ``},
	}
	for _, tt := range tests {
		t.Run(tt.src, func(t *testing.T) {
			got := exprtest.Spend(t, tt.src, limits, m)
			var e *Error
			if tt.want == "" {
				if got.Err != nil {
					t.Fatal(got.Err)
				}
			} else if !errors.As(got.Err, &e) || !strings.Contains(e.Short(), tt.want) ||
				!strings.HasPrefix(tt.src[e.Offset:], tt.at) {
				t.Fatalf("got %v, want %q at %q", got.Err, tt.want, tt.at)
			}
			// Memory that was released counts like memory in use, so this is not the memory in use.
			if got.Allocated > 32<<20 {
				t.Errorf("allocated %d MiB", got.Allocated>>20)
			}
			if got.Took > exprtest.Patience {
				t.Errorf("took %v", got.Took)
			}
		})
	}
}

// A small grammar of expressions whose results can grow. All of them end within their budget, which is small here, so that ten thousand
// of them need seconds only.
func TestNoExpressionOutlivesItsBudget(t *testing.T) {
	m := exprtest.NewMessage(`{"s": "` + strings.Repeat("xy", 500) + `", "l": [` + strings.Repeat(`{"a": "b"},`, 300) + `1], "n": 3}`)
	limits := Limits{Memory: 1 << 20, Steps: 100_000}
	ended := 0
	rapid.Check(t, func(rt *rapid.T) {
		src := growth{rt, 0}.value(5)
		got := exprtest.Spend(t, src, limits, m)
		if got.Err != nil && strings.Contains(got.Err.Error(), "engine.limits.expression") {
			ended++
		}
		// Each step may box its result, which does not count towards the budget.
		if got.Allocated > 16<<20+64*100_000 {
			rt.Errorf("%s\nallocated %d KiB and ended with %v", src, got.Allocated>>10, got.Err)
		}
		if got.Took > 5*time.Second {
			rt.Errorf("%s\ntook %v and ended with %v", src, got.Took, got.Err)
		}
	})
	if ended == 0 {
		t.Error("no expression met its budget")
	}
}

type growth struct {
	t     *rapid.T
	loops int
}

func (g growth) pick(from ...string) string { return rapid.SampledFrom(from).Draw(g.t, "pick") }

func (g growth) value(depth int) string {
	leaves := []string{"s", "l", "this", "n", `"z"`, "1..n", "1..1000", "payload_()"}
	if g.loops > 0 {
		leaves = append(leaves, "#", "#", "#")
	}
	if depth == 0 {
		return g.pick(leaves...)
	}
	of := func() string { return g.value(depth - 1) }
	text := func() string { return "string(" + of() + ")" }
	list := func() string { return g.pick("["+of()+", "+of()+"]", "1..500", "l", "split("+text()+`, "y")`) }
	switch rapid.IntRange(0, 12).Draw(g.t, "form") {
	case 0:
		return text() + " + " + text()
	case 1:
		return "toJSON(" + of() + ")"
	case 2:
		return "concat(" + list() + ", " + list() + ")"
	case 3:
		return "join(map(" + list() + `, string(#)), ` + text() + ")"
	case 4:
		return g.pick("flatten", "reverse", "uniq", "sort") + "(" + list() + ")"
	case 5:
		return "repeat(" + text() + ", " + g.pick("2", "n", "1000") + ")"
	case 6:
		return "replace(" + text() + `, "x", ` + text() + ")"
	case 7:
		return "{a: " + of() + ", b: " + of() + "}"
	case 8:
		return text() + g.pick("[1:]", "[0]", "[-1]", ` matches "(x|y)+z"`, ` contains "yx"`)
	case 9:
		return "hash(" + of() + ")"
	}
	if g.loops == lang.MaxNested {
		return "n"
	}
	inner := growth{g.t, g.loops + 1}
	body := inner.value(depth - 1)
	switch g.pick("map", "reduce", "acc", "count", "group") {
	case "reduce":
		return "reduce(1..20, [#acc, " + body + "], 0)"
	case "acc":
		return `reduce(1..30, ` + g.pick("[#acc, #acc]", "string(#acc) + string(#acc)", "concat([#acc], [#acc])") +
			", " + of() + ")"
	case "count":
		return "count(" + list() + ", " + body + " == 1)"
	case "group":
		return "groupBy(" + list() + ", string(" + body + "))"
	}
	return "map(" + list() + ", " + body + ")"
}

// ending is a message whose call ends after a number of accesses.
type ending struct {
	*exprtest.Message
	looks int
	err   error
}

func (e *ending) Interrupted() error {
	if e.looks--; e.looks > 0 {
		return nil
	}
	return e.err
}

func TestATimeoutEndsAnEvaluation(t *testing.T) {
	for _, plain := range []bool{false, true} {
		src := `count(1..1000, count(1..1000, # > 0) > 0)`
		p, err := exprtest.Compile(src, plain)
		if err != nil {
			t.Fatal(err)
		}
		e := Expr{p}
		m := &ending{Message: exprtest.NewMessage(`{}`), looks: 3, err: context.DeadlineExceeded}
		_, err = e.Eval(m)
		if !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(exprtest.Short(err), "the evaluation took longer than the timeout") || m.looks != 0 {
			t.Errorf("got error %v after %d looks too many", err, -m.looks)
		}
	}
}

func TestTheBudgetOfATemplateIsOne(t *testing.T) {
	tpl := MustTemplate(`$(repeat(s, 20))$(repeat(s, 20))$(repeat(s, 20))`)
	for _, p := range tpl.t.Programs() {
		p.Limits = &Limits{Memory: 50_000}
	}
	m := exprtest.NewMessage(`{"s": "` + strings.Repeat("x", 1000) + `"}`)
	out, err := tpl.Append([]byte("before"), m)
	var e *Error
	if !errors.As(err, &e) || !strings.Contains(e.Short(), "more than 50KB of memory") || string(out) != "before" {
		t.Errorf("got %d bytes, %v", len(out), err)
	}
	if e != nil && e.Offset != len(`$(repeat(s, 20))$(repeat(s, 20))$(`) {
		t.Errorf("got the caret at %d, want it at the third part", e.Offset)
	}
}

func TestLimitsAreThoseOfTheConfiguration(t *testing.T) {
	e := MustCompile(`len(1..1000 | map(# + 1)) + len(repeat(s, 10))`)
	m := exprtest.NewMessage(`{"s": "` + strings.Repeat("x", 10_000) + `"}`)
	for _, tt := range []struct {
		limits Limits
		want   string
	}{
		{Limits{}, ""},
		{Limits{Steps: 1000},
			"more than 1000 steps on this message (give it less to process, or raise engine.limits.expression.steps)"},
		{Limits{Memory: 64 << 10},
			"more than 64KiB of memory on this message (make it produce less, or raise engine.limits.expression.memory)"},
	} {
		e.p.Limits = &tt.limits
		if _, err := e.Eval(m); (err == nil) != (tt.want == "") || !strings.Contains(exprtest.Short(err), tt.want) {
			t.Errorf("%+v: got %v, want %q", tt.limits, err, tt.want)
		}
	}
}
