package patterns_test

import (
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
)

type (
	list   = []any
	object = map[string]any
)

const searched = `{"line": "GET /a?b=1 200 17ms", "mail": "ann@example.com, bob@example.org", "re": "[a-z]+@", "bad": "(",
	"to": "<$0>", "nil": null, "n": 5, "accents": "é1è2", "esc": "a\u0062c", "dollar": "US$5", "empty": ""}`

func TestPatternFunctions(t *testing.T) {
	exprtest.CheckValues(t, exprtest.NewMessage(searched), exprtest.Values{
		{"the first match", `re_find(line, "[0-9]+")`, "1"},
		{"leftmost, then first of the choices", `re_find(line, "/a|/a[?]b")`, "/a"},
		{"no match is nil", `re_find(line, "POST") ?? "none"`, "none"},
		{"an empty match is one", `re_find(line, "x*")`, ""},
		{"an empty match in the middle", `re_find(accents, "\\b") != nil`, true},
		{"an empty match at a place that is not there", `re_find(empty, "\\b")`, nil},
		{"a pattern from the message", `re_find(mail, re)`, "ann@"},
		{"text with escapes in JSON", `re_find(esc, "bc")`, "bc"},
		{"in a pipe", `line | re_find("[A-Z]+")`, "GET"},
		{"a let is a known pattern", `let p = "[0-9]+ms"; re_find(line, p)`, "17ms"},
		{"in a loop", `map(re_split(mail, ", "), re_find(#, "^[a-z]+"))`, list{"ann", "bob"}},

		{"all matches", `re_find_all(mail, "[a-z]+@")`, list{"ann@", "bob@"}},
		{"at most one", `re_find_all(mail, "[a-z]+@", 1)`, list{"ann@"}},
		{"none of them", `re_find_all(mail, "[a-z]+@", 0)`, list{}},
		{"below zero is all", `re_find_all(mail, "[a-z]+@", -1)`, list{"ann@", "bob@"}},
		{"no matches", `re_find_all(mail, "[0-9]")`, list{}},
		{"empty matches, none right behind another", `re_find_all("baac", "a*")`, list{"", "aa", ""}},
		{"characters, not bytes", `re_find_all(accents, ".")`, list{"é", "1", "è", "2"}},

		{"named groups", `re_groups(mail, "(?P<user>[a-z]+)@(?<host>[a-z.]+)")`,
			object{"user": "ann", "host": "example.com"}},
		{"of named groups, others are left out", `re_groups(mail, "(?P<user>[a-z]+)(@)")`, object{"user": "ann"}},
		{"groups without names", `re_groups(mail, "([a-z]+)@([a-z]+)")`, list{"ann@example", "ann", "example"}},
		{"no groups", `re_groups(mail, "[a-z]+")`, list{"ann"}},
		{"a group that did not take part", `re_groups("b", "(a)?b")`, list{"b", nil}},
		{"a named group that did not take part", `re_groups("b", "(?P<x>a)?b")`, object{"x": nil}},
		{"one group", `re_groups(mail, "@([a-z]+)")[1]`, "example"},
		{"one group of no match", `re_groups(mail, "#([a-z]+)")[1]`, nil},
		{"the groups of all matches", `map(re_groups_all(mail, "([a-z]+)@"), #[1])`, list{"ann", "bob"}},
		{"of at most so many", `len(re_groups_all(mail, "([a-z]+)@", 1))`, 1},

		{"plain replacement", `re_replace(mail, "[a-z]+@", "*@")`, "*@example.com, *@example.org"},
		{"at most so many times", `re_replace(mail, "[a-z]+@", "*@", 1)`, "*@example.com, bob@example.org"},
		{"not at all", `re_replace(mail, "[a-z]+@", "*@", 0)`, "ann@example.com, bob@example.org"},
		{"nothing to replace", `re_replace(mail, "#", "")`, "ann@example.com, bob@example.org"},
		{"groups by number", `re_replace("a-b", "(.)-(.)", "$2-$1")`, "b-a"},
		{"braces end a name", `re_replace("a", "(a)", "${1}x")`, "ax"},
		{"groups by name", `re_replace("a", "(?P<first>a)", "$first${first}")`, "aa"},
		{"a dollar", `re_replace("5", "5", "$$5 $ $")`, "$5 $ $"},
		{"the whole match, by a replacement from the message", `re_replace("ab", "b", to)`, "a<b>"},
		{"a group that did not take part is empty", `re_replace("b", "(a)?b", "[$1]")`, "[]"},
		{"empty matches", `re_replace("abc", "x*", "-")`, "-a-b-c-"},
		{"a pattern and a replacement from the message", `re_replace(mail, re, to)`,
			"<ann@>example.com, <bob@>example.org"},

		{"split by a pattern", `re_split("a1b22c", "[0-9]+")`, list{"a", "b", "c"}},
		{"at most two parts", `re_split("a1b22c", "[0-9]+", 2)`, list{"a", "b22c"}},
		{"no parts", `re_split("a1b22c", "[0-9]+", 0)`, list{}},
		{"no separators", `re_split("abc", "[0-9]+")`, list{"abc"}},
		{"nothing to split", `re_split("", "[0-9]+")`, list{""}},
		{"into characters", `re_split("aé", "")`, list{"a", "é"}},
		{"separators at the ends", `re_split("1a1", "1")`, list{"", "a", ""}},

		{"escape", `re_find("a.b axb", re_escape("a.") + "b")`, "a.b"},
	})
}

