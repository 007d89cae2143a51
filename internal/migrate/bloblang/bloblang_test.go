package bloblang

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestQueriesBecomeExpressions(t *testing.T) {
	tests := []struct{ name, src, want string }{
		{"a field", `this.a.b`, `a.b`},
		{"a field without this", `a.b`, `a.b`},
		{"an odd name", `this."a b".c`, `this["a b"].c`},
		{"a reserved word", `this.in.or`, `this.in.or`},
		{"an element", `this.items.0.sku`, `items[0].sku`},
		{"a comparison", `this.a > 1 && !(this.b == "x")`, `a > 1 and b != "x"`},
		{"operators of one level", `a || b && c`, `(a or b) and c`},
		{"a sum in a product", `(a + 1) * -b`, `(a + 1) * -b`},
		{"a difference in a difference", `a - (b - c)`, `a - (b - c)`},
		{"metadata", `@kind == "a" && meta("b c") != null`, `meta("kind") == "a" and meta("b c") != nil`},
		{"the error of a message", `errored() || error() == "x"`, `error() != nil or error().message == "x"`},
		{"the type", `this.a.type() == "number" || this.b.type() != "object"`,
			`type(a) in ["int", "float"] or type(b) != "map"`},
		{"a mapping of several statements", "let x = this.a * 2\nroot.a = $x\nroot.b.c = $x",
			`let x = a * 2; {a: x, b: {c: x}}`},
		{"a copy that is changed", "root = this\nroot.a = 1\nroot.b = deleted()", `without(merge(this, {a: 1}), "b")`},
		{"branches", "root.a = 1\nif this.b { root.c = 2 } else { root.d = 3 }",
			`b ? merge({a: 1}, {c: 2}) : merge({a: 1}, {d: 3})`},
		{"a text with a dollar sign and a brace", `"${a}"`, `"$${a}"`},
		{"a text with a line break", `"a\nb"`, `"a\nb"`},
		{"a text with a backslash", `"a\\d"`, "`a\\d`"},
		{"bytes that are not UTF-8", `"\xff"`, `from_hex("ff")`},
		{"what is in another loop", `this.a.map_each(x -> this.b.filter(y -> y > x && y != this.c))`,
			`map(a, {let x = #; filter(this.b, # > x and # != this.c)})`},
		{"parts of an entry in another loop", `this.o.map_each(e -> this.l.map_each(x -> e.key + x))`,
			`map_values(o, {let key = #key; map(this.l, key + #)})`},
		{"a named argument", `this.a.replace_all(new: "x", old: "y")`, `replace(a, "y", "x")`},
		{"an error", `this.a.parse_json().catch(err -> {"why": err, "in": this.a})`,
			`try(from_json(a), {why: "failed", "in": a})`},
		{"a field of an error", `this.a.number().catch(this.b)`, `try(float(a), nil)`},
		{"chains over lines", "this.a.\n  uppercase().\n  trim()", `trim(upper(a))`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, notes := Query(tt.src, Options{})
			for _, n := range notes {
				if n.Kind == Untranslated {
					t.Error(n.Text)
				}
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestTemplates(t *testing.T) {
	tests := []struct{ name, src, want string }{
		{"text", "a b", "a b"},
		{"an interpolation", `logs/${!json("a.b")}.${! @kind.or("none") }`, `logs/$(a.b).$(meta("kind") ?? "none")`},
		{"a brace in an interpolation", `${! {"a": "}"} }`, `$({a: "}"})`},
		{"what looks like a part", `$(x) ${!this.a}`, `$$(x) $(a)`},
		{"what looks like a placeholder", `${x} ${!this.a}`, `$${x} $(a)`},
		{"an escaped interpolation", `${{!this.a}} b`, `$${!this.a} b`},
		{"functions", `${!count("f")}-${!timestamp_unix()}.json`, `$(counter("f"))-$(unix(now())).json`},
		{"no end", `a ${!this.b`, `a $(untranslated("$${!this.b"))`},
		{"an unknown function", `a ${!secret("x")} b`, "a $(untranslated(`secret(\"x\")`)) b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, notes := Template(tt.src, Options{})
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if refused := strings.Contains(tt.want, "untranslated"); refused != (len(notes) > 0) {
				t.Errorf("got the notes %v", notes)
			}
		})
	}
}

// A caller's private characters stay as they are, as an operand and in a text.
func TestPlaceholdersOfTheCaller(t *testing.T) {
	const p = "\U00100000\U00100005\U00100001"
	o := Options{Unescaped: true}
	for src, want := range map[string]string{
		`this.a > ` + p + ` && this.b == "x` + p + `"`: `a > ` + p + ` and b == "x` + p + `"`,
		`"${x}" + file("/etc/x").string()`:             `"${x}" + "` + string(Dollar) + `{file:/etc/x}"`,
	} {
		if got, notes := Query(src, o); got != want || len(notes) > 0 {
			t.Errorf("%s becomes %q, %v, want %q", src, got, notes, want)
		}
	}
	if got, _ := Template("a "+p+" ${!this.b} ${x}", o); got != "a "+p+" $(b) ${x}" {
		t.Errorf("the template is %q", got)
	}
}

func TestAResultIsReadWhereItStands(t *testing.T) {
	o := Options{Target: InPlace, This: "answer"}
	const want = "- set:\n    a: answer.x\n    b: '\"none\" in answer.y'\n" +
		"    c: a\n- set:\n    whole: answer\n  when: answer.ok ?? false\n"
	src := "root.a = this.x\nroot.b = this.exists(\"y.none\")\nroot.c = root.a\nroot.whole = if this.ok { this }"
	if diff := cmp.Diff(want, translated(src, o)); diff != "" {
		t.Errorf("the steps differ (-want +got):\n%s", diff)
	}
	for src, want := range map[string]string{
		"root = this": "- payload: answer\n",
		"root = {\"a\": this.b}\nroot.c = this.d": "- let:\n    before: this\n- map:\n    a: answer.b\n" +
			"- set:\n    c: vars(\"before\").answer.d\n",
	} {
		if diff := cmp.Diff(want, translated(src, o)); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", src, diff)
		}
	}
}

func TestImports(t *testing.T) {
	files := map[string]string{
		"maps.blobl":  "import \"more.blobl\"\nmap twice { root = this.apply(\"once\") * 2 }",
		"more.blobl":  "map once { root = this + 0 }",
		"whole.blobl": "# A file of its own.\nroot.a = this.b",
		"bad.blobl":   "root = (",
	}
	o := Options{Import: func(path string) (string, error) {
		if text, ok := files[path]; ok {
			return text, nil
		}
		return "", errors.New("there is no such file")
	}}
	for src, want := range map[string]string{
		"import \"maps.blobl\"\nroot.n = this.n.apply(\"twice\")": "- map:\n    n: (n + 0) * 2\n",
		"from \"whole.blobl\"": "# A file of its own.\n- map:\n    a: b\n",
	} {
		if diff := cmp.Diff(want, translated(src, o)); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", src, diff)
		}
	}
	for src, want := range map[string]string{
		"import \"none.blobl\"\nroot = this": `import "none.blobl": there is no such file`,
		"root = this\nimport \"bad.blobl\"":  `bad.blobl: line 1, column 9: a value is missing here`,
	} {
		_, notes := Steps(src, o)
		if len(notes) != 1 || notes[0].Kind != Untranslated || !strings.Contains(notes[0].Text, want) {
			t.Errorf("%s: got %v, want %s", src, notes, want)
		}
	}
	if _, notes := Steps("import \"maps.blobl\"\nroot = this", Options{}); len(notes) != 1 {
		t.Errorf("got %v without a way to read files", notes)
	}
}

func TestPieces(t *testing.T) {
	for src, want := range map[string]string{"root = this": "", "root.a.\"b c\" = this": `a["b c"]`} {
		m, err := Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := m.Into(); !ok || got != want {
			t.Errorf("%s goes into %q, %v, want %q", src, got, ok, want)
		}
	}
	for _, src := range []string{"root = this.a", "root.a = this # why", "root.a = this\nroot.b = 1"} {
		m, err := Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := m.Into(); ok {
			t.Errorf("%s goes into %q", src, got)
		}
	}
	want := []Field{{"a", "b"}, {"c d", "upper(e)"}}
	for _, src := range []string{"root.a = this.b\nroot.\"c d\" = this.e.uppercase()",
		`root = {"a": this.b, "c d": this.e.uppercase()}`} {
		if got, _, ok := Fields(src, Options{}); !ok || !cmp.Equal(got, want) {
			t.Errorf("%s has the fields %v, %v", src, got, ok)
		}
	}
	for _, src := range []string{"root = this", "root.a.b = 1", "root.a = 1\nroot.b = root.a", "root.a = deleted()",
		"meta a = 1", "root ="} {
		if got, _, ok := Fields(src, Options{}); ok {
			t.Errorf("%s has the fields %v", src, got)
		}
	}
	if got, _, ok := List("root = [this.a, this.b + 1]", Options{}); !ok || !cmp.Equal(got, []string{"a", "b + 1"}) {
		t.Errorf("the list is %v, %v", got, ok)
	}
	for _, src := range []string{"root = this.a", "root = [1, deleted()]", "root.a = [1]"} {
		if got, _, ok := List(src, Options{}); ok {
			t.Errorf("%s is the list %v", src, got)
		}
	}
	if got := Environment("a: env(\"B\")\nb: 'env(\"A\") + env(\"B\")'"); !cmp.Equal(got, []string{"A", "B"}) {
		t.Errorf("the environment is %v", got)
	}
}
