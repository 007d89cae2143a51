package expr

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
)

func TestCompileFails(t *testing.T) {
	tests := []struct {
		name string
		src  string
		want string
		at   string // where the caret points
	}{
		{"a variable", `status == $code`,
			"there are no variables, so $code means nothing (write code for a field, or this[\"$code\"] where the $ is part of its name)", `$code`},
		{"a field of a variable", `$user.name`,
			"there are no variables, so $user means nothing (write user for a field, or this[\"$user\"] where the $ is part of its name)", `$user`},
		{"a dollar", `$ + 1`,
			"there are no variables, so $ means nothing (write name for a field, or this[\"$\"] where the $ is part of its name)", `$ + 1`},
		{"nothing", ``, `there is no expression here`, ``},
		{"blanks", " \n", `there is no expression here`, " \n"},
		{"only a comment", `// x`, `the expression ends too early`, ``},
		{"not UTF-8", "a == \"\xff\"", `the expression is not UTF-8 here`, "\xff\""},
		{"an open bracket", `(a`, `the expression ends too early (the ( before it is not closed)`, ``},
		{"an open quote", `a == "b`, `a text has no closing quote (close it; a quote inside is written \")`, ``},
		{"a wrong escape", `"\d"`,
			`a backslash in a text begins an escape that does not exist (write \\ for a backslash, or the text between backticks)`, `d"`},
		{"a text that is not UTF-8", `b"\xff"`, `the escapes in this text do not form valid UTF-8`, `b"\xff"`},
		{"an unknown sign", `a ~ b`, `cannot read the character U+007E '~'`, `~ b`},
		{"a span of time", `age > 5m`, `"5m" is not a number (write duration("5m"))`, `m`},
		{"a day", `age > 5d`, `"5d" is not a number`, `d`},
		{"= for ==", `status = 500`, `unexpected = (write == to compare)`, `= 500`},
		{"=== for ==", `status === 500`, `unexpected = (write == to compare)`, `= 500`},
		{"NOT for not", `NOT a`, `unexpected a (write not)`, `a`},
		{"NOT for not, with brackets", `a and NOT (b)`, `there is no function NOT() (write not a)`, `NOT`},
		{"AND for and", `a AND b`, `unexpected AND (write and)`, `AND b`},
		{"<> for !=", `a <> b`, `unexpected > (write !=)`, `> b`},
		{"a reserved word", `in == 5`, `unexpected in (a field of this name is written this.in)`, `in`},
		{"a reserved word alone", `not`, `the expression ends too early (a field of this name is written this.not)`,
			``},
		{"an operator as a function", `startsWith(a, "b")`,
			`unexpected startsWith (startsWith goes between its operands: a startsWith b)`, `startsWith`},
		{"an operator, nearly, as a function", `startWith(a, "b")`,
			`there is no function startWith() (did you mean a startsWith b?)`, `startWith`},
		{"what a migration has left", `untranslated("this.a.b()")`, "there is no function untranslated() " +
			"(write here what the mapping did; the comment of the step says why it stayed)", `untranslated`},
		{"a function of another language", `to_lower(a)`, `there is no function to_lower() (write lower(x))`,
			`to_lower`},
		{"an unknown function of a predicate", `countBy(list, .qty)`,
			`there is no function countBy() (did you mean count_by()?)`, `countBy`},
		{"an unknown function around a predicate in brackets", `fliter(list, (# > 1))`,
			`there is no function fliter() (did you mean filter()?)`, `fliter`},
		{"a pipe into a name", `a | upper`, `the expression ends too early (write | upper())`, ``},
		{"| for or", `a | b`, `the expression ends too early (write or, or bitor(a, b); | hands a value to a function)`,
			``},
		{"a let without its use", `let x = 1`,
			`the expression ends too early (write what to do with it: let x = a; x + 1)`, ``},
		{"a bracket too many", `a)`, `unexpected ) (it closes nothing: remove it, or open it before)`, `)`},
		{"a key that is no name", `user.["x"]`,
			`the name of a field belongs here (write any other key in brackets: this["odd name"])`, `"x"`},
		{"not without brackets", `not a > 1`,
			`cannot compare true/false with number 1 using > (put brackets around what is negated: not (a > b))`,
			`> 1`},
		{"two values", `a b`, `unexpected b (an operator is missing before it)`, `b`},
		{"a text behind a value", `a "b"`, `unexpected text "b" (an operator is missing before it)`, `"b"`},
		{"an integer beyond int64", `a == 18446744073709551616`,
			`a whole number is beyond 64 bits (write int("…") to compare with a larger one)`, `18446744073709551616`},
		{"?? beside +", `a ?? b + 1`, `?? beside another operator is ambiguous (put brackets around it: (a ?? 0) + 1)`,
			`+ 1`},
		{"# outside of a predicate", `# > 1`,
			`unexpected # (# is the element inside a predicate: filter(items, # > 1))`, `# > 1`},
		{". outside of a predicate", `.a`,
			`unexpected . (.name is the element's field inside a predicate; a field of the document needs no dot)`,
			`.a`},
		{"#acc outside of reduce", `map(list, #acc)`, `#acc only exists in reduce()`, `#acc`},
		{"an unknown pointer", `map(list, #qty)`,
			`#qty is not #, #index, #acc, #key or #path (write .qty for the element's field)`, `#qty`},
		{"after an accent the caret is right", `"é" = a`, `unexpected = (write == to compare)`, `= a`},

		{"an unknown function", `uper(a)`, `there is no function uper() (did you mean upper()?)`, `uper(`},
		{"a name far from any", `frobnicate(a)`, `there is no function frobnicate()`, `frob`},
		{"a field is no function", `status()`, `there is no function status()`, `status`},
		{"a let is no function", `let f = 1; f(2)`, `there is no function f()`, `f(2)`},
		{"a method", `name.upper()`,
			`upper cannot be called on a value: there are functions, but no methods (write upper(name))`, `upper()`},
		{"a method of a time", `now().Year()`, `Year cannot be called on a value: there are functions, but no methods`,
			`Year`},
		{"a method of an element", `map(list, .trim())`,
			`trim cannot be called on a value: there are functions, but no methods (write trim(#))`, `trim`},
		{"a method with ?.", `a?.trim()`,
			`trim cannot be called on a value: there are functions, but no methods (write trim(a))`, `trim`},
		{"an unknown function in a pipe", `a | uper()`, `there is no function uper() (did you mean upper()?)`, `uper`},
		{"a function with ::", `::frob(a)`, `there is no function frob()`, `frob`},

		{"a literal of a wrong type", `"a" > 1`, `cannot compare text "a" with number 1 using >`, `> 1`},
		{"nil has no order", `nil > 1`,
			`cannot compare nothing with number 1 using > (?? gives a missing field a default)`, `> 1`},
		{"a result of a wrong type", `upper(a) > 1`, `cannot compare text with number 1 using >`, `> 1`},
		{"a result that is not added", `len(a) + "x"`,
			`cannot add number and text "x" (string(x) turns a number into text)`, `+ "x"`},
		{"a comparison that is compared", `(a > 1) == 1`, `cannot compare true/false with number 1 using ==`, `== 1`},
		{"an argument of a wrong type", `upper(5)`, `upper() needs text, not number 5`, `upper`},
		{"a result as a wrong argument", `upper(len(a))`, `upper() needs text, not number`, `upper`},
		{"nil as an argument", `upper(nil)`, `upper() needs text, not nothing (?? gives a missing field a default)`,
			`upper`},
		{"too few arguments", `upper()`, `upper() takes 1 argument, not 0 (upper(text) text)`, `upper`},
		{"too many arguments", `upper(a, b)`, `upper() takes 1 argument, not 2 (upper(text) text)`, `upper`},
		{"optional arguments", `trim(a, b, c)`, `trim() takes 1 to 2 arguments, not 3 (trim(text, [text]) text)`,
			`trim`},
		{"repeated arguments", `concat()`, `concat() takes at least 1 argument, not 0 (concat(list...) list)`,
			`concat`},
		{"get with one argument", `get(a)`, `get() takes 2 arguments, not 1 (get(any, text|int) any)`, `get`},
		{"a list that is a text", `filter("a", true)`, `filter() needs a list, not text "a"`, `filter`},
		{"a condition that is a number", `filter(a, 1 + 1)`, `a condition must be true or false, but this is number`,
			`+ 1`},
		{"logic of numbers", `1 and a`, `a condition must be true or false, but this is number`, `1 and`},
		{"division by zero", `1 / 0`, `cannot divide by zero`, `/ 0`},
		{"overflow", `9223372036854775807 + 1`,
			`the result of + does not fit into 64 bits (write float(x) to calculate with rounded numbers)`, `+ 1`},
		{"a pattern that is none", `a matches "("`, `matches: text "(" is not a regular expression: missing closing )`,
			`matches`},
		{"a pattern that is a number", `a matches 5`, `cannot use matches on a document's value and number 5`,
			`matches`},
		{"a time plus a field", `now() + status`, `cannot add time and a document's value`, `+ status`},
		{"a key twice", `{a: 1, a: 2}`, `the key "a" is given twice`, `a: 2`},
		{"a key that is a number", `{(1): 2}`, `a key is text, not number`, `1)`},
		{"an index that is true", `a[true]`, `a key is text and an index a whole number, not true/false`, `[true`},
		{"too few arguments of a predicate", `filter(a)`, `filter() takes 2 arguments, not 1 (filter(list, predicate) list)`, `filter`},
		{"no arguments of count", `count( )`, `count() takes 1 to 2 arguments, not 0 (count(list, [predicate]) int)`, `count`},
		{"too few arguments after a pipe", `1 + len(a | sort_by())`,
			`sort_by() takes 2 to 3 arguments, not 1 (sort_by(list, expression, [text]) list)`, `sort_by`},
		{"too few arguments of a loop of our own", `count_by(map(a, #))`,
			`count_by() takes 2 arguments, not 1 (count_by(list, expression) object)`, `count_by`},
		{"under its former name", `groupBy(a)`, `groupBy() takes 2 arguments, not 1 (group_by(list, expression) object)`, `groupBy`},
		{"a number that would be 0", `a > 0.1e-400`,
			`a number is too small for 64 bits, and would be 0 (write 0 if that is what is meant)`, `0.1e-400`},
		{"an integer that is too small", `-9223372036854775809`, `a whole number is beyond 64 bits (write int("…") to compare with a larger one)`,
			`9223`},
		{"what only a minus sign makes fit", `1 - 9_223_372_036_854_775_808`,
			`a whole number is beyond 64 bits (write int("…") to compare with a larger one)`, `9_223`},
		{"a large integer in a JSONPath", `json_path(this, "$.b[?@ == 12345678901234567890]")`,
			`json_path(): text "$.b[?@ == 12345678901234567890]" is not a JSONPath: a number in it is too large`, `"$.b`},
		{"a bad duration", `duration("5 days")`, `duration(): text "5 days" is not a duration such as 250ms, 1h30m or PT1H30M`,
			`duration`},
		{"sort in a wrong way", `sort([1], "up")`, `sort() sorts "asc" or "desc", not text "up"`, `sort`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Compile(test.src)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("Compile(%q): got error %v, want an *Error", test.src, err)
			}
			if got := e.Short(); got != test.want {
				t.Errorf("Compile(%q)\n got %s\nwant %s", test.src, got, test.want)
			}
			if got := e.Expr[min(e.Offset, len(e.Expr)):]; !strings.HasPrefix(got, test.at) || test.at == "" &&
				got != "" {
				t.Errorf("Compile(%q): caret at %q, want at %q", test.src, got, test.at)
			}
		})
	}
}

