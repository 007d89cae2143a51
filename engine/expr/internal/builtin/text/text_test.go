package text_test

import (
	"fmt"
	"html"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
)

type list = []any

const worded = `{"name": "Ann", "id": 7, "big": 123456789012345678901, "whole": 2.0, "half": 0.5, "ok": true, "list": [1, "a"],
	"fmt": "%5.1f|", "odd": "%y", "n": null, "wide": 4611686018427387904, "huge": "%99999999999999999999d"}`

func TestTextFunctions(t *testing.T) {
	exprtest.CheckValues(t, exprtest.NewMessage(worded), exprtest.Values{
		{"what is long enough is not padded", `pad_left("abc", 2)`, "abc"},
		{"nor by a length below zero", `pad_right("abc", -2)`, "abc"},
		{"characters count, not bytes", `pad_left("é", 3, "ü")`, "üüé"},
		{"padding of several characters is cut", `pad_left("x", 6, "äb")`, "äbäbäx"},

		{"a position past the end", `substring("abc", 2, 99)`, "c"},
		{"positions the wrong way round", `substring("abc", 2, 1)`, ""},
		{"the same as a slice", `substring("héllo", -3, -1) == "héllo"[-3:-1]`, true},

		{"what fits is not cut", `truncate("héllo", 5, "…")`, "héllo"},
		{"characters, not bytes, are cut", `truncate("héllo", 2)`, "hé"},
		{"only the ending fits", `truncate("hello", 3, "...")`, "..."},
		{"nothing remains", `truncate("hello", 0)`, ""},

		{"nothing has no first character", `capitalize("")`, ""},
		{"a letter of two", `capitalize("ǆa")`, "ǅa"},
		{"words with accents", `title("élan vital, 2nd o’clock")`, "Élan Vital, 2nd O’clock"},
		{"quotes do not begin a word", `title("'hello' (world)")`, "'Hello' (World)"},

		{"letters and marks apart", `unaccent("e\u0301 a\u030a")`, "e a"},
		{"Greek and Cyrillic", `unaccent("άέ ёй")`, "αε еи"},
		{"marks of other scripts stay", `unaccent("が한नि") == "が한नि"`, true},
		{"plain text stays", `unaccent("plain")`, "plain"},
		{"a slug of several scripts", `slug("  Привет, Straße №5! ")`, "привет-strasse-5"},
		{"a slug of nothing", `slug("?!")`, ""},

		{"lines, of which some are empty", `lines("a\n\n\rb\r\n")`, list{"a", "", "\rb"}},
		{"no lines", `lines("")`, list{}},
		{"one line without an end", `lines("a")`, list{"a"}},
		{"no words", `words(" \n ")`, list{}},
		{"words between any white space", `words("a\u00a0b\tc")`, list{"a", "b", "c"}},
		{"backwards, by characters", `reverse("aé√")`, "√éa"},

		{"a whole float is an integer", `printf("%03d %x", whole, whole)`, "002 2"},
		{"a large integer", `printf("%+d %x", big, big)`, "+123456789012345678901 6b14e9f812f366c35"},
		{"an integer as a float", `printf("%.2f %e %g", id, id, id)`, "7.00 7.000000e+00 7"},
		{"text of anything", `printf("%s %v %s", list, ok, half)`, `[1,"a"] true 0.5`},
		{"a time", `printf("%s", date("2026-01-02"))`, "2026-01-02T00:00:00Z"},
		{"quoted text", `printf("%q %8q", name, list)`, `"Ann" "[1,\"a\"]"`},
		{"texts and bytes in hexadecimals", `printf("%x %X % x", name, bytes(name), name)`, "416e6e 416E6E 41 6e 6e"},
		{"cut and padded by characters", `printf("%6.2s|%-4s|", "éèà", "é")`, "    éè|é   |"},
		{"other verbs", `printf("%t %c %b %o %X", ok, 233, 5, 8, 255)`, "true é 101 10 FF"},
		{"a character that is none", `printf("%c", -1)`, "\ufffd"},
		{"percent signs", `printf("100%% %s%%", name)`, "100% Ann%"},
		{"no verbs", `printf("plain")`, "plain"},
		{"a format from the message", `printf(fmt, 2)`, "  2.0|"},

		{"quotes within quotes", `quote("a\"\\\u0001é")`, `"a\"\\\u0001é"`},
		{"unquoted JSON", `unquote("\"\\ud83d\\ude00\\/\"")`, "😀/"},
		{"unquoted between backticks", "unquote('`a\\\\n`')", `a\n`},
		{"unquoted bytes", `string(len(unquote("'\\xff'")))`, "1"},
		{"unquoted octal and hexadecimal", `unquote("\"\\x41\\101\"")`, "AA"},
	})
}

