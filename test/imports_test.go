package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/flowd-io/flowd"

type importRule struct{ packages, imports string }

// importRules says which packages of this module a package may import, like the picture in CONTRIBUTING.md. For each
// package, the first row with a pattern (see path.Match) that matches it applies. Groups of internal are in order: each
// may import the groups above it.
var importRules = []importRule{
	{"schema engine/doc docs", ""},
	{"engine/expr/internal/fake engine/expr/internal/memo engine/expr/internal/calendar", ""},
	{"engine/expr/internal/value", "engine/doc engine/expr/internal/calendar"},
	{"engine/expr/internal/codetext", "engine/expr/internal/memo engine/expr/internal/value schema"},
	{"engine/expr/internal/hints", "engine/expr/internal/codetext engine/expr/internal/memo schema"},
	{"engine/expr/internal/lang", "engine/doc engine/expr/internal/calendar engine/expr/internal/codetext " +
		"engine/expr/internal/hints engine/expr/internal/memo engine/expr/internal/value schema"},
	{"engine/expr/internal/builtin", "engine/expr/internal/builtin/* engine/expr/internal/lang"},
	{"engine/expr/internal/builtin/*", "engine/doc engine/expr/internal/calendar engine/expr/internal/codetext " +
		"engine/expr/internal/fake engine/expr/internal/lang engine/expr/internal/memo engine/expr/internal/value schema"},
	{"engine/expr", "engine/doc engine/expr/internal/* engine/expr/internal/builtin/sources schema"},
	{"engine", "engine/doc engine/expr engine/internal/inside schema"},
	{"engine/internal/inside", "engine/doc"},
	{"engine/internal/guard engine/internal/rules", "engine schema"},
	{"engine/internal/limit", "engine engine/expr engine/internal/inside"},
	{"engine/internal/flow", "engine engine/doc engine/internal/inside"},
	{"engine/internal/ledger", "engine engine/cause schema engine/internal/guard engine/internal/inside"},
	{"engine/internal/order", "engine engine/expr engine/internal/flow engine/internal/inside"},
	{"engine/internal/retry", "engine engine/cause engine/internal/guard engine/internal/inside engine/internal/ledger"},
	{"engine/internal/steps",
		"engine engine/expr schema engine/internal/flow engine/internal/guard engine/internal/inside engine/internal/order " +
			"engine/internal/retry"},
	{"engine/internal/life", "engine schema engine/internal/guard"},
	{"engine/internal/stage", "engine engine/doc engine/expr schema engine/internal/*"},
	{"engine/runtime", "engine schema engine/internal/*"},
	{"engine/polling", "engine schema"},
	{"engine/source", "engine internal/state/checkpoint internal/state/watermark"},
	{"engine/cause", "engine"},
	{"engine/enginetest", "engine engine/expr engine/internal/inside engine/runtime schema"},
	{"config", "config/yamltext engine engine/doc engine/expr engine/runtime schema internal/components/builds internal/components/fields " +
		"internal/components/programs internal/formats/* internal/migrate/bloblang internal/network/* internal/pool/wire " +
		"internal/program/manifest internal/state/tables internal/systems/secrets"},
	{"config/yamltext", "schema internal/formats/codec"},

	// A root package imports the plugins of its kind. A plugin never imports another one.
	{"inputs", "inputs/*"},
	{"processors", "processors/* internal/pool/hub internal/state/caches"},
	{"batchers", "batchers/*"},
	{"outputs", "outputs/*"},
	{plugins, public + " internal/components/* internal/disk/* internal/formats internal/formats/* internal/network/* " +
		"internal/systems/* internal/systems/*/* internal/state/* internal/state/caches/memory internal/pool " +
		"internal/pool/wire internal/program/frame internal/program/host internal/operations/logsum internal/operations/metrics"},

	{"internal/disk/*", "engine"},
	{"internal/network/*", public + " internal/network/*"},
	{"internal/components/programs", "engine schema internal/network/call internal/operations/logsum"},
	{"internal/components/push", "engine engine/doc internal/formats/compression internal/network/httpx internal/operations/logsum"},
	{"internal/components/*", public},
	{"internal/formats internal/formats/*", public + " internal/formats/* internal/network/*"},
	{"internal/systems/* internal/systems/*/*", public + " internal/components/* internal/disk/* internal/formats/* " +
		"internal/network/* internal/systems/* internal/systems/*/*"},
	{"internal/state/* internal/state/caches/*", public + " internal/components/* internal/disk/* internal/formats/* " +
		"internal/network/* internal/state/* internal/state/caches/* internal/systems/* internal/systems/queue/*"},
	{"internal/pool internal/pool/*", public + " engine/runtime internal/components/* internal/disk/* internal/network/* " +
		"internal/pool internal/pool/wire internal/systems/nats internal/systems/nats/embed"},
	{"internal/program/frame", "engine engine/doc"},
	{"internal/program/conform", "internal/components/programs internal/program/frame engine"},
	{"internal/program/host", "engine engine/doc schema internal/components/* internal/operations/metrics internal/program/frame"},
	{"internal/program/manifest", public + " config/yamltext internal/formats/jsonschema"},
	{"internal/operations/pipetest", public + " config engine/runtime internal/components/* internal/pool/wire " +
		"internal/operations/difference internal/operations/observe internal/state/caches/memory"},
	{"internal/operations/observe", public + " internal/operations/difference"},
	{"internal/operations/deadletters", public + " config internal/disk/* internal/formats/* internal/operations/pipetest " +
		"internal/systems/metadata internal/systems/objects internal/systems/queue"},
	{"internal/operations/tap", public + " internal/operations/difference internal/operations/observe"},
	{"internal/operations/graph", public + " config engine/runtime"},
	{"internal/operations/evaluate", public + " internal/formats/framing"},
	{"internal/operations/scaffold", public + " config/yamltext"},
	{"internal/operations/plugins", "engine internal/components/builds"},
	{"internal/operations/plugins/template/*", public},
	{"internal/operations/notify", "engine engine/expr schema internal/components/programs internal/network/httpx " +
		"internal/operations/service"},
	{"internal/operations/tracing", public + " internal/network/traceparent internal/operations/telemetry"},
	{"internal/operations/history", public + " internal/operations/observe"},
	{"internal/operations/service", public + " internal/formats/framing internal/network/* internal/operations/history"},
	{"internal/operations/telemetry", public + " internal/network/otlp"},
	{"internal/operations/top", "internal/components/controls internal/operations/service"},
	{"internal/operations/terminal", "internal/operations/top"},
	{"internal/operations/*", public + " internal/operations/service"},
	{"internal/migrate internal/migrate/*", public + " internal/migrate/*"},

	{"cmd/flowd", "cmd/flowd/cli inputs processors batchers outputs"},
	{"cmd/flowd/cli", "config docs engine engine/expr engine/polling engine/runtime schema internal/components/* internal/disk/* " +
		"internal/formats/* internal/migrate internal/network/* internal/operations/* internal/pool/* internal/program/conform " +
		"internal/program/frame internal/program/manifest internal/systems/objects internal/systems/queue internal/systems/secrets"},

	// The following packages are for tests, and for programs that test.
	{"engine/expr/internal/exprtest", "engine/doc engine/expr/internal/builtin engine/expr/internal/codetext " +
		"engine/expr/internal/lang engine/expr/internal/value schema"},
	{"packaging/pages", "cmd/flowd/cli"},
	{"packaging/dashboard", ""},
	{"internal/testing/*", "engine engine/enginetest engine/runtime schema internal/network/* internal/program/frame internal/systems/* " +
		"internal/testing/*"},
	{"test test/*", "config engine engine/runtime schema inputs processors batchers outputs internal/migrate internal/migrate/* " +
		"internal/operations/headroom internal/systems/pgoutput internal/testing/*"},
}

