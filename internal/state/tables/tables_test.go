package tables

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
)

type object = map[string]any

// configured decodes the configuration of a table, JSON, whose file is in a folder of the test.
func configured(t testing.TB, config, name, text string) Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	write(t, path, text)
	n, err := schema.ParseJSON(config)
	if err != nil {
		t.Fatal(err)
	}
	var c Config
	d := schema.NewDecoder(nil)
	d.Decode(n, &c)
	if len(d.Problems()) > 0 {
		t.Fatal(d.Problems())
	}
	c.File = path
	return c
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// table is a table that was read.
func table(t testing.TB, config, name, text string) *Table {
	t.Helper()
	made := New("items", configured(t, config, name, text), nil, nil)
	if err := made.Check(); err != nil {
		t.Fatal(err)
	}
	return made
}

func keys(of ...any) []any { return of }

func TestLookup(t *testing.T) {
	const items = "sku,name,price\na1,Nut,1.50\n5,\"Bo\"\"lt\",7\n05,Zero,-2\n\"long \"\"é\"\"\",x,1e3\n"
	tests := []struct {
		name, config, file, text string
		keys                     []any
		want                     any
	}{
		{"a row of CSV", `{"file": "x.csv", "key": "sku"}`, "x.csv", items, keys("a1"),
			object{"sku": "a1", "name": "Nut", "price": "1.50"}},
		{"an integer finds its text", `{"file": "x.csv", "key": "sku"}`, "x.csv", items, keys(5),
			object{"sku": "5", "name": `Bo"lt`, "price": "7"}},
		{"so does a whole float", `{"file": "x.csv", "key": "sku"}`, "x.csv", items, keys(5.0),
			object{"sku": "5", "name": `Bo"lt`, "price": "7"}},
		{"other digits are another key", `{"file": "x.csv", "key": "sku"}`, "x.csv", items, keys("05"),
			object{"sku": "05", "name": "Zero", "price": "-2"}},
		{"quotes and accents", `{"file": "x.csv", "key": "sku"}`, "x.csv", items, keys(`long "é"`),
			object{"sku": `long "é"`, "name": "x", "price": "1e3"}},
		{"no row", `{"file": "x.csv", "key": "sku"}`, "x.csv", items, keys("a2"), nil},
		{"numbers of CSV", `{"file": "x.csv", "key": "sku", "numbers": true}`, "x.csv", items, keys("5"),
			object{"sku": 5, "name": `Bo"lt`, "price": 7}},
		{"what is no number of JSON stays text", `{"file": "x.csv", "key": "sku", "numbers": true}`, "x.csv", items,
			keys("05"),
			object{"sku": "05", "name": "Zero", "price": -2}},
		{"a fraction as a key", `{"file": "x.csv", "key": "price", "numbers": true}`, "x.csv", items, keys(1.5),
			object{"sku": "a1", "name": "Nut", "price": 1.5}},
		{"columns of the configuration", `{"file": "x.csv", "key": "id", "columns": ["id", "n"], "delimiter": ";"}`, "x.csv",
			"a;1\nb;2", keys("b"), object{"id": "b", "n": "2"}},
		{"tabs", `{"file": "x.tsv", "key": "id"}`, "x.tsv", "\ufeffid\tn\na\t1,5\n", keys("a"), object{"id": "a",
			"n": "1,5"}},
		{"a compound key", `{"file": "x.csv", "key": ["b", "a"]}`, "x.csv", "a,b,c\n1,2,3\n2,1,4\n", keys("1", 2),
			object{"a": "2", "b": "1", "c": "4"}},
		{"whose parts do not run together", `{"file": "x.csv", "key": ["a", "b"]}`, "x.csv", "a,b\n1,23\n12,3\n", keys(12, 3),
			object{"a": "12", "b": "3"}},
		{"NDJSON", `{"file": "x.ndjson", "key": "id"}`, "x.ndjson",
			"{\"id\": 1, \"n\": {\"m\": [1]}}\n\n {\"id\":\"x\"}\r\n", keys(1),
			object{"id": 1, "n": object{"m": []any{1}}}},
		{"a text finds its integer", `{"file": "x.ndjson", "key": "id"}`, "x.ndjson", `{"id": 1.0}`, keys("1"),
			object{"id": 1.0}},
		{"a large integer", `{"file": "x.ndjson", "key": "id"}`, "x.ndjson", `{"id": 18446744073709551616}`,
			keys(doc.Number("18446744073709551616")), object{"id": doc.Number("18446744073709551616")}},
		{"true", `{"file": "x.ndjson", "key": "id"}`, "x.ndjson", `{"id": true}`, keys(true), object{"id": true}},
		{"a list in JSON", `{"file": "x.json", "key": "id"}`, "x.json",
			"\n[ {\"id\": \"a\\u0062\"},\n{\"id\":2, \"x\":null}]\n",
			keys("ab"), object{"id": "ab"}},
		{"the last element", `{"file": "x.json", "key": "id"}`, "x.json", `[{"id": 1},{"id":2, "x":null}]`, keys(2),
			object{"id": 2, "x": nil}},
		{"an object by key", `{"file": "x.json"}`, "x.json", `{"USD": 1.1, "E\"R": {"r": 1}}`, keys(`E"R`), object{"r": 1}},
		{"whose values may be any", `{"file": "x.json"}`, "x.json", `{"USD": 1.1}`, keys("USD"), 1.1},
		{"an empty list", `{"file": "x.json", "key": "id"}`, "x.json", `[]`, keys(2), nil},
		{"YAML", `{"file": "x.yaml", "key": "id"}`, "x.yaml", "- {id: 1, d: 2026-01-02}\n- id: 2\n  n: yes\n", keys(1),
			object{"id": 1, "d": "2026-01-02"}},
		{"YAML by key", `{"file": "x.yml"}`, "x.yml", "a: 1\nb: {c: [2]}\n", keys("b"), object{"c": []any{2}}},
		{"a format beside the extension", `{"file": "x.csv", "format": "json"}`, "x.csv", `{"a": 1}`, keys("a"), 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			made := table(t, test.config, test.file, test.text)
			for range 2 { // as it is made, and as it is kept
				got, err := made.Lookup(test.keys...)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(got, test.want); diff != "" {
					t.Errorf("-got +want:\n%s", diff)
				}
			}
		})
	}
}