func TestTextFunctionsFail(t *testing.T) {
	exprtest.CheckMistakes(t, exprtest.NewMessage(worded), exprtest.Mistakes{
		{"padding with nothing", `pad_left("a", 5, "")`, `pad_left() can't pad with a text that is empty`, `pad_left`, false},
		{"a length below zero", `truncate("a", -1)`,
			`truncate() can't make a text of fewer than 0 characters, as number -1 asks for`, `truncate`, false},
		{"an ending that does not fit", `truncate(name, 2, "...")`,
			`truncate() can't make a text of at most 2 characters that ends with 3`, `truncate`, true},
		{"too few values", `printf("%d %s", 1)`, `printf(): the format has 2 verbs for 1 value`, `printf`, false},
		{"too many values", `printf("%d", id, id)`, `printf(): the format has 1 verb for 2 values`, `printf`, false},
		{"a value that is known to be wrong", `printf("%d", upper(name))`,
			`printf(): %d needs a whole number, not text`, `upper`, false},
		{"a value that turns out wrong", `printf("%d", name)`,
			`printf(): %d needs a whole number, not text "Ann"`, `printf`, true},
		{"a fraction", `printf("%x", half)`,
			`printf(): %x needs a whole number, a text or bytes, not number 0.5`, `printf`, true},
		{"truth that is none", `printf("%t", id)`, `printf(): %t needs true or false, not number 7`, `printf`, true},
		{"a number that is none", `printf("%.1f", name)`, `printf(): %f needs a number, not text "Ann"`, `printf`, true},
		{"a large character", `printf("%c", big)`,
			`printf(): %c needs a whole number, not number 123456789012345678901`, `printf`, true},
		{"nothing", `printf("%s", n)`, `printf() needs a value, not nothing (?? gives a missing field a default)`,
			`printf`, true},
		{"a verb of C", `printf("%i", id)`, `printf(): the format has the verb %i (write %d)`, `"%i`, false},
		{"no verb", `printf("50% off")`, `printf(): the format has 1 verb for 0 values`, `printf`, false},
		{"a verb that is not there", `printf("%y", id)`,
			`printf(): the format has 'y' behind a %, which is not a verb` +
				` (write %s %d %x %f %e %g %q %t %c %b %o, or %% for a percent sign)`, `"%y`, false},
		{"from a message, too", `printf(odd, id)`,
			`printf(): the format has 'y' behind a %, which is not a verb` +
				` (write %s %d %x %f %e %g %q %t %c %b %o, or %% for a percent sign)`, `printf`, true},
		{"the end of a format", `printf("100%")`,
			`printf(): the format ends within a verb (write %s %d %x %f %e %g %q %t %c %b %o, or %% for a percent sign)`,
			`"100`, false},
		{"a width from the values", `printf("%*d", 5, 6)`,
			`printf(): the format has a * behind a % (write widths as numbers, and the values in the order of their verbs)`,
			`"%*`, false},
		{"a large width", `printf("%1001d", id)`, `printf(): a width or precision in the format is above 1000`, `"%1`, false},
		{"a huge one from a message", `printf(huge, id)`, `printf(): a width or precision in the format is above 1000`,
			`printf`, true},
		{"half of a quote", `unquote("\"a")`, `unquote(): text "\"a" is not a text between quotes`, `unquote`, false},
		{"a quote inside", `unquote("'a'b'")`,
			`unquote(): text "'a'b'" has a quote or a backslash inside that means nothing`, `unquote`, false},
	})
}