func TestPatternFunctionsFail(t *testing.T) {
	exprtest.CheckMistakes(t, exprtest.NewMessage(searched), exprtest.Mistakes{
		{"a pattern that is none", `re_find(line, "a(")`,
			`re_find(): text "a(" is not a regular expression: missing closing )`, `"a(`, false},
		{"also where it can't be reached", `try(re_find(line, "a("), 1)`,
			`re_find(): text "a(" is not a regular expression: missing closing )`, `"a(`, false},
		{"in a let", `let p = "a("; re_find(line, p)`,
			`re_find(): text "a(" is not a regular expression: missing closing )`, `p)`, false},
		{"look-ahead", `re_replace(line, "a(?=b)", "")`,
			"re_replace(): text \"a(?=b)\" is not a regular expression: invalid or unsupported Perl syntax" +
				" (patterns are those of RE2: without (?=…), (?<!…) and \\1)", `"a(?`, false},
		{"a reference to a group", `re_find_all(line, "(a)\\1")`,
			"re_find_all(): text \"(a)\\\\1\" is not a regular expression: invalid escape sequence" +
				" (patterns are those of RE2: without (?=…), (?<!…) and \\1)", `"(a)`, false},
		{"a large pattern", `re_groups(line, "(.{1000})(.{1000})(.{1000})(.{1000})(.{1000})(.{1000})")`,
			`re_groups(): the regular expression text "(.{1000})(.{1000})(.{1000})(.{1000})(.{1…" is too large`, `"(.`, false},
		{"a name of two groups", `re_groups(line, "(?P<a>x)|(?P<a>y)")`,
			`re_groups(): a group a is there twice (give each group its own name)`, `"(?P`, false},
		{"a name of two groups, from the message", `re_groups_all(line, "(?P<a>x)|(?P<" + (line == "" ? "b" : "a") + ">y)")`,
			`re_groups_all(): a group a is there twice (give each group its own name)`, `re_groups_all`, true},
		{"a number as a pattern", `re_split(line, 5)`, `re_split() needs text, not number 5`, `re_split`, false},
		{"a group that is not there", `re_replace(line, "(a)", "$1 $2")`,
			`re_replace(): the pattern does not have a group 2 ($$ is a dollar sign)`, `"$1`, false},
		{"a name that goes on", `re_replace(line, "(a)", "$1st")`,
			`re_replace(): the pattern does not have a group 1st (write ${1}st for the group 1, or $$ for a dollar sign)`,
			`"$1st`, false},
		{"a name that is not there", `re_replace(line, "(?P<a>a)", "${b}")`,
			`re_replace(): the pattern does not have a group b ($$ is a dollar sign)`, `"${b`, false},
		{"a replacement from the message", `re_replace(line, "G", dollar)`,
			`re_replace(): the pattern does not have a group 5 ($$ is a dollar sign)`, `re_replace`, true},
		{"a pattern from the message that is none", `re_groups_all(line, bad)`,
			`re_groups_all(): text "(" is not a regular expression: missing closing )`, `re_groups_all`, true},
		{"a number to search", `re_find(n, "5")`, `re_find() needs text, not number 5`, `re_find`, true},
		{"nothing to search", `re_find(missing, "5")`,
			`re_find() needs text, not nothing (?? gives a missing field a default)`, `re_find`, true},
	})
}

