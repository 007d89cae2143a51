package test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
)

// TestTheSchemaAcceptsTheExamples validates every example with the output of `flowd schema`, as
// an editor does. It must not accept an example with a misspelt key.
func TestTheSchemaAcceptsTheExamples(t *testing.T) {
	schema := editorSchema(t)
	examples, err := filepath.Glob(filepath.Join(repo, "examples", "*.yaml"))
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, path := range examples {
		t.Run(filepath.Base(path), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var pipeline map[string]any
			if err := yaml.Unmarshal(data, &pipeline); err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(pipeline); err != nil {
				t.Errorf("%s is rejected: %v", path, err)
			}
			misspell(pipeline, "", func(key string) {
				if schema.Validate(pipeline) == nil {
					t.Errorf("%s is accepted with the key %s misspelt", path, key)
				}
			})
		})
	}
}

// editorSchema compiles the output of `flowd schema`.
func editorSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	got := flowd(t, repo, "", "schema")
	got.Want(t, 0)
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(got.Stdout))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	if err := c.AddResource("flowd.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("flowd.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// namedKeys have mappings whose keys are chosen by users, so that they can't be misspelt.
var namedKeys = []string{"inputs", "sources", "outputs", "batchers", "set", "let", "map", "meta", "rename", "aggregate", "headers",
	"columns", "fields", "steps", "rate_limits", "caches", "labels", "parallel", "patterns", "mocks", "fail", "expect", "tables",
	"parameters"}

// misspell misspells one key at a time, in v and below it, and calls check. key is the key of v.
func misspell(v any, key string, check func(key string)) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			misspell(item, "", check)
		}
	case map[string]any:
		if key == "json" || key == "schema" || key == "config" { // a document of a test; names of columns; of a program
			return
		}
		for _, k := range slices.Collect(maps.Keys(v)) {
			item := v[k]
			if use, ok := item.(map[string]any); ok && key == "steps" && use["do"] == nil {
				continue // parameters of a named list of steps
			}
			if k != "tables" || v["input"] == nil { // rows of a table in a test are data
				misspell(item, k, check)
			}
			if slices.Contains(namedKeys, key) {
				continue
			}
			delete(v, k)
			v[k+"x"] = item
			check(k)
			delete(v, k+"x")
			v[k] = item
		}
	}
}
