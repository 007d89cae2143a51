package expr

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
)

// Each of these expressions and messages soon ends with an error.
func TestLoadIsBounded(t *testing.T) {
	many := func(s string, n int) string { return strings.Repeat(s, n) }
	tests := []struct {
		name, src, want string
	}{
		{"a megabyte of brackets", many("(", 1<<20), "the expression is longer than 64 KiB"},
		{"as many brackets as fit", many("(", lang.MaxSource), "more than 20000 words and signs"},
		{"nested brackets", many("(", 1000) + "1" + many(")", 1000), "brackets are nested more than 128 deep"},
		{"nested lists", many("[", 1000) + many("]", 1000), "brackets are nested more than 128 deep"},
		{"nested calls", many("upper(", 1000) + many(")", 1000), "brackets are nested more than 128 deep"},
		{"as many signs as fit", many("!", lang.MaxSource-1) + "a", "more than 20000 words and signs"},
		{"many signs", many("!", 19_000) + "a", "the expression has more than 10000 parts"},
		{"a long sum", "1" + many("+1", 15_000), "more than 20000 words and signs"},
		{"many conditions", many("a?b:", 4_900) + "c", "the expression has more than 10000 parts"},
		{"many lets", many("let a=1;", 4_000) + "a", "more than 20000 words and signs"},
		{"a sum of as many as fit", "a" + many("+1", 4_900), ""},
		{"as many conditions as fit", many("a==1?2:", 1_600) + "c", ""},
		{"a long text", `"` + many("a", lang.MaxSource) + `"`, "the expression is longer than 64 KiB"},
		{"predicates within predicates", "any(a, any(a, any(a, any(a, true))))",
			"predicates are nested more than 3 deep"},
		{"also behind lets", "let f = 1..10; any(f, any(f, any(f, {let g = f; any(g, true)})))",
			"predicates are nested more than 3 deep"},
		{"a large range", "1..100000000", "more than 64MiB of memory"},
		{"the largest range", "-9223372036854775807..9223372036854775807", "more than 64MiB of memory"},
		{"doubling a text", `reduce(1..64, #acc + #acc, "aaaaaaaa") == a`, ""},
		{"repeating a text", `repeat("abc", 9000000000)`, "more than 64MiB of memory"},
		{"replacing nothing", `replace(repeat("a", 10000), "", repeat("b", 10000))`, "more than 64MiB of memory"},
		{"a huge pattern", `a matches "(((a{1,30}){1,30}){1,30}){1,30}"`, "is not a regular expression"},
		{"a large pattern", `a matches "(.{1000})(.{1000})(.{1000})(.{1000})(.{1000})(.{1000})"`, "is too large"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			start := time.Now()
			_, err := Compile(test.src)
			if got := exprtest.Short(err); !strings.Contains(got, test.want) || err == nil && test.want != "" {
				t.Errorf("got error %.200s, want %q", got, test.want)
			}
			if took := time.Since(start); took > exprtest.Patience {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestEvalIsBounded(t *testing.T) {
	exprtest.Unraced(t)
	thousand := "[" + strings.Repeat("1,", 999) + "1]"
	long := strings.Repeat("a", 1<<20)
	m := exprtest.NewMessage(fmt.Sprintf(`{"thousand": %s, "long": %q, "evil": %q, "lists": [%s]}`,
		thousand, long, strings.Repeat("(a?){50}", 10), strings.TrimSuffix(strings.Repeat(thousand+",", 50), ",")))
	tests := []struct {
		name, src, want string
	}{
		{"loops within loops", `any(thousand, any(thousand, any(thousand, false)))`, "more than 1000000 steps"},
		{"the same over a range", `let a = 1..1000; count(a, count(a, count(a, # > 0) > 0) > 0)`,
			"more than 1000000 steps"},
		{"empty loops within loops", `let a = 1..500000; count(a, any([], true))`, "more than 1000000 steps"},
		{"much code in a loop", `any(1..100000, ` + strings.Repeat("# + 1 > 0 and ", 1000) + `false)`,
			"more than 1000000 steps"},
		{"doubling a text", `reduce(1..64, #acc + #acc, "aaaaaaaa" + long[0:1])`, "more than 16MiB of memory"},
		{"many long texts", `map(1..1000, long[1:] + "b")`, "more than 16MiB of memory"},
		{"many long lists", `map(1..1000, concat(thousand, thousand))`, "more than 16MiB of memory"},
		{"many ranges", `map(1..1000, 1..(99999 + #))`, "more than 16MiB of memory"},
		{"searching a long text in a loop", `count(thousand, count(thousand, long contains "b") > 0)`,
			"more than 1000000 steps"},
		{"comparing long lists in a loop", `count(thousand, count(thousand, lists == lists) > 0)`,
			"more than 1000000 steps"},
		{"calls on a long text in a loop", `count(thousand, count(thousand, len(upper(long)) > 0) > 0)`,
			"more than 1000000 steps"},
		{"searching a long list in a loop", `let a = 1..100000; count(a, # in a)`, "more than 1000000 steps"},
		{"searching a constant list in a loop", `count(1..100000, # + 0 in 1..100000)`, "more than 1000000 steps"},
		{"a slow pattern on a long text", `long matches "(a?){50}(a?){50}(a?){50}(a?){50}(a?){50}a*b"`,
			"more than 1000000 steps"},
		{"a pattern from the message", `long matches evil`, "is too large"},
		{"a long pattern from the message", `long matches long`, "may have at most 4096 bytes"},
		{"new patterns all the time", `count(1..100000, "a" matches "a" + string(#))`, "more than 1000000 steps"},
		{"splitting into letters, often", `map(1..100, split(long, ""))`, "more than 16MiB of memory"},
		{"a tower of lists", `toJSON(reduce(1..100000, [#acc], 1))`, "nested"},
		{"hashing a tower of lists", `hash(reduce(1..100000, [#acc], 1))`, "nested more than 512 deep"},
		{"comparing towers of lists", `let t = reduce(1..100000, [#acc], 1); t == t`, ""},
		{"flattening a tower of lists", `flatten(reduce(1..100000, [#acc], 1))`, "nested more than 512 deep"},
		{"decoding a long list in a loop", `count(1..100000, lists != nil)`, ""},
		{"decoding it from dynamic paths", `count(1..100000, get(this, "lists[" + string(# % 9) + "]") != nil)`, ""},
		{"joining long texts", `join(map(1..20, long), long)`, "more than 16MiB of memory"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			start := time.Now()
			e, err := Compile(test.src)
			if err == nil {
				e.p.Limits = &Limits{Memory: 16 << 20, Steps: 1_000_000}
				_, err = e.Eval(m)
			}
			if got := exprtest.Short(err); !strings.Contains(got, test.want) || err == nil && test.want != "" {
				t.Errorf("got error %q, want %q", got, test.want)
			}
			if took := time.Since(start); took > exprtest.Patience {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestAFailureLeavesNothingBehind(t *testing.T) {
	m := exprtest.NewMessage(exprtest.Sample)
	bad := MustCompile(`concat([1], [upper(name), status + name])`)
	good := MustCompile(`concat([1], [upper(name)])`)
	for range 3 {
		if _, err := bad.Eval(m); err == nil {
			t.Fatal("got no error")
		}
		v, err := good.Eval(m)
		if err != nil || len(v.([]any)) != 2 {
			t.Fatalf("got %v, %v, want two elements", v, err)
		}
	}
}

func TestRightSidesAreNotRead(t *testing.T) {
	m := exprtest.NewMessage(`{"a": 1, "huge": 1e999}`)
	e := MustCompile(`a == 1 or huge > 1`)
	if v, err := e.Eval(m); v != true || err != nil {
		t.Errorf("got %v, %v, want true without reading huge", v, err)
	}
	e = MustCompile(`huge > 1`)
	var want *Error
	if _, err := e.Eval(m); !errors.As(err, &want) {
		t.Errorf("got error %v, want an *Error for a number out of range", err)
	}
}
