package schema_test

import (
	"fmt"
	"regexp"
	"strconv"
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
		{"beside a field that is wrong", `{"a": "wrong", "count": "x"}`,
			`1:25: count: "x" is not a whole number (write a number such as 10) [bad-value]` + "\n" +
				"1:2: a: inner rule [bad-value]"},
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

// account has rules over several fields.
type account struct {
	URL      string `yaml:"url" check:"required"`
	User     string `yaml:"user"`
	Password string `yaml:"password" check:"oneof=secret|secrets"`
	Retries  int    `yaml:"retries" check:"max=5"`
	Method   method `yaml:"method"`
	TLS      *struct {
		CA int `yaml:"ca"`
	} `yaml:"tls"`
}

func (l *account) CheckConfig(report func(path, message, remedy string)) {
	if !strings.HasPrefix(l.URL, "http") {
		report("url", "is no URL", "")
	}
	if (l.User == "") != (l.Password == "") {
		report("user", "user and password belong together", "")
	}
	if l.TLS == nil && strings.HasPrefix(l.URL, "https") {
		report("url", "needs tls", "")
	}
	if l.User == "panic" {
		_ = l.TLS.CA
	}
}

func TestRulesDoNotFollowFromOtherProblems(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"a value that another problem does not touch", `{"url": "ftp", "retries": "x"}`,
			`retries: "x" is not a whole number; url: is no URL`},
		{"a field under a wrong name", `{"url": "ftp", "retires": 3}`, `unknown field "retires"; url: is no URL`},
		{"a field that is missing", `{"user": "u"}`, "url: required; user: user and password belong together"},
		{"a field that may be under any name", `{"url": "http", "user": "u", "keyword": "p"}`, `unknown field "keyword"`},
		{"what depends on a field with a problem", `{"url": "http", "user": "u", "password": "p"}`,
			`password: "p" must be one of secret, secrets`},
		{"what depends on a field with a problem below it", `{"url": "https", "tls": {"ca": "x"}}`,
			`tls.ca: "x" is not a whole number`},
		{"a field that can't be filled in", `{"url": "ftp", "method": "?"}`, `method: "?" is no method`},
		{"a rule that can't cope", `{"url": "ftp", "user": "panic", "tls": 1}`, "tls: expected a mapping, got a number"},
		{"not a mapping at all", `[1]`, "expected a mapping, got a list"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var found []string
			for _, p := range lint(t, test.in, &account{}) {
				_, p, _ = strings.Cut(p, ": ")
				p, _, _ = strings.Cut(p, " [bad")
				p, _, _ = strings.Cut(p, " (")
				found = append(found, strings.TrimSuffix(p, " [wrong-kind]"))
			}
			if got := strings.Join(found, "; "); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// method reads a text, but not one of those that are tried.
type method string

func (m *method) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	if text, _ := d.Text(n); text != strings.ToUpper(text) || len(text) < 3 {
		d.Report(n, schema.Problem{Code: schema.BadValue, Message: strconv.Quote(text) + " is no method"})
	} else {
		*m = method(text)
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
