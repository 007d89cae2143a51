package validate_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/validate"
)

// inline returns a step with an inline schema.
func inline(schema string) string { return `{"validate": {"schema": ` + schema + `}}` }

func TestValidate(t *testing.T) {
	order := inline(`{"type": "object", "required": ["id", "total"], "properties": {
		"id": {"type": "string", "pattern": "^[a-z]+$"},
		"total": {"type": "number", "minimum": 0, "multipleOf": 0.01},
		"items": {"type": "array", "uniqueItems": true, "items": {"type": "integer"}}}}`)
	steptest.Run(t, []steptest.Case{
		{Name: "what fits goes on unchanged", Step: order,
			In:   []string{` {"id":"a", "total": 1.10}`, `{"total":0,"id":"b","items":[1,2,3.0]}`},
			Want: []string{` {"id":"a", "total": 1.10}`, `{"total":0,"id":"b","items":[1,2,3.0]}`}},
		{Name: "what does not is rejected, with the place", Step: order,
			In: []string{`{"id":"a"}`, `{"id":"a","total":1,"items":[1,"x"]}`, `[]`}, Want: []string{
				"failed rejected: does not match the schema: the document: missing property 'total'",
				"failed rejected: does not match the schema: /items/1: got string, want integer",
				"failed rejected: does not match the schema: the document: got array, want object",
			}},
		{Name: "the first three places are named, in order", Step: order,
			In: []string{`{"id":"a","total":1,"items":["a","b","c","d","e"]}`}, Want: []string{
				"failed rejected: does not match the schema: /items/0: got string, want integer; /items/1: got string, want integer; /items/2: got " +
					"string, want integer; and 2 more",
			}},
		{Name: "numbers are exact", Step: order, In: []string{`{"id":"a","total":0.29}`,
			`{"id":"a","total":123456789012345678901234567890.01}`, `{"id":"a","total":0.290000000000000000000001}`},
			Want: []string{
				`{"id":"a","total":0.29}`, `{"id":"a","total":123456789012345678901234567890.01}`,
				"failed rejected: does not match the schema: /total: multipleOf",
			}},
		{Name: "equal numbers are no two items", Step: order, In: []string{`{"id":"a","total":1,"items":[1,1.0]}`},
			Want: []string{"failed rejected: does not match the schema: /items: items at 0 and 1 are equal"}},
		{Name: "of duplicate keys the last counts", Step: order, In: []string{`{"id":1,"id":"a","total":1}`},
			Want: []string{`{"id":1,"id":"a","total":1}`}},
		{Name: "the schema may stand alone", Step: `{"validate": {"required": ["id"], "format": "x"}}`,
			In: []string{`{"id":1}`, `{}`}, Want: []string{`{"id":1}`,
				"failed rejected: does not match the schema: the document: missing property 'id'"}},
		{Name: "no document is class decode", Step: order, In: []string{`{"id":`, ``, `{"id":"a","total":01}`},
			Want: []string{"failed decode: ", "failed decode: ", "failed decode: "}},
		{Name: "a pointer is escaped", Step: inline(`{"additionalProperties": {"type": "null"}}`),
			In:   []string{`{"a/b~c":1}`},
			Want: []string{"failed rejected: does not match the schema: /a~1b~0c: got number, want null"}},
		{Name: "false fits nothing", Step: inline(`false`), In: []string{`1`},
			Want: []string{"failed rejected: does not match the schema: the document: nothing is allowed here"}},
		{Name: "formats are remarks", Step: inline(`{"format": "email"}`), In: []string{`"x"`}, Want: []string{`"x"`}},
		{Name: "unless they are asked for", Step: `{"validate": {"format": true, "schema": {"format": "email"}}}`,
			In:   []string{`"secret"`},
			Want: []string{"failed rejected: does not match the schema: the document: is not a valid email"}},
		{Name: "or the draft has them", Step: `{"validate": {"draft": 7, "schema": {"format": "email"}}}`,
			In:   []string{`"x"`},
			Want: []string{"failed rejected: does not match the schema: the document: is not a valid email"}},
		{Name: "$schema names the draft, too",
			Step: inline(`{"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"n": {"type": "integer"}}, "items": [{"$ref": ` +
				`"#/definitions/n"}]}`), In: []string{`["x"]`},
			Want: []string{"failed rejected: does not match the schema: /0: got string, want integer"}},
		{Name: "a schema may refer to itself",
			Step: inline(`{"type": "object", "properties": {"child": {"$ref": "#"}}}`),
			In:   []string{`{"child":{"child":1}}`, `{"child":{}}`}, Want: []string{`{"child":{}}`,
				"failed rejected: does not match the schema: /child/child: got number, want object"}},
	})
}

