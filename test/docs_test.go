package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	_ "github.com/flowd-io/flowd/batchers"
	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	_ "github.com/flowd-io/flowd/inputs"
	_ "github.com/flowd-io/flowd/outputs"
	_ "github.com/flowd-io/flowd/processors"
)

// Every component is documented with an example, and every example lints.
func TestComponentExamplesLint(t *testing.T) {
	lintExamplesOf(t, engine.Inputs)
	lintExamplesOf(t, engine.Processors)
	lintExamplesOf(t, engine.Batchers)
	lintExamplesOf(t, engine.Outputs)
	lintExamplesOf(t, engine.Caches)
}

func lintExamplesOf[T any](t *testing.T, r *engine.Registry[T]) {
	for _, name := range r.Names() {
		t.Run(r.Kind()+" "+name, func(t *testing.T) {
			examples := examplesOf(r.Lookup(name).Doc)
			if len(examples) == 0 {
				t.Fatal("the documentation has no example")
			}
			for _, text := range examples {
				lint(t, text)
			}
		})
	}
}

// examplesOf returns the parts of a component's documentation that are indented by four spaces.
func examplesOf(doc string) (all []string) {
	var now []string
	for line := range strings.Lines(doc + "\nend\n") {
		switch {
		case strings.HasPrefix(line, "    "), strings.TrimSpace(line) == "" && len(now) > 0:
			now = append(now, strings.TrimPrefix(line, "    "))
		case len(now) > 0:
			all = append(all, strings.Join(now, ""))
			now = nil
		}
	}
	return all
}

func indented(text string) (all string) {
	for line := range strings.Lines(text) {
		all += "      " + line
	}
	return all
}

var cacheNames = regexp.MustCompile(`(?:get|set|add|delete|cache): (\w+)[,}]`)

var registryName = regexp.MustCompile(`registry: (\w+)`)

var outputNames = regexp.MustCompile(`output: (\w+)`)

// lint completes an example to a pipeline and lints it.
func lint(t *testing.T, text string) {
	t.Helper()
	if strings.HasPrefix(text, "- ") { // steps: a batcher accepts all of them
		text = "batchers:\n  b:\n    output: out\n    processors:\n" + indented(text)
	}
	if names := cacheNames.FindAllStringSubmatch(text, -1); names != nil && !strings.Contains(text, "resources:") {
		text += "\nresources:\n  caches:\n"
		for i, n := range names {
			if !slices.ContainsFunc(names[:i], func(o []string) bool { return o[1] == n[1] }) {
				text += "    " + n[1] + ": {memory: {}}\n"
			}
		}
	}
	if name := registryName.FindStringSubmatch(text); name != nil && !strings.Contains(text, "resources:") {
		text += "\nresources: {registries: {" + name[1] + ": http://localhost:8081}}\n"
	}
	for _, schema := range []string{"order.avsc", "order.proto"} {
		text = strings.ReplaceAll(text, schema, filepath.Join(repo, "examples", "data", schema))
	}
	if !strings.Contains(text, "inputs:") {
		text += "\ninputs: {in: {stdin: {}}}\n"
	}
	if !strings.Contains(text, "outputs:") {
		names := outputNames.FindAllStringSubmatch(text, -1)
		if names == nil {
			names = [][]string{{"", "out"}}
		}
		text += "\noutputs:\n"
		for i, n := range names {
			if !slices.ContainsFunc(names[:i], func(o []string) bool { return o[1] == n[1] }) {
				text += fmt.Sprintf("  %s: {drop: {}}\n", n[1])
			}
		}
	}
	file := filepath.Join(t.TempDir(), "example.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, problems := config.Load([]string{file}, config.Options{})
	for _, p := range problems {
		// The other end of a pipe is in another example, and examples name files of tables that don't exist.
		if p.Code != "open-pipe" && p.Code != "missing-table" {
			t.Errorf("%s\n%s", p, text)
		}
	}
}
