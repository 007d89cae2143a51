package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/flowd-io/flowd/internal/migrate/bloblang"
)

// equivalences are mappings with results, which their translations must give with the real engine. Results are those of
// benthos 4: TestThePeerGivesTheSameResults checks them if benthos is on PATH.
var equivalences = []struct {
	name    string
	mapping string
	inPlace bool
	in      []string
	want    []string
}{
	{"a copy keeps what it does not change", "root = this\nroot.a = this.a + 1\nroot.b = deleted()", false,
		[]string{`{"a":1,"b":2,"c":{"d":3}}`}, []string{`{"a":2,"c":{"d":3}}`}},
	{"a new document has only assigned fields", "root.x.y = this.a\nroot.\"odd name\" = this.b.c", false,
		[]string{`{"a":1,"b":{"c":2}}`, `{}`}, []string{`{"x":{"y":1},"odd name":2}`, `{"x":{"y":null},"odd name":null}`}},
	{"fields are swapped", "root = this\nroot.a = this.b\nroot.b = this.a", false,
		[]string{`{"a":1,"b":2}`}, []string{`{"a":2,"b":1}`}},
	{"a mutation sees what it has changed", "root.a = this.b\nroot.b = this.a", true,
		[]string{`{"a":1,"b":2}`}, []string{`{"a":2,"b":2}`}},
	{"a mutation that copies the document first", "root = this\nroot.a = this.b\nroot.b = this.a", true,
		[]string{`{"a":1,"b":2}`}, []string{`{"a":2,"b":1}`}},
	{"a field is read before it is deleted", "root = this\nroot.user = deleted()\nroot.name = this.user.name", false,
		[]string{`{"user":{"name":"ann"},"n":1}`}, []string{`{"n":1,"name":"ann"}`}},
	{"part of an object is replaced", "root.o = {\"a\": this.a, \"b\": 1}\nroot.o.b = this.b", false,
		[]string{`{"a":1,"b":2}`}, []string{`{"o":{"a":1,"b":2}}`}},
	{"assigned fields are deleted",
		"root.a = this.a\nroot.o = this.o\nroot.o.x = deleted()\nroot.a = deleted()\nroot.gone = deleted()", false,
		[]string{`{"a":1,"o":{"x":1,"y":2}}`}, []string{`{"o":{"y":2}}`}},
	{"an object replaces an object", "root = this\nroot.o = {\"b\": 1}", false,
		[]string{`{"o":{"a":1}}`}, []string{`{"o":{"b":1}}`}},
	{"root is read", "root.a = this.a\nroot.b = root.a + 1\nroot.c = this.a", false,
		[]string{`{"a":1}`}, []string{`{"a":1,"b":2,"c":1}`}},
	{"messages are dropped", `root = if this.n > 1 { deleted() }`, false,
		[]string{`{"n":1}`, `{"n":2}`}, []string{`{"n":1}`, `deleted`}},
	{"messages are dropped by cases",
		"root = match {\n this.n > 5 => deleted()\n this.n > 3 => this\n _ => deleted() }", false,
		[]string{`{"n":6}`, `{"n":4}`, `{"n":1}`}, []string{`deleted`, `{"n":4}`, `deleted`}},
	{"messages fail", `root = if this.n == 1 { throw("one") }`, false, []string{`{"n":1}`, `{"n":2}`},
		[]string{`Error(one)`, `{"n":2}`}},
	{"a condition that is null is false", `root.x = if this.a { 1 } else { 2 }`, false, []string{`{"a":true}`, `{}`},
		[]string{`{"x":1}`, `{"x":2}`}},
	{"a field that may be missing", "root.a = this.a\nroot.b = if this.a > 1 { this.b }", false,
		[]string{`{"a":1,"b":2}`, `{"a":2,"b":3}`}, []string{`{"a":1}`, `{"a":2,"b":3}`}},
	{"a lone condition leaves the document", `root.b = if this.a > 1 { this.c }`, false,
		[]string{`{"a":1}`, `{"a":2,"c":3}`}, []string{`{"a":1}`, `{"b":3}`}},
	{"branches",
		"root = this\nif this.a == 1 {\n  root.b = 1\n  root.c = this.b\n" +
			"} else if this.a == 2 {\n  root = deleted()\n} else {\n  root.d = this.a\n" +
			"}", false,
		[]string{`{"a":1,"b":7}`, `{"a":2}`, `{"a":3}`}, []string{`{"a":1,"b":1,"c":7}`, `deleted`, `{"a":3,"d":3}`}},
	{"a document made by branches", "if this.a == 1 {\n  root.b = this.a\n  root.c = this.b\n}", false,
		[]string{`{"a":1,"b":7}`, `{"a":2}`}, []string{`{"b":1,"c":7}`, `{"a":2}`}},
	{"match on a value", "root.x = match this.a {\n \"p\" => 1\n 5 => 2\n this.type() == \"null\" => 3\n _ => 4 }", false,
		[]string{`{"a":"p"}`, `{"a":null}`, `{"a":"q"}`}, []string{`{"x":1}`, `{"x":3}`, `{"x":4}`}},
	{"variables", "let a = this.x + 1\nroot.b = $a * $a\nlet a = \"new\"\nroot.c = $a", false, []string{`{"x":2}`},
		[]string{`{"b":9,"c":"new"}`}},
	{"a variable of a mutation keeps its value", "let old = this.a\nroot.a = 5\nroot.b = $old", true,
		[]string{`{"a":1}`}, []string{`{"a":5,"b":1}`}},
	{"metadata", "meta k = this.a\nroot.b = @k\nroot.c = meta(\"k\")", false, []string{`{"a":"v"}`},
		[]string{`{"b":"v","c":null} meta {"k":"v"}`}},
	{"metadata of a mutation", "root = this\nmeta k = this.a\nroot.b = @k\nroot.c = meta(\"k\")", true,
		[]string{`{"a":"v"}`}, []string{`{"a":"v","b":"v","c":"v"} meta {"k":"v"}`}},
	{"defaults",
		"root.a = this.a | this.b | 0\nroot.b = this.s.uppercase().or(\"none\")\n" +
			"root.c = this.s.number().catch(-1)\nroot.d = this.(x | y)", false,
		[]string{`{"b":2,"s":"12","y":1}`, `{"a":1,"s":null}`}, []string{`{"a":2,"b":"12","c":12,"d":1}`,
			`{"a":1,"b":"none","c":-1,"d":null}`}},
	{"operators bind as they do there",
		"root.a = 2 + 3 * 4 - 1\nroot.b = 1 + 2 == 3 || false && false\n" +
			"root.c = !this.t && this.t\nroot.d = -this.n + 1\nroot.e = (this.n - 1) * -2\n" +
			"root.f = 7 / 2\nroot.g = true || true && false", false,
		[]string{`{"t":true,"n":3}`}, []string{`{"a":13,"b":false,"c":false,"d":-2,"e":-4,"f":3.5,"g":false}`}},
	{"loops",
		"root.a = this.l.map_each(x -> if x == 2 { deleted() } else { x * this.k })\n" +
			"root.b = this.l.map_each(x -> if x > 2 { 0 })\nroot.c = this.l.fold(1, x -> x.tally * x.value)\n" +
			"root.d = this.l.filter(x -> x != 2)", false,
		[]string{`{"l":[1,2,3],"k":10}`}, []string{`{"a":[10,30],"b":[1,2,0],"c":6,"d":[1,3]}`}},
	{"loops in loops", `root.a = this.rows.map_each(r -> this.cols.map_each(c -> r.id + c))`, false,
		[]string{`{"rows":[{"id":1},{"id":2}],"cols":[10,20]}`}, []string{`{"a":[[11,21],[12,22]]}`}},
	{"objects",
		"root.a = this.o.map_each(i -> i.value + 1)\nroot.b = this.o.filter(i -> i.key != \"x\")\n" +
			"root.c = this.o.map_each_key(k -> k + \"_\")\nroot.d = this.o.without(\"x\")\n" +
			"root.e = this.o.key_values().sort_by(i -> i.key)", false,
		[]string{`{"o":{"x":1,"y":2}}`},
		[]string{`{"a":{"x":2,"y":3},"b":{"y":2},"c":{"x_":1,"y_":2},"d":{"y":2},` +
			`"e":[{"key":"x","value":1},{"key":"y","value":2}]}`}},
	{"members that may be absent",
		`root = {"a": if this.a { 1 }, "b": deleted(), "c": [1, if this.a { 2 }, deleted(), 3]}`, false,
		[]string{`{"a":true}`, `{"a":false}`}, []string{`{"a":1,"c":[1,2,3]}`, `{"c":[1,3]}`}},
	{"named maps",
		"map m {\n let d = this.a * 2\n root.x = $d\n root.y = $d + 1\n" +
			"}\nroot.one = this.apply(\"m\")\nroot.all = this.l.map_each(i -> i.apply(\"m\"))", false,
		[]string{`{"a":1,"l":[{"a":2}]}`}, []string{`{"one":{"x":2,"y":3},"all":[{"x":4,"y":5}]}`}},
	{"the same names in several scopes", "map inner {\n  let v = this.q + 1\n" +
		"  root.x = $v * this.q\n  root.y = $v\n}\n" +
		"map outer {\n  let v = this.a * 2\n  root.one = {\"q\": $v}.apply(\"inner\")\n  root.two = $v\n}\n" +
		"root.r = this.apply(\"outer\")\n" +
		"root.s = this.o.map_each(key -> this.o.map_each(k -> this.l.map_each(x -> k.key + key.key + x)))", false,
		[]string{`{"a":3,"o":{"p":1},"l":["z"]}`},
		[]string{`{"r":{"one":{"x":42,"y":7},"two":6},"s":{"p":{"p":["ppz"]}}}`}},
	{"a map that copies",
		"map m {\n root = this\n root.o = {\"k\": this.n}\n root.n = deleted()\n}\nroot.r = this.r.apply(\"m\")", false,
		[]string{`{"r":{"o":{"z":1},"n":2,"m":3}}`}, []string{`{"r":{"o":{"k":2},"m":3}}`}},
	{"a map that calls itself",
		"map m {\n root = match {\n this.type() == \"object\" => this.map_each(i -> i.value.apply(\"m\"))\n" +
			" this.type() == \"array\" => this.map_each(e -> e.apply(\"m\"))\n" +
			" this.type() == \"string\" => this.trim()\n _ => this }\n" +
			"}\nroot = this.apply(\"m\")", false,
		[]string{`{"a":" x ","b":[1," y",{"c":"z "}]}`}, []string{`{"a":"x","b":[1,"y",{"c":"z"}]}`}},
	{"a text as payload", `root = this.s.uppercase()`, false, []string{`{"s":"abc"}`}, []string{`ABC`}},
	{"a field as payload", `root = this.s`, false, []string{`{"s":"abc"}`, `{"s":{"a":1}}`}, []string{`abc`, `{"a":1}`}},
	{"a payload that is not a document", `root.lines = content().string().split(";")`, false, []string{`a;b`},
		[]string{`{"lines":["a","b"]}`}},
	{"a field that can't be parsed", `root = this.body.parse_json().catch(deleted())`, false,
		[]string{`{"body":"{\"a\":1}"}`, `{"body":"x"}`}, []string{`{"a":1}`, `deleted`}},
	{"a payload that can't be parsed is dropped", `root = this.catch(deleted())`, false, []string{`{"a":1}`, `x`},
		[]string{`{"a":1}`, `deleted`}},
	{"decoding", `root = content().parse_yaml().a`, false, []string{`a: {b: 1}`}, []string{`{"b":1}`}},
	{"decoding a field", "root.t = this.t\nroot.csv = this.csv.parse_csv()", false,
		[]string{`{"t":1,"csv":"a,b\n1,2\n"}`}, []string{`{"t":1,"csv":[{"a":"1","b":"2"}]}`}},
	{"times",
		"root.a = this.t.ts_parse(\"2006-01-02\").ts_format(\"02.01.2006\")\n" +
			"root.b = this.u.ts_unix()\nroot.c = this.n.ts_format(\"2006\", \"UTC\")", false,
		[]string{`{"t":"2026-01-31","u":"2026-01-02T00:00:00Z","n":1767312000}`},
		[]string{`{"a":"31.01.2026","b":1767312000,"c":"2026"}`}},
	{"patterns",
		"root.a = this.s.re_match(\"^[a-z]+$\")\nroot.b = this.s.re_find_object(\"(?P<first>[a-z])([a-z])\")\n" +
			"root.c = this.s.re_replace_all(\"(b)\", \"<$1>\")", false,
		[]string{`{"s":"abc"}`}, []string{`{"a":true,"b":{"0":"ab","first":"a","2":"b"},"c":"a<b>c"}`}},
	{"comparisons with null", "root.a = this.x == null\nroot.b = this.x != 1\nroot.c = (this.x > 1).catch(\"no\")",
		false, []string{`{}`}, []string{`{"a":true,"b":true,"c":"no"}`}},
}

