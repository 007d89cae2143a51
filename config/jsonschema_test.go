package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
)

// schemaOfFiles compiles the JSON Schema of pipeline files.
func schemaOfFiles(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	if err := c.AddResource("flowd.json", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("flowd.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

func TestEditorsGetASchemaThatAgreesWithTheLinter(t *testing.T) {
	Load([]string{"testdata/valid-plugins"}, Options{}) // its types are part of the schema
	compiled := schemaOfFiles(t)
	validate := func(path string) error {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := yaml.Unmarshal(data, &v); err != nil {
			t.Fatal(err)
		}
		return compiled.Validate(v)
	}
	valid, err := filepath.Glob("testdata/valid-*.yaml")
	if err != nil || len(valid) == 0 {
		t.Fatal(valid, err)
	}
	parts, err := filepath.Glob("testdata/valid-*/*.yaml")
	if err != nil || len(parts) == 0 {
		t.Fatal(parts, err)
	}
	for _, path := range append(append(valid, parts...), "testdata/example-smallest.yaml") {
		if strings.HasSuffix(path, "anchors.yaml") {
			continue // a validator of editors expands merge keys, this one does not
		}
		if err := validate(path); err != nil {
			t.Errorf("%s is refused: %v", path, err)
		}
	}
	for _, name := range []string{
		"unknown-section", "unknown-field", "unknown-processor", "unknown-input", "unknown-output-type", "two-types",
		"no-type", "no-inputs", "no-outputs",
		"outputs-as-list", "processors-as-map", "zero-workers", "unknown-file-field", "peer-top",
		"list-at-top",
	} {
		if err := validate("testdata/" + name + ".yaml"); err == nil {
			t.Errorf("%s is taken, and should not be", name)
		}
	}
}

// Editors show one error for each leaf.
func TestAnUnknownTypeIsOneError(t *testing.T) {
	compiled := schemaOfFiles(t)
	for _, text := range []string{
		"inputs: {in: {stdim: {}}}\noutputs: {out: {stdout: {}}}",
		"inputs: {in: {stdin: {}}}\nprocessors: [{filtre: a}]\noutputs: {out: {stdout: {}}}",
		"inputs: {in: {stdin: {}}}\noutputs: {out: {stdout: {}, file: {path: x}}}",
		"inputs: {in: {stdin: {}}}\noutputs: {out: {concurrency: 1}}",
	} {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		e, ok := errors.AsType[*jsonschema.ValidationError](compiled.Validate(v))
		if !ok {
			t.Errorf("%s is taken, and should not be", text)
			continue
		}
		if n := leaves(e); n != 1 {
			t.Errorf("%s: %d errors, want 1: %#v", text, n, e)
		}
	}
}

func leaves(e *jsonschema.ValidationError) (n int) {
	for _, c := range e.Causes {
		n += leaves(c)
	}
	return max(n, 1)
}