// The functions of texts, and those of URLs and HTML.
func TestTextFunctionsStayWithinTheBudget(t *testing.T) {
	exprtest.Unraced(t)
	const memory, steps = "engine.limits.expression.memory", "engine.limits.expression.steps"
	limits := lang.Limits{Memory: 8 << 20, Steps: 1_250_000}
	var distinct strings.Builder
	for i := range 400_000 {
		fmt.Fprintf(&distinct, "%x&", i)
	}
	m := exprtest.NewMessage(fmt.Sprintf(`{"n": 4611686018427387904, "long": %q, "tag": %q, "amps": %q, "spaces": %q, "accents": %q,
		"names": %q,
		"digits": %s, "format": %q, "ones": [%s1], "bold": %q, "distinct": %q}`, strings.Repeat("a", 1<<20), "<a "+strings.Repeat("b ", 1<<18),
		strings.Repeat("&a", 1<<18), strings.Repeat("a ", 1<<18), strings.Repeat("ΐ", 1<<20), strings.Repeat("a&", 1<<18),
		strings.Repeat("9", 1<<16), strings.Repeat("%999d", 1<<15), strings.Repeat("1,", 1<<15), strings.Repeat("<b>", 1<<15), distinct.String()))
	tests := []struct{ src, want string }{
		{`pad_left("a", n)`, memory},
		{`pad_right("a", n, "äb")`, memory},
		{`pad_left("a", 9000000000000000000)`, memory},
		{`pad_left("a", n, "😀")`, memory},
		{`map(1..1000, pad_left("a", 100000))`, memory},
		{`map(1..100, title(long))`, memory},
		{`map(1..100, capitalize(long))`, memory},
		{`map(1..100, reverse(long))`, memory},
		{`unaccent(accents)`, memory},
		{`slug(accents)`, memory},
		{`count(1..100, slug(long) == "")`, memory},
		{`words(spaces)`, memory},
		{`lines(replace(spaces, " ", "\n"))`, memory},
		{`strip_html(tag)`, memory},
		{`parse_query(names)`, memory},
		{`parse_query(distinct)`, memory},
		{`parse_url("http://a?" + names)`, memory},
		{`build_query({` + strings.Repeat("a", 1000) + `: ones})`, steps},
		{`build_query({a: map(1..20, long)})`, memory},
		{`url_encode(long + long + long)`, memory},
		{`html_escape(replace(long, "a", "<<"))`, memory},
		{`quote(replace(long, "a", "\u0001\u0001"))`, memory},
		{`map(1..100, html_unescape(long + "&amp;"))`, memory},
		{`map(1..100, unquote("'" + long + "'"))`, memory},
		{`printf("%d", digits)`, "has more than 2000 digits"},
		{`printf("%x", long + long)`, memory},
		{`map(1..10000, printf("%1000d", #))`, memory},
		{`printf(format, 1)`, "the format has 32768 verbs for 1 value"},
		{`printf("` + strings.Repeat("%s", 10) + `"` + strings.Repeat(", long", 10) + `)`, memory},
		{`count(1..1000, len(strip_html(bold)) > 0)`, steps},
		{`count(1..1000, substring(long, 5, 6) == "")`, steps},
		{`count(1..1000, truncate(long, 5) == "")`, steps},

		{`len(strip_html(spaces[:100000]))`, ""},
		{`len(words(spaces[:100000]))`, ""},
		{`len(title(long)) + len(unaccent(accents[:100000]))`, ""},
		{`len(parse_query(names[:100000]))`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.src[:min(len(tt.src), 60)], func(t *testing.T) {
			exprtest.Spend(t, tt.src, limits, m).Check(t, tt.want)
		})
	}
}

func anyList(texts []string) any {
	list := make([]any, len(texts))
	for i, text := range texts {
		list[i] = text
	}
	return list
}