const (
	// plugins must not import each other.
	plugins = "inputs/* processors/* batchers/* outputs/*"
	// public packages may be imported by plugins outside of this module.
	public = "engine engine/cause engine/doc engine/expr engine/polling engine/source schema"
)

// forTests may be imported by tests of plugins, in addition to the plugin's own imports: fakes, suites, and real components.
const forTests = plugins +
	" engine/enginetest engine/runtime internal/state/caches internal/testing/*"

// yamlReaders are the only packages that may import a YAML library. The packages of migrate read and write the files of
// other systems.
const yamlReaders = "config/yamltext internal/formats/codec internal/migrate internal/migrate/bloblang test/migrate"

func TestImportsFollowTheDiagram(t *testing.T) {
	used := map[[2]string]bool{} // a row of importRules and a pattern in it
	for _, p := range goList(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		row := slices.IndexFunc(importRules, func(r importRule) bool { return match(r.packages, name) != "" })
		if row < 0 {
			t.Errorf("%s matches no row of importRules (add one in test/imports_test.go)", name)
			continue
		}
		allowed := func(imported string) string { return match(importRules[row].imports, imported) }
		for _, i := range p.Imports {
			if rel, ours := strings.CutPrefix(i, module+"/"); ours {
				if by := allowed(rel); by == "" {
					t.Errorf("%s may not import %s (see the table in test/imports_test.go)", name, rel)
				} else {
					used[[2]string{importRules[row].packages, by}] = true
				}
			}
			if !strings.HasPrefix(i, module) && strings.Contains(i, "yaml") && match(yamlReaders, name) == "" {
				t.Errorf("%s imports %s: only %s read YAML", name, i, yamlReaders)
			}
		}
		if match(plugins, name) == "" {
			continue
		}
		for _, i := range append(p.TestImports, p.XTestImports...) {
			rel, ours := strings.CutPrefix(i, module+"/")
			if ours && rel != name && match(forTests, rel) == "" && allowed(rel) == "" {
				t.Errorf("a test of %s may not import %s (see the table in test/imports_test.go)", name, rel)
			}
		}
	}

	for _, r := range importRules {
		for imported := range strings.FieldsSeq(r.imports) {
			if match(public, imported) == "" && !used[[2]string{r.packages, imported}] {
				t.Errorf("none of %s imports %s: remove the permission", r.packages, imported)
			}
		}
	}
}

// match returns the first pattern that matches a package, or "".
func match(patterns, pkg string) string {
	for p := range strings.FieldsSeq(patterns) {
		if ok, _ := path.Match(p, pkg); ok {
			return p
		}
	}
	return ""
}

type goPackage struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

// goList runs `go list` for the packages of this module.
func goList(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = repo
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}
