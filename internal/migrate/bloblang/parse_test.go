package bloblang

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestWhatCannotBeReadHasAPlace(t *testing.T) {
	tests := []struct {
		name, src string
		line, col int
		problem   string
	}{
		{"nothing", "", 1, 1, "the mapping is empty"},
		{"only a comment", "# nothing", 1, 10, "the mapping is empty"},
		{"a value is missing", "root.a = 1\nroot.b =", 2, 9, "a value is missing here"},
		{"an operand is missing", "root.a = 1 +", 1, 13, "a value is missing here"},
		{"a bracket is missing", "root.a = (1 + 2", 1, 16, "expected ) rather than the end"},
		{"a brace is missing", "root.a = {\"b\": 1", 1, 17, "expected , or } rather than the end"},
		{"a list is not closed", "root.a = [1 2]", 1, 13, `expected , or ] rather than "2"`},
		{"a text is not closed", "root.a = \"b", 1, 10, "the text lacks its closing quote"},
		{"a raw text is not closed", `root.a = """b`, 1, 10, `the text lacks its closing """`},
		{"two statements on a line", "root.a = 1 root.b = 2", 1, 12,
			`"root" does not belong here: a statement ends with its line`},
		{"a word that is no statement", "root.a = 1\nnonsense", 2, 1, `"nonsense" does not begin a statement, such as ` +
			"`root.a = this.b`"},
		{"an expression before a statement", "this.a\nroot.b = 1", 2, 1,
			"an expression that stands alone is short for `root = …`, and nothing may follow it"},
		{"two maps of a name", "map a { root = 1 }\nmap a { root = 2 }", 2, 1, `there are two maps "a"`},
		{"metadata in the wrong place", "meta = ", 1, 7, "a value is missing here"},
		{"an escape", `root.a = "\q"`, 1, 10, "the text has a line break or an escape that there is none of"},
		{"a number that is too long", "root.a = 99999999999999999999", 1, 10,
			"99999999999999999999 does not fit into 64 bits"},
		{"no cases", "root.a = match this.b { }", 1, 10, "this match has no cases"},
		{"no arrow", "root.a = match { this.b 5 }", 1, 25, `expected => rather than "5"`},
		{"a lambda of this", "root.a = this.b.map_each(this -> 1)", 1, 26, `"this" can't be the parameter of a lambda`},
		{"a letter of another alphabet", "root.ä = 1", 1, 6, `expected the name of a field or method rather than "ä"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse(tt.src)
			var e *SyntaxError
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want a SyntaxError", err)
			}
			if e.Line != tt.line || e.Column != tt.col || e.Problem != tt.problem {
				t.Errorf("got %d:%d %s, want %d:%d %s", e.Line, e.Column, e.Problem, tt.line, tt.col, tt.problem)
			}
		})
	}
}

// Nested input gives an error, or a mapping, but takes neither the stack nor much time.
func TestDepthIsBounded(t *testing.T) {
	const n = 100_000
	pieces := map[string][2]string{
		"brackets": {"(", ")"}, "lists": {"[", "]"}, "objects": {`{"a":`, "}"}, "not": {"!", ""}, "minus": {"- ", ""},
		"lambdas": {"a -> ", ""}, "calls": {"f(", ")"}, "methods": {"a.b(", ")"}, "ifs": {"if a { ", " }"},
		"matches": {"match { _ => ", " }"}, "within": {"a.(", ")"}, "index": {"a[", "]"},
	}
	for name, p := range pieces {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			_, err := Parse("root = " + strings.Repeat(p[0], n) + "1" + strings.Repeat(p[1], n))
			if err == nil {
				t.Error("there is no error")
			}
			if took := time.Since(begin); took > time.Minute { // unbounded, it is years
				t.Errorf("it took %v", took)
			}
		})
	}
	for _, src := range []string{
		strings.Repeat("if a {\n", n), "root = 1" + strings.Repeat(" + 1", n), "root = a" + strings.Repeat(".b", n),
		"root = a" + strings.Repeat(".b()", n), strings.Repeat("root.a = 1\n", n),
		strings.Repeat("root = if a { b } else ", n),
	} {
		begin := time.Now()
		_, _ = Parse(src)
		if took := time.Since(begin); took > time.Minute { // unbounded, it is years
			t.Errorf("%.40s… took %v", src, took)
		}
	}
}

// What a map makes longer and longer ends as an untranslated expression.
func TestMapsThatMultiplyAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "map m%d {\n  root.a = this.apply(\"m%d\")\n  root.b = this.apply(\"m%d\")\n}\n", i, i+1, i+1)
	}
	src := b.String() + "map m40 { root = this.x }\nroot = this.apply(\"m0\")"
	begin := time.Now()
	_, notes := Steps(src, Options{})
	if took := time.Since(begin); took > time.Minute { // unbounded, it is years
		t.Errorf("it took %v", took)
	}
	if len(notes) == 0 || notes[0].Kind != Untranslated {
		t.Errorf("got %v, want a note that it is not translated", notes)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		_, err := Parse(src)
		var e *SyntaxError
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("got %v, want a SyntaxError", err)
		}
		if e != nil && (e.Line < 1 || e.Line > strings.Count(src, "\n")+1 || e.Column < 1) {
			t.Fatalf("the place %d:%d is not in the text", e.Line, e.Column)
		}
	})
}

// Translating whatever can be read neither panics nor depends on chance.
func FuzzSteps(f *testing.F) {
	for _, s := range seeds {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, src string, inPlace bool) {
		if len(src) > 10_000 {
			t.Skip()
		}
		o := Options{Batch: inPlace}
		if inPlace {
			o.Target = InPlace
		}
		if a, b := translated(src, o), translated(src, o); a != b {
			t.Errorf("two translations differ:\n%s\n%s", a, b)
		}
		Query(src, o)
		Template("a "+src+" ${! "+src+" } b", o)
		Fields(src, o)
		List(src, o)
	})
}

var seeds = []string{
	"root = this\nroot.a = this.b | 3 # c\n", "let x = 1\nroot = $x", "meta a = @b\nmeta = deleted()",
	`root."a b".c = this."d e"`,
	"map m { root.a = this.x }\nroot = this.apply(\"m\")", "root = match this.a { 1 => 2, _ => deleted() }",
	"root = if a { b } else if c { d } else { e }", "if this.a { root.b = 1 } else { root = deleted() }",
	"root = this.a.map_each(x -> if x > 1 { deleted() } else { x.y })", `root = """raw"""`,
	"root = [1, {\"a\": -2.5}, null, true]",
	"root = this.a.(b | c).catch(err -> 1).or(2)", "root = !(a && b) || c == -1 % 2",
	"root = this.fold(0, x -> x.tally + x.value)",
	"root.x = this.doc.parse_csv().string()", "root = content().compress(\"gzip\").encode(\"base64\")",
	"root = this[1:][0]",
	"root = this.sort(x -> x.left < x.right)", "root = range(0, this.a, 2)", "import \"a\"\nfrom \"b\"", "root = root",
	"root.a = this.x.apply(\"m\")\nmap m {\n root = match {\n" +
		" this.type() == \"object\" => this.map_each(i -> i.value.apply(\"m\"))\n" +
		" this.type() == \"array\" => this.map_each(e -> e.apply(\"m\"))\n" +
		" _ => this }\n}",
}