// Values of messages may make patterns slow and results large, up to the budget.
func TestPatternsStayWithinTheBudget(t *testing.T) {
	exprtest.Unraced(t)
	const memory, steps = "engine.limits.expression.memory", "engine.limits.expression.steps"
	limits := lang.Limits{Memory: 8 << 20, Steps: 1_250_000}
	long := strings.Repeat("a", 1<<17)
	m := exprtest.NewMessage(`{"long": "` + long + `", "csv": "` + strings.Repeat("12,ab ", 20_000) + `", "html": "` +
		strings.Repeat("<p>ab</p>", 1_000) + `", "slow": "a.*b|a", "plain": "` + strings.Repeat("b", 2<<20) + `", "to": "` + strings.Repeat("$0",
		1_000) + `"}`)
	tests := []struct{ src, want string }{
		{`re_find_all(long, "a.*b|a")`, steps},
		{`re_find_all(long, "<[^>]*>|a")`, steps},
		{`re_find_all(long, slow)`, steps},
		{`re_replace(long, "a.*b|a", "")`, steps},
		{`re_split(long, "a.*b|a")`, steps},
		{`re_groups_all(long, "(a).*b|(a)")`, steps},
		{`count(1..1000, len(re_find_all(html, "a.*b?z|a")) > 0)`, steps},
		{`re_find_all(long, "")`, steps},
		{`re_find_all(long, "a")`, steps},
		{`re_groups_all(long, "(((((((((a)))))))))")`, memory},
		{`re_split(long, "")`, steps},
		{`re_replace(csv, "12", "` + strings.Repeat("b", 1000) + `")`, memory},
		{`re_replace(long, "a+", to)`, memory},
		{`re_replace(long, "a+", "` + strings.Repeat("$0", 1000) + `")`, memory},
		{`re_replace("aaaaaaaaaaaaaaaaaaaa", "a", plain)`, memory},
		{`map(1..100, re_escape(long + "."))`, memory},
		{`count(1..1000, re_find(long, "(a?){50}(a?){50}b") == nil)`, steps},
		{`count(1..1000, re_groups(long, "(a?){50}(a?){50}b") == nil)`, steps},
		{`count(1..100000, re_find("a", "a" + string(#)) == nil)`, steps},
		{`re_find(long, long)`, "re_find(): a regular expression from a message may have at most 4096 bytes"},
		{`re_find(long, "` + strings.Repeat("(a?){50}", 10) + `" + long[:1])`, "is too large"},

		{`len(re_find_all(csv, "[0-9]+"))`, ""},
		{`len(re_replace(html, "<[^>]*>", ""))`, ""},
		{`len(re_split(csv, ","))`, ""},
		{`len(re_replace(csv, "12,", ""))`, ""},
		{`len(re_groups_all(html, "<(p)>"))`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.src[:min(len(tt.src), 60)], func(t *testing.T) {
			exprtest.Spend(t, tt.src, limits, m).Check(t, tt.want)
		})
	}
}
