package patterns

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/flowd-io/flowd/engine/expr/internal/lang"
)

// plenty returns a frame with an ample budget.
func plenty() (*lang.Frame, *lang.Site) {
	return lang.NewFrame(nil, &lang.Limits{Memory: 1 << 40, Steps: 1 << 40}), &lang.Site{Name: "re_find"}
}

// searchesAgree compares our searches for all matches, and for one after another, with package regexp.
func searchesAgree(t rapid.TB, source, text string, n int) {
	f, s := plenty()
	p := lang.CompilePattern(s, source, lang.MaxProgram)
	want := p.Re.FindAllStringSubmatchIndex(text, n)
	one := furtherMatches(p, f, s, text, n, nil)
	if n < 0 {
		one = furtherMatches(p, f, s, text, 1<<40, nil)
	}
	for how, got := range map[string][][]int{"together": allMatches(p, f, s, text, n), "one by one": one} {
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%q in %q, %s: got %v, want %v", source, text, how, got, want)
		}
	}
	for i := range want { // from the middle on
		if got := furtherMatches(p, f, s, text, len(want), slices.Clone(want[:i])); !slices.EqualFunc(got, want, slices.Equal) &&
			n < 0 {
			t.Errorf("%q in %q, behind %d: got %v, want %v", source, text, i, got, want)
		}
	}
	part, ok := firstMatch(p, text)
	if at := p.Re.FindStringIndex(text); ok != (at != nil) || ok && part != text[at[0]:at[1]] {
		t.Errorf("%q in %q: the first is %q, %v, want it at %v", source, text, part, ok, at)
	}
	if source == "" {
		return // package regexp has its own rules for this case
	}
	parts := []any{}
	for _, part := range p.Re.Split(text, -1) {
		parts = append(parts, part)
	}
	if diff := cmp.Diff(splitMatches(f, s, []any{text, source}), any(parts)); diff != "" {
		t.Errorf("%q in %q: split differs (-got +want):\n%s", source, text, diff)
	}
}

// patternIn makes a random pattern.
func patternIn(t *rapid.T, depth int) string {
	pick := func(from ...string) string { return rapid.SampledFrom(from).Draw(t, "pick") }
	if depth == 0 {
		return pick("a", "b", "é", "[ab]", "[^a]", ".", "(?s:.)", "^", "$", `\b`, `\B`, `\A`, `\z`, "(?m:^)", "(?m:$)", "ab",
			`\w`, `\Qa+\E`, "(?i)É")
	}
	of := func() string { return patternIn(t, depth-1) }
	switch rapid.IntRange(0, 4).Draw(t, "form") {
	case 0:
		return of() + of()
	case 1:
		return of() + "|" + of()
	case 2:
		return "(" + of() + ")"
	case 3:
		return "(?:" + of() + ")" + pick("*", "+", "?", "*?", "+?", "??", "{2}", "{0,2}")
	}
	return of()
}

func TestSearchesAgreeWithThoseOfPackageRegexp(t *testing.T) {
	for _, source := range []string{"", "a", "a*", `\Qa`, `(?m)^`, `\b`, `a.*b|a`, `(?i)a`, `é?`, `(?P<x>a)|b`, "a{2}"} {
		for _, text := range []string{"", "a", "aaab", "\nab\na", "éaé", "b a+a\xffa", "ABab"} {
			searchesAgree(t, source, text, -1)
			searchesAgree(t, source, text, 2)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "é", "\n", " ", "A", "É", "\xff", "a+"}), 0,
			12).Draw(rt, "text"), "")
		searchesAgree(rt, patternIn(rt, 4), text, rapid.IntRange(-1, 4).Draw(rt, "n"))
	})
}

func FuzzPatterns(f *testing.F) {
	for _, s := range []string{"", "a(b)?", `\Qa`, "(?i)x|^y", `\b`, "(?P<n>.)", "a**", "(", `\pL+$`, "a{1000}"} {
		f.Add(s, "abxYé\xff", "<$1$n$$${0}>")
	}
	f.Fuzz(func(t *testing.T, source, text, to string) {
		re, err := regexp.Compile(source)
		if err != nil || len(source) > 200 || len(text) > 300 {
			return
		}
		if lang.CompilePattern(&lang.Site{Name: "re_find"}, source, lang.MaxProgram).Size > 500 {
			return
		}
		searchesAgree(t, source, text, -1)
		f, s := plenty()
		got, failed := lang.Try(func() any { return replaceMatches(f, s, []any{text, source, to}) })
		if failed != nil {
			if !strings.Contains(failed.Error(), "does not have a group") {
				t.Errorf("%q, %q, %q: %v", source, text, to, failed)
			}
			return
		}
		if want := re.ReplaceAllString(text, to); got != want {
			t.Errorf("%q, %q, %q: got %q, want %q", source, text, to, got, want)
		}
	})
}
