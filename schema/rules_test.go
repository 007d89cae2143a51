package schema_test

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/flowd-io/flowd/schema"
)

// rule reports its name, to show when it is called.
type rule struct {
	A string `yaml:"a"`
}

func (r *rule) CheckConfig(report func(path, message, remedy string)) {
	if r.A == "wrong" {
		report("a", "inner rule", "")
	}
}

type named struct {
	B string `yaml:"b"`
}

func (n named) CheckConfig(report func(path, message, remedy string)) {
	if n.B == "wrong" {
		report("", "named rule", "")
	}
}

func TestRulesAreCalledOnceWhereverTheyStand(t *testing.T) {
	var v struct {
		rule  `yaml:",inline"`
		Named named   `yaml:",inline"`
		In    *rule   `yaml:"in"`
		List  []named `yaml:"list"`
		Count int     `yaml:"count"`
	}
	tests := []struct{ name, in, want string }{
		{"inlined and embedded", `{"a": "wrong"}`, "1:2: a: inner rule [bad-value]"},
		{"inlined under a name", `{"b": "wrong"}`, "1:1: named rule [bad-value]"},
		{"behind a pointer", `{"in": {"a": "wrong"}}`, "1:9: in.a: inner rule [bad-value]"},
		{"in a list", `{"list": [{"b": "wrong"}]}`, "1:11: list[0]: named rule [bad-value]"},
		{"not before the fields are right", `{"a": "wrong", "count": "x"}`,
			`1:25: count: "x" is not a whole number (write a number such as 10) [bad-value]`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			into := v
			if got := strings.Join(lint(t, test.in, &into), "\n"); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestATagIsSeenFromBelow(t *testing.T) {
	var v struct {
		Steps []step `yaml:"steps" scope:"outer"`
		Plain []step `yaml:"plain"`
	}
	if p := lint(t, `{"steps": [{"filter": "x", "when": "y"}, {"set": {"a": "z"}}], "plain": [{"filter": "x"}]}`,
		&v); p != nil {
		t.Fatal(p)
	}
	got := fmt.Sprint(v.Steps[0].When.scope, v.Steps[0].Use.Config.(filter).Keep.scope,
		v.Plain[0].Use.Config.(filter).Keep.scope)
	if want := "outerouter"; got != want {
		t.Errorf("scopes are %s, want %s", got, want)
	}
	total, _ := v.Steps[1].Use.Config.(set).Fields.Get("a")
	if total.scope != "batch" {
		t.Errorf("the field's own tag gives %q, want batch: the nearest one wins", total.scope)
	}
}

func TestATagOfAnInlineFieldIsSeenFromItsFields(t *testing.T) {
	type inner struct {
		Plain word `yaml:"plain"`
		Own   word `yaml:"own" scope:"own"`
	}
	var v struct {
		inner `yaml:",inline" scope:"around"`
		Other word `yaml:"other"`
	}
	if p := lint(t, `{"plain": "a", "own": "b", "other": "c"}`, &v); p != nil {
		t.Fatal(p)
	}
	if got := fmt.Sprint(v.Plain.scope, "|", v.Own.scope, "|", v.Other.scope); got != "around|own|" {
		t.Errorf("scopes are %s, want around|own|", got)
	}
}

func TestOtherTypesThatReadText(t *testing.T) {
	var v struct {
		Match *regexp.Regexp `yaml:"match"`
	}
	if p := lint(t, `{"match": "a+"}`, &v); p != nil || v.Match.String() != "a+" {
		t.Errorf("got %v, %v", v.Match, p)
	}
	got := lint(t, `{"match": "("}`, &v)
	if want := "1:11: match: \"(\" can't be read: error parsing regexp: missing closing ): `(` [bad-value]"; len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// loop decodes itself as itself.
type loop struct{}

func (l *loop) UnmarshalConfig(d *schema.Decoder, n *schema.Node) { d.Decode(n, l) }

func TestATypeThatDecodesItselfForEverIsStopped(t *testing.T) {
	if got := lint(t, `1`, &loop{}); len(got) != 1 || !strings.Contains(got[0], "[too-deep]") {
		t.Errorf("got %v, want one problem", got)
	}
}

func TestTypesAreReadOnceByMany(t *testing.T) {
	type fresh struct {
		Sub []everything `yaml:"sub"`
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got := lint(t, `{"sub": [{"wait": "x"}]}`, &fresh{}); len(got) != 1 {
				t.Errorf("got %v, want one problem", got)
			}
		})
	}
	wg.Wait()
}