// Encoded texts are decoded again, and other implementations agree.
func FuzzTexts(f *testing.F) {
	for _, s := range []string{"", "a b", "%41%zz+", "a=1&a=2&%ff", "http://u:p@[::1]:80/a%2Fb?c#d", "<p>a<script>b</p>&amp;",
		"'a\\'", "\"\\ud800\"", "éß\u0301", "%5.2f %s%%", "\xff", "don't", "a\r\nb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || len(text) > 1000 {
			return
		}
		for name, want := range map[string]any{
			"html_escape": html.EscapeString(text), "html_unescape": html.UnescapeString(text),
			"words":    anyList(strings.Fields(text)),
			"pad_left": text, "truncate": text,
		} {
			args := []any{text}
			if name == "pad_left" || name == "truncate" {
				args = append(args, utf8.RuneCountInString(text))
			}
			if got, failed := lang.CallFunction(name, args...); failed != nil || !cmp.Equal(got, want) {
				t.Errorf("%s(%q): got %v, %v, want %v", name, text, got, failed, want)
			}
		}
		for there, back := range map[string]string{"url_encode": "url_decode", "html_escape": "html_unescape", "quote": "unquote",
			"reverse": "reverse"} {
			written, _ := lang.CallFunction(there, text)
			if got, failed := lang.CallFunction(back, written); got != text {
				t.Errorf("%s(%s(%q)): got %v, %v", back, there, text, got, failed)
			}
		}
		params := map[string]any{"a": text, "b": []any{text, "x"}}
		query, _ := lang.CallFunction("build_query", params)
		if got, failed := lang.CallFunction("parse_query", query); !cmp.Equal(got, any(params)) {
			t.Errorf("%q: got %v, %v", query, got, failed)
		}
		wellFormed(t, text)
		if values, err := url.ParseQuery(text); err == nil {
			got, failed := lang.CallFunction("parse_query", strings.TrimPrefix(text, "?"))
			if object, _ := got.(map[string]any); failed == nil && !strings.HasPrefix(text, "?") && len(object) != len(values) {
				t.Errorf("%q: got %v, want %v", text, got, values)
			}
		}
		if want, err := strconv.Unquote(text); err == nil && text[0] != '\'' && utf8.ValidString(want) {
			if got, failed := lang.CallFunction("unquote", text); got != strings.ReplaceAll(want, "\r", "") && got != want {
				t.Errorf("unquote(%q): got %q, %v, want %q", text, got, failed, want)
			}
		}
	})
}

// wellFormed checks properties that hold for any value of a message.
func wellFormed(t *testing.T, text string) {
	for _, name := range []string{"unaccent", "slug", "title", "capitalize", "strip_html", "lines", "parse_url", "unquote",
		"url_decode", "parse_query", "printf"} {
		got, failed := lang.CallFunction(name, text)
		if failed != nil && (failed.Error() == "" || strings.Contains(failed.Error(), "runtime error")) {
			t.Errorf("%s(%q): %v", name, text, failed)
		}
		if text, ok := got.(string); ok && (!utf8.ValidString(text) || strings.Contains(text, "%!")) && name == "printf" {
			t.Errorf("%s: got %q", name, text)
		}
		again, _ := lang.CallFunction(name, got)
		if name == "unaccent" || name == "slug" || name == "title" || name == "capitalize" {
			if got != again {
				t.Errorf("%s(%q) is %q, and again %q", name, text, got, again)
			}
		}
	}
}

// Formats of all kinds have the results of package fmt, but never its error texts such as %!d.
func TestPrintfAgreesWithPackageFmt(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		spec := "%" + rapid.StringMatching(`[-+# 0]{0,3}[0-9]{0,2}(\.[0-9]{0,2})?`).Draw(rt, "spec")
		verb := rapid.SampledFrom(strings.Split("sdbocxXfFeEgGt", "")).Draw(rt, "verb")
		value := rapid.OneOf(
			rapid.Map(rapid.Int(), func(n int) any { return n }),
			rapid.Map(rapid.Float64Range(-1e15, 1e15), func(n float64) any { return n }),
			rapid.Map(rapid.StringMatching(`[a-zé]{0,5}`), func(s string) any { return s }),
			rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		).Draw(rt, "value")
		got, failed := lang.CallFunction("printf", "<"+spec+verb+">", value)
		if failed != nil {
			if !strings.Contains(failed.Error(), "needs") {
				rt.Fatalf("%s%s of %v: %v", spec, verb, value, failed)
			}
			return
		}
		if strings.Contains(got.(string), "%!") {
			rt.Fatalf("%s%s of %v: %v", spec, verb, value, got)
		}
		want := fmt.Sprintf("<"+spec+verb+">", value)
		if !strings.Contains(want, "%!") && got != want && !(verb == "x" || verb == "X" || verb == "b") {
			rt.Fatalf("%s%s of %v: got %q, want %q", spec, verb, value, got, want)
		}
	})
}