func TestFilesThatAreNoTables(t *testing.T) {
	const csv, json = `{"file": "x.csv", "key": ["sku"]}`, `{"file": "x.json", "key": "id"}`
	tests := []struct{ name, config, file, text, want string }{
		{"a key twice", csv, "x.csv", "sku\na\nb\na\n", `the key "a" is in line 2 and again in line 4`},
		{"a record of several lines", csv, "x.csv", "sku,n\na,\"1\n2\"\na,\n",
			`the key "a" is in line 2 and again in line 4`},
		{"a compound key twice", `{"file": "x.csv", "key": ["a", "b"]}`, "x.csv", "a,b\n1,2\n1,2\n",
			`the key "1", "2" is in line 2 and again in line 3`},
		{"a number that is spelt in two ways", `{"file": "x.ndjson", "key": "id"}`, "x.ndjson",
			`{"id":5}` + "\n" + `{"id":"5"}`,
			`the key "5" is in line 1 and again in line 2`},
		{"an object with a key twice", `{"file": "x.json"}`, "x.json", "{\"a\": 1,\n\n\"a\": 1}",
			`the key "a" is in line 1 and again in line 3`},
		{"elements on their lines", json, "x.json", "[{\"id\":1},\n{\"id\":2,\n\"x\":1},\n{\"id\":2}]",
			`the key "2" is in line 2 and again in line 4`},
		{"rows of YAML", `{"file": "x.yaml", "key": "id"}`, "x.yaml", "- id: a\n- id: b\n- id: a\n",
			`the key "a" is in row 1 and again in row 3`},
		{"a row without its key", json, "x.json", "[{\"id\":1},\n{\"i\":2}]", `line 2 has no "id", which is its key`},
		{"null as a key", json, "x.json", `[{"id":null}]`, `line 1 has no "id"`},
		{"an empty cell as a key", csv, "x.csv", "sku,n\n,1\n", `line 2 has no "sku"`},
		{"a list as a key", json, "x.json", `[{"id":[1]}]`, `line 1: a key is text, a number, or true or false, not a list`},
		{"no such column", csv, "x.csv", "sk,n\n1,2\n", `there is no column "sku" (did you mean "sk"?)`},
		{"a column twice", csv, "x.csv", "sku,n,n\n1,2,3\n", `column "n" appears twice`},
		{"a short record", csv, "x.csv", "sku,n\n1,2\n3\n", `line 3: 1 values for 2 columns`},
		{"records and columns", `{"file": "x.csv", "key": "a", "columns": ["a", "b"]}`, "x.csv", "1,2,3\n",
			`line 1: 3 values for 2 columns`},
		{"an open quote", csv, "x.csv", "sku\n\"a\nb\n", `line 2: a quote is not closed`},
		{"bytes that are not text", csv, "x.csv", "sku\na\n\xff\n", `line 3: the record is not valid UTF-8`},
		{"nothing", csv, "x.csv", "", `the file is empty`},
		{"a line that is not JSON", `{"file": "x.ndjson", "key": "id"}`, "x.ndjson", "{\"id\":1}\n{\"id\":", `line 2: `},
		{"a line that is not an object", `{"file": "x.ndjson", "key": "id"}`, "x.ndjson", "7",
			`line 1 is a number, not an object`},
		{"half a document", json, "x.json", `[{"id":1},{"id"`, ``},
		{"a list without a key", `{"file": "x.json"}`, "x.json", `[{"id":1}]`, "(name the fields of their key: `key: id`)"},
		{"an object with a key", json, "x.json", `{"a": {"id": 1}}`, "remove `key`"},
		{"a number", json, "x.json", `5`, `neither a list of objects nor an object by key`},
		{"YAML that is none", `{"file": "x.yaml", "key": "id"}`, "x.yaml", "a: [\n", `yaml: `},
		{"a database that is none", `{"file": "x.mmdb"}`, "x.mmdb", "nope", `not a database in MaxMind's format`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := configured(t, test.config, test.file, test.text)
			made := New("items", c, nil, nil)
			err := made.Check()
			if err == nil || !strings.Contains(err.Error(), c.File+": ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want the file and %q", err, test.want)
			}
			if v, err := made.Lookup("a"); err == nil {
				t.Errorf("it can be looked up in: got %v", v)
			}
		})
	}
}

