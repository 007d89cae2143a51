package expr

import (
	"errors"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// What a message must not show: how expr's parser and lexer call things.
var internals = regexp.MustCompile(`\b(Bracket|Operator|Number|Identifier|String|Bytes|EOF)\b(\(|$)|EOF|strconv|parsing|token|literal|identifier|runtime error|compilation`)

func TestNoMessageShowsTheParser(t *testing.T) {
	check := func(src string) {
		_, err := Compile(src)
		var e *Error
		if errors.As(err, &e) && internals.MatchString(e.Short()) && !internals.MatchString(src) {
			t.Errorf("%q: %s", src, e.Short())
		}
	}
	for _, src := range []string{"{", "{1", "{-", "{\"a\nb\" \"c\nd\"}", "0x", "0b", "0o9", "1e", "1e999", "a.0x", "1a",
		"/* a", "a b\nc", "{a b}", "{..}", "if a", "#", "a ?? b + 1",
		"filter(a, ", "map()", "99999999999999999999", "-99999999999999999999", "0xffffffffffffffffff", "`a", "'\\u12'",
		"b'\\400'", "let a", "let = 1", "let a = 1 b", "a?.[", "::", "a::b", "not", "in", ";", "a;"} {
		check(src)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	const alphabet = "(){}[]\"'`.,:;?|#$&*+-/<>=!~^%@\\ \nab019xeE_é"
	all := []rune(alphabet)
	for range 20_000 {
		src := []rune(seeds[rng.IntN(len(seeds))])
		for range 1 + rng.IntN(3) {
			i := rng.IntN(len(src) + 1)
			switch rng.IntN(3) {
			case 0:
				src = append(src[:i:i], src[min(len(src), i+1+rng.IntN(4)):]...)
			case 1:
				src = append(src[:i:i], append([]rune{all[rng.IntN(len(all))]}, src[i:]...)...)
			default:
				src = src[:i]
			}
		}
		check(string(src))
	}
}

// Each of these is a word of another language, with what to write instead, and a
// use of that.
func TestHintsForWordsOfOtherLanguages(t *testing.T) {
	for src, want := range map[string]struct{ hint, use string }{
		`throw("a")`: {"`- fail: why`", ``},
		`deleted()`:  {"`unset: [field]`", ``},
		`content()`:  {"raw()", ``},
		`strftime(a)`: {`format(time, "2006-01-02 15:04:05")`,
			`format(date("2026-01-02"), "2006-01-02 15:04:05") == "2026-01-02 00:00:00"`},
		`file("x")`:  {"${file:/path}", ``},
		`hostname()`: {"${HOSTNAME}", ``},
		`merge(a, b)`: {"fromPairs(concat(toPairs(a), toPairs(b)))",
			`fromPairs(concat(toPairs({a: 1, b: 1}), toPairs({b: 2}))) == {a: 1, b: 2}`},
		`a =~ "x"`:                   {`text matches "…"`, `"ax" matches "x"`},
		`range(1, 2)`:                {"1..n", `1..3 == [1, 2, 3]`},
		`regex_replace(a, "b", "c")`: {`replace(text, "old", "new")`, `replace("ab", "b", "c") == "ac"`},
		`urldecode(a)`:               {"`exec`", ``},
		`sqrt(a)`:                    {"x ** 0.5", `9 ** 0.5 == 3`},
	} {
		_, err := Compile(src)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(e.Remedy, want.hint) {
			t.Errorf("%s: got %v, want a hint at %s", src, err, want.hint)
		}
		if want.use == "" {
			continue
		}
		use := MustCond(want.use)
		if ok, err := use.Test(msg(sample)); !ok || err != nil {
			t.Errorf("%s: %v, %v", want.use, ok, err)
		}
	}
}