func TestTranslationsGiveTheResultsOfMappings(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range equivalences {
		t.Run(tt.name, func(t *testing.T) {
			steps, notes := bloblang.Steps(tt.mapping, bloblang.Options{Target: target(tt.inPlace)})
			if why := untranslated(notes); why != "" {
				t.Fatal(why)
			}
			got, err := runSteps(dir, steps, tt.in)
			if err != nil {
				t.Fatalf("%v\n%s", err, yamlOf(steps))
			}
			for i := range tt.in {
				if !equalResults(tt.want[i], got[i]) {
					t.Errorf("%s becomes %s, want %s, by\n%s", tt.in[i], got[i], tt.want[i], yamlOf(steps))
				}
			}
		})
	}
}

// In a batch, each message reads all messages as they were before the mapping.
func TestABatchIsReadAsItWasBeforeTheMapping(t *testing.T) {
	mapping := "root = this\nroot.n = json(\"n\").from_all().sum()\nroot.first = json(\"n\").from(0)\n" +
		"root.all = json(\"n\").from_all()\nroot = if batch_index() > 1 { deleted() }\nroot.at = batch_index()"
	steps, notes := bloblang.Steps(mapping, bloblang.Options{Batch: true})
	if why := untranslated(notes); why != "" {
		t.Fatal(why)
	}
	got, err := runStepsIn(t.TempDir(), steps, []string{`{"n":1}`, `{"n":2}`, `{"n":4}`}, true)
	if err != nil {
		t.Fatalf("%v\n%s", err, yamlOf(steps))
	}
	want := []string{`{"n":7,"first":1,"all":[1,2,4],"at":0}`, `{"n":7,"first":1,"all":[1,2,4],"at":1}`, "deleted"}
	for i := range want {
		if !equalResults(want[i], got[i]) {
			t.Errorf("message %d becomes %s, want %s, by\n%s", i, got[i], want[i], yamlOf(steps))
		}
	}
}

// The expected translations of package bloblang's tests must load, unless a part is untranslated.
func TestExpectedTranslationsLoad(t *testing.T) {
	files, err := filepath.Glob("../../internal/migrate/bloblang/testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var steps yaml.Node
		if err := yaml.Unmarshal(data, &steps); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		batch := strings.HasPrefix(filepath.Base(file), "batch")
		_, err = runStepsIn(t.TempDir(), steps.Content[0].Content, nil, batch)
		if refused := strings.Contains(string(data), "untranslated("); refused != (err != nil) {
			t.Errorf("%s: got %v, want an error: %v", file, err, refused)
		}
	}
}

func target(inPlace bool) bloblang.Target {
	if inPlace {
		return bloblang.InPlace
	}
	return bloblang.NewDocument
}