func TestTablesThatAreTooLarge(t *testing.T) {
	tests := []struct{ name, config, file, text, want string }{
		{"a file", `{"file": "x.csv", "key": "a", "max_size": "1KiB"}`, "x.csv", "a\n" + strings.Repeat("x", 1024),
			"is larger than 1KiB"},
		{"many small rows", `{"file": "x.json", "max_size": "1KiB"}`, "x.json",
			`{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1,"p":1,"q":1}`,
			"more than 1KiB of memory"},
		{"a tree of YAML", `{"file": "x.yaml", "max_size": "1KiB"}`, "x.yaml", "a: [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
			"to read it as YAML takes about"},
		{"aliases of YAML", `{"file": "x.yaml", "max_size": "8KiB"}`, "x.yaml",
			"a: &a [1,1,1,1,1,1,1,1]\nb: [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*a,*a,*a,*a,*a,*a,*a,*a]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d," +
				"*d,*d,*d,*d,*d,*d]", "more than 8KiB of memory"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := New("items", configured(t, test.config, test.file, test.text), nil, nil).Check()
			if e,
				ok := errors.AsType[*engine.Error](err); !ok || e.Class != engine.TooLarge || !strings.Contains(err.Error(),
				test.want) {
				t.Errorf("got %v, want %q with class too_large", err, test.want)
			}
		})
	}
}

func TestKeysThatDoNotFit(t *testing.T) {
	one := table(t, `{"file": "x.csv", "key": "a"}`, "x.csv", "a,b\n1,2\n")
	two := table(t, `{"file": "x.csv", "key": ["a", "b"]}`, "x.csv", "a,b\n1,2\n")
	for want, of := range map[string]func() (any, error){
		"not nothing (?? gives a missing field a default)": func() (any, error) { return one.Lookup(nil) },
		"not a list":                                func() (any, error) { return one.Lookup([]any{1}) },
		"not an object":                             func() (any, error) { return two.Lookup(1, object{}) },
		"the table has one key, not 2":              func() (any, error) { return one.Lookup(1, 2) },
		"is 2 values, in the order of `key`, not 1": func() (any, error) { return two.Lookup(1) },
	} {
		if v, err := of(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, %v, want %q", v, err, want)
		}
	}
}

