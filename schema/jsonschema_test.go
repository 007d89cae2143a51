package schema_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/flowd-io/flowd/schema"
)

// validator compiles the JSON Schema of a type.
func validator(t testing.TB, of *schema.Type) *jsonschema.Schema {
	t.Helper()
	text, err := schema.JSONSchema(of, "test", schema.TopLevel{})
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("test.json", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("test.json")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return compiled
}

func TestJSONSchemaAgreesWithTheDecoder(t *testing.T) {
	v := validator(t, schema.Of(everything{}))
	tests := []struct {
		name, in string
		ok       bool
	}{
		{"nothing", `{}`, true},
		{"all kinds", `{"text": 1.5, "flag": true, "small": "200", "ratio": 0.5, "wait": "1h30m", "bytes": "64KiB", "count": null,
			"list": ["a"], "waits": ["1s"], "env": {"x": 1}, "nested": {"z": {"y": 1}}, "word": true, "raw": [1]}`, true},
		{"placeholders", `{"small": "${A:-1}", "ratio": "${A}", "count": "${A}", "text": "${A}", "word": "${A}"}`,
			true},
		{"steps in all their forms", `{"steps": [{"compress": "zstd"}, {"compress": {"level": 2}}, {"set": {"a.b": "x"}}, {"drop": null},
			{"sleep": "2s", "name": "x"}, {"each": {"do": [{"unset": ["a"]}]}}, {"decode": "json"}, {"decode": {"csv": {"header": true}}}]}`, true},
		{"a choice as a word", `{"format": "csv"}`, true},
		{"a choice with its value", `{"format": {"regex": "a+", "from": "x"}}`, true},
		{"an unknown field", `{"cuont": 1}`, false},
		{"a list for a text", `{"text": []}`, false},
		{"a number without a unit", `{"wait": 2}`, false},
		{"an odd size", `{"bytes": "64kb"}`, false},
		{"a fraction", `{"count": 1.5}`, false},
		{"a ratio over one", `{"ratio": 2}`, false},
		{"none of the allowed", `{"list": ["x"]}`, false},
		{"no type", `{"steps": [{"name": "x"}]}`, false},
		{"two types", `{"steps": [{"drop": {}, "sleep": "1s"}]}`, false},
		{"an unknown type", `{"steps": [{"fliter": "x"}]}`, false},
		{"a problem deep down", `{"steps": [{"each": {"do": [{"compress": {"level": 10}}]}}]}`, false},
		{"a required field left out", `{"steps": [{"filter": null}]}`, false},
		{"two choices", `{"format": {"json": {}, "csv": {}}}`, false},
		{"an unknown choice", `{"format": "xml"}`, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			document, err := jsonschema.UnmarshalJSON(strings.NewReader(test.in))
			if err != nil {
				t.Fatal(err)
			}
			if err := v.Validate(document); (err == nil) != test.ok {
				t.Errorf("the schema says %v, want ok %v", err, test.ok)
			}
			d := schema.NewDecoder(func(string) (string, bool, error) { return "1", true, nil })
			d.Decode(parse(t, test.in), &everything{})
			problems := d.Problems()
			if (len(problems) == 0) != test.ok {
				t.Errorf("the decoder says %v, want ok %v", problems, test.ok)
			}
		})
	}
}

// tree is a type that holds itself.
type tree struct {
	Name string          `yaml:"name" check:"required" doc:"The name."`
	Subs []tree          `yaml:"subs" doc:"Below."`
	By   map[string]tree `yaml:"by" doc:"Below, by name."`
}

func TestJSONSchemaOfARecursiveType(t *testing.T) {
	v := validator(t, schema.Of(tree{}))
	for text, ok := range map[string]bool{
		`{"name": "a", "subs": [{"name": "b", "by": {"x": {"name": "c"}}}]}`: true,
		`{"name": "a", "subs": [{"subs": []}]}`:                              false,
	} {
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Validate(document); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestJSONSchemaIsTheSameEachTime(t *testing.T) {
	first, err := schema.JSONSchema(schema.Of(everything{}), "x", schema.TopLevel{})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if again, _ := schema.JSONSchema(schema.Of(everything{}), "x", schema.TopLevel{}); !bytes.Equal(first, again) {
			t.Fatal("two documents of one type differ")
		}
	}
}

func TestJSONSchemaTellsDocsAndDefaults(t *testing.T) {
	text, err := schema.JSONSchema(schema.Of(limits{Bytes: 1 << 20}), "limits", schema.TopLevel{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"default": 100`, `"default": "1MiB"`, `"description": "How many."`,
		`"title": "limits"`, `draft-07`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
}

func TestReference(t *testing.T) {
	tests := []struct {
		name string
		of   *schema.Type
		want string
	}{
		{"a short form and bounds", processors["compress"], `
format  text          The format. (the short form; default gzip; one of gzip, zstd)
level   whole number  The level. (default 6; at least 1; at most 9)
`},
		{"a choice", processors["decode"], `
json        mapping  JSON. (one of format)
csv         mapping  CSV. (one of format)
csv.header  bool     The first line names the fields. (default false)
regex       text     A regular expression. (one of format)
from        text     Where from.
`},
		{"components are not opened", processors["each"], `
in  text                
do  list of processors  (required)
`},
		{"a recursive type", schema.Of(tree{}), `
name  text                          The name. (required)
subs  list of mappings              Below.
by    mapping of names to mappings  Below, by name.
`},
		{"one value", processors["sleep"], "\ntakes: duration\n"},
		{"a list", processors["unset"], "\ntakes: list of text\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got, want := reference(test.of), test.want[1:]; got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// reference lists a type's fields, one a line.
func reference(t *schema.Type) string {
	var b strings.Builder
	fields := t.Fields()
	if len(fields) == 0 {
		return "takes: " + t.Text() + "\n"
	}
	columns := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	for _, f := range fields {
		fmt.Fprintf(columns, "%s\t%s\t%s\n", f.Path, f.Type, remarks(f))
	}
	columns.Flush()
	return b.String()
}

// remarks is what there is to say about a field apart from its name and type.
func remarks(f schema.Field) string {
	var notes []string
	note := func(ok bool, text string) {
		if ok {
			notes = append(notes, text)
		}
	}
	note(f.Required, "required")
	note(f.Main, "the short form")
	note(f.Choice != "", "one of "+f.Choice)
	note(f.Default != "", "default "+f.Default)
	note(len(f.Allowed) > 0, "one of "+strings.Join(f.Allowed, ", "))
	note(f.Min != "", "at least "+f.Min)
	note(f.Max != "", "at most "+f.Max)
	note(f.Pending != "", "not in force yet: "+f.Pending+" come later")
	if len(notes) == 0 {
		return f.Doc
	}
	return strings.TrimSpace(f.Doc + " (" + strings.Join(notes, "; ") + ")")
}