func TestAnErrorShowsNoTextOfTheMessage(t *testing.T) {
	p := enginetest.New(t, engine.Processors,
		`{"validate": {"format": true, "schema": {"items": {"anyOf": [{"pattern": "^x"}, {"format": "email"}, {"const": "a"}, {"enum": ["b"]},`+
			` {"maxLength": 1}], "not": {"minLength": 5}}}}}`)
	for _, o := range enginetest.Apply(t, p, `["secret\u001b[31m"]`, `{"`+strings.Repeat("k", 5000)+`":1}`) {
		if o.Fate == "failed" && (strings.Contains(o.Err.Error(), "secret") ||
			strings.Contains(o.Err.Error(), "\x1b") || len(o.Err.Error()) > 1000) {
			t.Errorf("error %.2000q", o.Err)
		}
	}
	p = enginetest.New(t, engine.Processors,
		inline(`{"additionalProperties": false, "propertyNames": {"maxLength": 3}}`))
	o := enginetest.Apply(t, p, `{"`+strings.Repeat(`\u001b`, 5000)+`":1}`)[0]
	if o.Fate != "failed" || len(o.Err.Error()) > 2000 || strings.Contains(o.Err.Error(), "\x1b") {
		t.Errorf("error %.2000q", o.Err)
	}
}

// The exact fraction of a number may be much longer than its text.
func TestHugeNumbersAreNotCalculatedWith(t *testing.T) {
	step := inline(`{"items": {"multipleOf": 0.01, "minimum": 0, "type": "integer"}, "uniqueItems": true}`)
	steptest.Run(t, []steptest.Case{{Name: "each alone", Step: step,
		In: []string{`[1e999999]`, `[1e99999999999999999999]`, `[1E-999999]`, `[` + strings.Repeat("1", 5000) + `]`,
			`[1e1000]`},
		Want: []string{`[1e1000]`, "failed rejected: does not match the schema: /0: a number beyond",
			"failed rejected: ", "failed rejected: ", "failed rejected: "}}})
}

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestASchemaMayLieInFiles(t *testing.T) {
	dir := folder(t, map[string]string{
		"order #1.json": `{"properties": {"id": {"$ref": "defs/all.yaml#/$defs/id"}, "n": {"$ref": "n.json"}}}`,
		"defs/all.yaml": "$defs:\n  id: {type: string, maxLength: 2}\n",
		"n.json":        `{"maximum": 3}`,
	})
	file := filepath.Join(dir, "order #1.json")
	steptest.Run(t, []steptest.Case{
		{Name: "in short", Step: fmt.Sprintf(`{"validate": %q}`, file),
			In: []string{`{"id":"ab","n":3}`, `{"id":"abc","n":4}`},
			Want: []string{`{"id":"ab","n":3}`, "failed rejected: does not match " + file +
				": /id: maxLength: got 3, want 2; /n: maximum: got 4, want 3"}},
		{Name: "yaml", Step: fmt.Sprintf(`{"validate": {"file": %q}}`, filepath.Join(dir, "defs/all.yaml")),
			In: []string{`1`}, Want: []string{`1`}},
	})
}

