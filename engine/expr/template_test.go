package expr

import (
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
)

func TestTemplate(t *testing.T) {
	tests := []struct {
		name, src, want string
	}{
		{"literal text", `logs/today.ndjson`, `logs/today.ndjson`},
		{"nothing", ``, ``},
		{"a field", `logs/$(name).ndjson`, `logs/Ann.ndjson`},
		{"several parts", `$(name)-$(status)$(ok)`, `Ann-503true`},
		{"a number as in JSON", `$(whole)`, `2`},
		{"a large integer", `$(big)`, `18446744073709551616`},
		{"a list as JSON", `$(list)`, `[3,1,2]`},
		{"an object as JSON", `$({a: name})`, `{"a":"Ann"}`},
		{"a time", `$(date("2026-01-02"))`, `2026-01-02T00:00:00Z`},
		{"brackets within", `$(len(split("a)b", ")")))`, `2`},
		{"quotes within", `$(") \" )" + ')' + ` + "`)`" + `)`, `) " )))`},
		{"a comment within", "$(name /* ) */)", `Ann`},
		{"a literal $(", `$$(name)`, `$(name)`},
		{"other dollars", `$ $name $$ ${x} $`, `$ $name $$ ${x} $`},
		{"a dollar before a part", `$$$(name)`, `$$(name)`},
		{"a predicate", `$(sum(items, .qty))`, `7`},
		{"escaped text in a field", `$(odd)`, `a"b`},
		{"an index in brackets", `$(items[0].sku)`, `a`},
		{"a default", `$(missing ?? "none")`, `none`},
	}
	m := exprtest.NewMessage(strings.Replace(exprtest.Sample, "{", `{"odd": "a\"b", `, 1))
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tpl, err := CompileTemplate(test.src)
			if err != nil {
				t.Fatal(err)
			}
			got, err := tpl.Text(m)
			if err != nil || got != test.want {
				t.Errorf("%s: got %q, %v, want %q", test.src, got, err, test.want)
			}
			if tpl.String() != test.src {
				t.Errorf("String() = %q, want %q", tpl.String(), test.src)
			}
		})
	}
}

func TestTemplateFails(t *testing.T) {
	tests := []struct {
		name, src, want string
	}{
		{"nil", `logs/$(missing).txt`, `
this part of the template is nil (?? gives a missing field a default)
  logs/$(missing).txt
         ^`},
		{"an error within", `a$(name + status)`, `
cannot add text "Ann" and number 503 (string(x) turns a number into text)
  a$(name + status)
          ^`},
		{"an open part", `logs/$(name`, `
this $( has no ) (add the closing bracket)
  logs/$(name
       ^`},
		{"a part open in a quote", `logs/$(name + ")`, `
this $( has no ) (add the closing bracket)
  logs/$(name + ")
       ^`},
		{"an empty part", `logs/$( )`, `
there is no expression in $( ) (write one, or $$( for this text itself)
  logs/$( )
       ^`},
		{"a part that does not compile", `é/$(name = 1)`, `
unexpected = (write == to compare)
  é/$(name = 1)
           ^`},
		{"a time zone", `$(timezone("UTC"))`, `
a time zone is not a value that a message can contain
  $(timezone("UTC"))
    ^`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tpl, err := CompileTemplate(test.src)
			if err == nil {
				_, err = tpl.Text(exprtest.NewMessage(exprtest.Sample))
			}
			if got := "\n" + exprtest.ErrorText(err); got != test.want {
				t.Errorf("got%s\nwant%s", got, test.want)
			}
		})
	}
	if _, err := CompileTemplate(strings.Repeat("a", lang.MaxSource+1)); exprtest.Short(err) != "the template is longer than 64 KiB" {
		t.Errorf("got %v for a long template", err)
	}
}

func TestTemplateAppendKeepsWhatWasThereOnAnError(t *testing.T) {
	tpl := MustTemplate(`x$(missing)`)
	got, err := tpl.Append([]byte("before"), exprtest.NewMessage(exprtest.Sample))
	if string(got) != "before" || err == nil {
		t.Errorf("got %q, %v, want what was there and an error", got, err)
	}
}

func TestConstAndPrefix(t *testing.T) {
	tests := []struct {
		src, text string
		constant  bool
		prefix    string
	}{
		{`data/out.ndjson`, `data/out.ndjson`, true, `data/out.ndjson`},
		{`$$(a)`, `$(a)`, true, `$(a)`},
		{`data/$(name)/x`, ``, false, `data/`},
		{`$(name)`, ``, false, ``},
	}
	for _, test := range tests {
		tpl := MustTemplate(test.src)
		text, ok := tpl.Const()
		if text != test.text || ok != test.constant {
			t.Errorf("%s: Const() = %q, %v, want %q, %v", test.src, text, ok, test.text, test.constant)
		}
		if got := tpl.Prefix(); got != test.prefix {
			t.Errorf("%s: Prefix() = %q, want %q", test.src, got, test.prefix)
		}
	}
}

func TestZeroValues(t *testing.T) {
	var e Expr
	var c Cond
	var tpl Template
	if !e.IsZero() || !c.IsZero() || !tpl.IsZero() {
		t.Error("the zero value is not zero")
	}
	if _, err := e.Eval(exprtest.NewMessage(exprtest.Sample)); err == nil {
		t.Error("Eval of the zero Expr: got no error")
	}
	if _, err := c.Test(exprtest.NewMessage(exprtest.Sample)); err == nil {
		t.Error("Test of the zero Cond: got no error")
	}
	if text, err := tpl.Text(exprtest.NewMessage(exprtest.Sample)); text != "" || err != nil {
		t.Errorf("Text of the zero Template: got %q, %v", text, err)
	}
	if e.String()+tpl.String() != "" || e.Warnings() != nil || e.Place().Path != "" || tpl.Place().Path != "" {
		t.Error("zero values are not empty")
	}
}