func TestConditionsAreTrueOrFalse(t *testing.T) {
	for _, src := range []string{`1 + 1`, `upper(x)`, `"true"`, `nil`, `[true]`, `len(x)`, `map(x, true)`, `x + 1`,
		`now()`} {
		_, err := CompileCond(src)
		if err == nil || !strings.HasPrefix(err.Error(), "a condition must be true or false, but this is ") {
			t.Errorf("CompileCond(%q): got error %v, want one about true or false", src, err)
		}
	}
	for _, src := range []string{`x`, `x > 1`, `not x`, `true`, `any(x, true)`, `x ?? false`, `x ? y : z`,
		`find(x, true)`, `hasPrefix(x, "a")`} {
		if _, err := CompileCond(src); err != nil {
			t.Errorf("CompileCond(%q): %v", src, err)
		}
	}
}

func TestTest(t *testing.T) {
	m := exprtest.NewMessage(exprtest.Sample)
	tests := []struct {
		src, want string
	}{
		{`status >= 500`, "true"},
		{`ok`, "true"},
		{`not ok`, "false"},
		{`any(items, .qty > 9)`, "false"},
		{`missing`, "a condition must be true or false, but this is nothing"},
		{`name`, `a condition must be true or false, but this is text "Ann"`},
		{`first(list)`, `a condition must be true or false, but this is number 3`},
	}
	for _, test := range tests {
		c := MustCond(test.src)
		ok, err := c.Test(m)
		got := exprtest.Short(err)
		if err == nil {
			got = map[bool]string{true: "true", false: "false"}[ok]
		}
		if got != test.want {
			t.Errorf("%s: got %s, want %s", test.src, got, test.want)
		}
	}
}