func TestRefused(t *testing.T) {
	dir := folder(t, map[string]string{
		"bad.json":      `{"type": "strin"}`,
		"pattern.json":  `{"pattern": "(?!x)"}`,
		"broken.json":   `{"type": `,
		"broken.yaml":   "a: [",
		"net.json":      `{"$ref": "https://example.com/x.json"}`,
		"up.json":       `{"$ref": "../../etc/passwd"}`,
		"abs.json":      `{"$ref": "file:///etc/passwd"}`,
		"host.json":     `{"$ref": "file://host/x.json"}`,
		"link.json":     `{"$ref": "outside.json"}`,
		"gone.json":     `{"$ref": "nowhere.json"}`,
		"anchor.json":   `{"$ref": "#/$defs/x"}`,
		"meta.json":     `{"$schema": "https://example.com/draft"}`,
		"numbers.json":  `{"maximum": 1e999999}`,
		"self/loop.txt": ``,
	})
	if err := os.Symlink(os.Args[0], filepath.Join(dir, "outside.json")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "self/loop.txt"), 5<<20); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return fmt.Sprintf(`{"validate": %q}`, filepath.Join(dir, name)) }
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "no schema", Step: `{"validate": {}}`, Want: "needs a schema"},
		{Name: "a field that there is not", Step: `{"validate": {"file": "x.json", "drft": 7}}`,
			Want: `"file" is next to a key that the step does not have`},
		{Name: "beside a schema", Step: `{"validate": {"schema": {"type": "object"}, "drft": 7}}`,
			Want: `"schema" is next to a key that the step does not have`},
		{Name: "no word of a schema", Step: `{"validate": {"proprties": {"id": {"type": "string"}}}}`,
			Want: `"proprties" is not a keyword of JSON Schema`},
		{Name: "a file without a name", Step: `{"validate": {"schema": ""}}`, Want: "the file's name is empty"},
		{Name: "two schemas", Step: `{"validate": {"file": "x", "schema": {}}}`, Want: "keep one"},
		{Name: "a draft", Step: `{"validate": {"draft": "3", "schema": {}}}`, Want: "must be one of 2020-12"},
		{Name: "a list as a schema", Step: inline(`[]`), Want: "expected a JSON Schema, got a list"},
		{Name: "a key twice", Step: inline(`{"type": "object", "type": "array"}`), Want: "is given twice"},
		{Name: "an inline schema that is none", Step: inline(`{"properties": {"a": {"type": "strin"}}}`),
			Want: "not a valid JSON Schema: /properties/a/type: "},
		{Name: "an inline schema that refers to a file", Step: inline(`{"$ref": "x.json"}`),
			Want: "can't refer to the file x.json"},
		{Name: "a file that is none", Step: at("bad.json"), Want: "not a valid JSON Schema: /type: "},
		{Name: "a pattern that Go has not", Step: at("pattern.json"), Want: "invalid or unsupported Perl syntax"},
		{Name: "no JSON", Step: at("broken.json"), Want: "broken.json: not a JSON document"},
		{Name: "no YAML", Step: at("broken.yaml"), Want: "broken.yaml: yaml: "},
		{Name: "the network", Step: at("net.json"), Want: "https://example.com/x.json is not fetched"},
		{Name: "a folder above", Step: at("up.json"), Want: "is outside of " + dir},
		{Name: "an absolute path", Step: at("abs.json"), Want: "/etc/passwd is outside of " + dir},
		{Name: "a host's file", Step: at("host.json"), Want: "is not fetched"},
		{Name: "a link that leads away", Step: at("link.json"), Want: "outside.json: path escapes"},
		{Name: "a file that is not there", Step: at("gone.json"), Want: "nowhere.json: no such file"},
		{Name: "a definition that is not there", Step: at("anchor.json"), Want: "not found"},
		{Name: "an unknown draft", Step: at("meta.json"), Want: "https://example.com/draft is not fetched"},
		{Name: "a number out of bounds", Step: at("numbers.json"), Want: "/maximum: a number beyond 1000 digits"},
		{Name: "no file", Step: at("none.json"), Want: "none.json: no such file"},
		{Name: "a folder", Step: at("self"), Want: "is not a file"},
		{Name: "a pipe", Step: at("fifo.json"), Want: "is not a file"},
		{Name: "a very long file", Step: at("self/loop.txt"), Want: "larger than 4 MiB"},
	})
}

func TestProcessor(t *testing.T) {
	steptest.Conforms(t, inline(`{"$defs": {"n": {"type": "integer"}}, "properties": {"n": {"$ref": "#/$defs/n"}}}`),
		`{"n":0}`, `{"n":7}`, `{}`)
}

func BenchmarkValidate(b *testing.B) {
	p := enginetest.New(b, engine.Processors,
		inline(`{"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}, "user": {"type": "object", "properties": `+
			`{"plan": {"enum": ["free", "paid"]}}}, "items": {"items": {"type": "integer", "minimum": 0}}}}`))
	batch := engine.NewBatch(256)
	for range 256 {
		batch.Add([]byte(`{"id":7,"user":{"name":"x","plan":"free"},"items":[1,2,3],"text":"` + strings.Repeat("x",
			300) + `"}`))
	}
	for b.Loop() {
		if err := p.Process(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
}