// asked is a Source that is nothing but a document.
type asked struct{ d doc.Doc }

func (a *asked) Document() *doc.Doc { return &a.d }

func TestTheFunctionReadsTheTablesOfItsConfiguration(t *testing.T) {
	n, err := schema.ParseJSON(
		`{"e": "lookup(\"items\", sku).price", "t": "$(lookup(\"items\", sku)?.name ?? \"?\")", "u": "lookup(\"itms\", 1)"}`)
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		E expr.Expr     `yaml:"e"`
		T expr.Template `yaml:"t"`
		U expr.Expr     `yaml:"u"`
	}
	d := schema.NewDecoder(nil)
	d.Decode(n, &c)
	if len(d.Problems()) > 0 {
		t.Fatal(d.Problems())
	}
	m := &asked{}
	m.d.Reset([]byte(`{"sku": 5}`), nil)
	if v, err := c.E.Eval(m); err == nil || !strings.Contains(err.Error(), `there is no table "items" here`) {
		t.Errorf("without tables: got %v, %v", v, err)
	}
	Fill(d, map[string]*Table{"items": table(t, `{"file": "x.csv", "key": "sku", "numbers": true}`, "x.csv",
		"sku,name,price\n5,Nut,7\n")})
	if v, err := c.E.Eval(m); v != 7 || err != nil {
		t.Errorf("got %v, %v, want 7", v, err)
	}
	if text, err := c.T.Text(m); text != "Nut" || err != nil {
		t.Errorf("got %q, %v, want Nut", text, err)
	}
	if v, err := c.U.Eval(m); err == nil || !strings.Contains(err.Error(),
		`there is no table "itms" (did you mean "items"?)`) {
		t.Errorf("an unknown table: got %v, %v", v, err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = c.E.Eval(m) }); n > 0 {
		t.Errorf("a lookup allocates %v times, want 0", n)
	}
	own, err := expr.Compile(`lookup("items", 5)`)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := own.Eval(m); err == nil {
		t.Errorf("code of a program: got %v", v)
	}
}

func TestLargeTablesAreNotKeptAsValues(t *testing.T) {
	made := table(t, `{"file": "x.json"}`, "x.json", `{"a": {"b": 1}, "c": {"d": 2}}`)
	r := made.now.Load().content.(*rows)
	r.spent.Store(maxMade)
	for range 2 {
		if v, err := made.Lookup("a"); err != nil || v.(object)["b"] != 1 {
			t.Errorf("got %v, %v", v, err)
		}
	}
	if got := r.spent.Load(); got != maxMade || r.made[0].Load() != nil {
		t.Errorf("a row is kept beyond the limit: %d bytes", got)
	}
}

// A table of CSV takes the memory of its text, and reads a header of many columns in linear time.
func TestCSVTakesTheMemoryOfItsText(t *testing.T) {
	var long, wide strings.Builder
	long.WriteString("id," + strings.Repeat("h", 10_000) + "\n")
	for i := range 2000 {
		fmt.Fprintf(&long, "%d,%s\n", i, strings.Repeat("v", 1000))
	}
	const columns = 100_000
	for i := range columns {
		fmt.Fprintf(&wide, "c%d,", i)
	}
	wide.WriteString("id\n" + strings.Repeat(",", columns) + "0\n")
	for _, tt := range []struct {
		name, text string
		most       uint64 // bytes taken in addition
	}{{"a long header over many records", long.String(), 1 << 20}, {"many columns", wide.String(), columns * 400}} {
		t.Run(tt.name, func(t *testing.T) {
			data := []byte(tt.text)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			c, err := parse(&Config{MaxSize: 64 << 20, Key: []string{"id"}}, "csv", data)
			runtime.ReadMemStats(&after)
			if err != nil {
				t.Fatal(err)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > tt.most {
				t.Errorf("%d bytes of text: %d bytes more were taken, %d may be", len(data), took, tt.most)
			}
			if v, err := c.find([]any{"0"}); v == nil || err != nil {
				t.Errorf("got %v, %v", v, err)
			}
		})
	}
}