func TestErrorShowsTheExpressionAndACaret(t *testing.T) {
	tests := []struct {
		name, src, want string
	}{
		{"in short expressions", `status == "503"`, `
cannot compare number 503 with text "503" using ==
  status == "503"
         ^`},
		{"on the line that fails", "status > 1 and\n\tstatus == \"503\"", `
cannot compare number 503 with text "503" using ==
   status == "503"
          ^`},
		{"behind characters of several bytes", `"é" == word or status == "é"`, `
cannot compare number 503 with text "é" using ==
  "é" == word or status == "é"
                        ^`},
		{"within a window of a long line", strings.Repeat("status > 1 and ", 20) + `name > 1`, `
cannot compare text "Ann" with number 1 using >
  d status > 1 and status > 1 and status > 1 and status > 1 and status > 1 and status > 1 and name > 1
                                                                                                   ^`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := MustCompile(test.src)
			_, err := e.Eval(exprtest.NewMessage(exprtest.Sample))
			if got := "\n" + exprtest.ErrorText(err); got != test.want {
				t.Errorf("got%s\nwant%s", got, test.want)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	tests := []struct {
		src  string
		want []string
	}{
		{`filter(items, qty > 1)`,
			[]string{"qty in a predicate is the document's field (write .qty for the element's field, this.qty for the document's)"}},
		{`filter(items, .qty > this.limit)`, nil},
		{`filter(items, {let q = .qty; q > 1})`, nil},
		{`filter(items, 1 < qty < 5)`,
			[]string{"qty in a predicate is the document's field (write .qty for the element's field, this.qty for the document's)"}},
		{`country == null`, []string{"null is read as a field of the document (write nil for no value)"}},
		{`yes`, []string{"yes is read as a field of the document (write true, or this.yes for a field of this name)"}},
		{`a == On ? off : no`, []string{
			"On is read as a field of the document (write true, or this.On for a field of this name)",
			"no is read as a field of the document (write false, or this.no for a field of this name)",
			"off is read as a field of the document (write false, or this.off for a field of this name)",
		}},
		{`this.yes and on.tap and (let no = 1; no > 0)`, nil},
		{`items`, nil},
	}
	for _, test := range tests {
		e := MustCompile(test.src)
		var got []string
		for _, w := range e.Warnings() {
			got = append(got, w.Short())
		}
		if strings.Join(got, "\n") != strings.Join(test.want, "\n") {
			t.Errorf("%s: got warnings %q, want %q", test.src, got, test.want)
		}
	}
}

// Lint looks for idioms of other languages in code that is not valid, and must not take long for a hostile file.
func TestExplainingCodeIsQuick(t *testing.T) {
	var translator Translator
	for _, code := range []string{strings.Repeat("f(", 1000) + ".a", strings.Repeat("x -> ", 400), strings.Repeat("(", 60_000) + ".a",
		strings.Repeat("{{ a }}", 280), strings.Repeat("a.0.", 500)} {
		start := time.Now()
		translator.Foreign(code)
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("%.20s… takes %v", code, took)
		}
	}
}
