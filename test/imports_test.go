package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"strings"
	"testing"
)

const module = "github.com/flowd-io/flowd"

// house says what each package may import of this module: the diagram of
// CONTRIBUTING.md as a table. The first pattern that matches a package counts.
var house = []struct {
	pkg     string // a pattern as of path.Match
	imports []string
}{
	{"schema", nil},
	{"engine/doc", nil},
	{"engine/expr", []string{"engine/doc", "schema"}},
	{"engine", []string{"engine/doc", "engine/expr", "schema"}},
	{"engine/enginetest", []string{"config", "engine", "engine/doc", "engine/expr", "schema"}},
	{"config", []string{"engine", "engine/doc", "engine/expr", "schema", "internal/cluster", "internal/codec", "internal/tlsconf"}},

	// A root lists the plugins of its kind; a plugin never knows a sibling.
	{"inputs", []string{"inputs/*", "internal/sqsqueue"}},
	{"processors", []string{"processors/*", "internal/caches"}},
	{"batchers", []string{"batchers/*"}},
	{"outputs", []string{"outputs/*"}},
	{"inputs/*", plugin},
	{"processors/*", plugin},
	{"batchers/*", plugin},
	{"outputs/*", plugin},
	{"internal/caches", []string{"internal/caches/*"}},
	{"internal/caches/*", plugin},
	{"internal/notice", nil}, // a program that writes NOTICE
	{"internal/queue/queuetest", []string{"internal/queue"}},
	{"internal/pipetest", []string{"config", "engine", "engine/doc", "engine/expr", "internal/cluster", "schema"}}, // of flowd test, not of plugins
	{"internal/*test", append([]string{"engine/enginetest"}, plugin...)},
	{"internal/*", plugin},

	{"docs", nil},
	{"cmd/flowd/cli", []string{"config", "docs", "engine", "engine/doc", "engine/expr", "internal/cluster", "internal/framing", "internal/headroom", "internal/hub", "internal/logsum", "internal/metrics", "internal/natsconn", "internal/pipetest", "internal/queue", "internal/service", "internal/tlsconf", "internal/worker", "schema"}},
	{"cmd/flowd", []string{"cmd/flowd/cli", "inputs", "processors", "batchers", "outputs"}},
	{"test", nil},
	{"test/*", []string{"*", "*/*"}},
}

var plugin = []string{"engine", "engine/doc", "engine/expr", "schema", "internal/*"}

// plugins are the packages of which each knows no other.
var plugins = []string{"inputs/*", "processors/*", "batchers/*", "outputs/*"}

// forTests is what a plugin's tests may import in addition to what the plugin may: fakes
// and suites, and real components to work with.
var forTests = []string{"engine/enginetest", "internal/*test", "inputs/*", "processors/*", "batchers/*", "outputs/*"}

// yamlReaders are the only packages that import a YAML library.
var yamlReaders = []string{"config", "internal/codec"}

func TestImportsFollowTheDiagram(t *testing.T) {
	for _, p := range list(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		allowed, known := imports(name)
		if !known {
			t.Errorf("%s: has no place in the house (see the table in %s)", name, "test/imports_test.go")
			continue
		}
		for _, i := range p.Imports {
			if rel, ours := strings.CutPrefix(i, module+"/"); ours && !matches(allowed, rel) {
				t.Errorf("%s imports %s: it may import %v", name, rel, allowed)
			}
			if strings.Contains(i, "yaml") && !matches(yamlReaders, name) {
				t.Errorf("%s imports %s: only %v read YAML", name, i, yamlReaders)
			}
		}
		if !matches(plugins, name) {
			continue
		}
		for _, i := range append(p.TestImports, p.XTestImports...) {
			if rel, ours := strings.CutPrefix(i, module+"/"); ours && rel != name && !matches(allowed, rel) && !matches(forTests, rel) {
				t.Errorf("a test of %s imports %s: it may import %v and %v", name, rel, allowed, forTests)
			}
		}
	}
}

func imports(pkg string) (allowed []string, known bool) {
	for _, h := range house {
		if ok, _ := path.Match(h.pkg, pkg); ok {
			return h.imports, true
		}
	}
	return nil, false
}

func matches(patterns []string, pkg string) bool {
	for _, p := range patterns {
		if ok, _ := path.Match(p, pkg); ok {
			return true
		}
	}
	return false
}

type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

// list is what `go list` knows of the packages of this module.
func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = repo
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}
