package test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/docs"
	"github.com/flowd-io/flowd/engine"
)

// yamlBlock matches a block of YAML in a guide that is a pipeline, a section of one, or steps.
// Other blocks have a word after `yaml`.
var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// TestExamplesInDocsLint completes each YAML block to a pipeline and lints it.
func TestExamplesInDocsLint(t *testing.T) {
	for name, value := range map[string]string{"PORT": "8080", "COUNTRY": "SG", "ALERTS": "http://127.0.0.1:8080",
		"FLOWD_TOKEN": "t", "NATS_TOKEN": "t", "KAFKA_PASSWORD": "t"} {
		t.Setenv(name, value)
	}
	for _, path := range guides(t) {
		for i, b := range yamlBlock.FindAllStringSubmatch(read(t, path), -1) {
			t.Run(fmt.Sprintf("%s %d", filepath.Base(path), i+1), func(t *testing.T) { lint(t, b[1]) })
		}
	}
}

// rowCode matches a step or a section of a file in a row of a table.
var rowCode = regexp.MustCompile("`([a-z_]+): ([^`…]+)`")

// TestRowsOfMigrationsLint lints the steps that the guide names beside those of Logstash and Vector.
func TestRowsOfMigrationsLint(t *testing.T) {
	rows := 0
	for line := range strings.Lines(read(t, repo, "docs", "migrate.md")) {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, "\x00"), " | ")
		if !strings.HasPrefix(line, "| `") || len(cells) != 2 {
			continue
		}
		steps, sections := "", ""
		for _, m := range rowCode.FindAllStringSubmatch(strings.ReplaceAll(cells[1], "\x00", "|"), -1) {
			switch {
			case slices.Contains(engine.Processors.Names(), m[1]):
				steps += "  - " + m[1] + ": " + m[2] + "\n"
			case m[1] == "engine", m[1] == "resources":
				sections += m[1] + ": " + m[2] + "\n"
			}
		}
		if steps != "" {
			rows++
			t.Run(cells[0], func(t *testing.T) { lint(t, "processors:\n"+steps+sections) })
		}
	}
	if rows < 20 {
		t.Errorf("%d rows have steps, want at least 20", rows)
	}
}

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// TestProgramsInDocsBuild builds each Go block.
func TestProgramsInDocsBuild(t *testing.T) {
	if testing.Short() {
		t.Skip("links whole programs")
	}
	t.Parallel()
	built := 0
	for _, path := range guides(t) {
		for _, b := range goBlock.FindAllStringSubmatch(read(t, path), -1) {
			dir := t.TempDir()
			within(t, compiling, repo, "", "go", "build", "-o", filepath.Join(dir, "program"),
				write(t, dir, "main.go", b[1])).Want(t, 0)
			built++
		}
	}
	if built == 0 {
		t.Error("no document has a program")
	}
}

var link = regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)

// TestLinksInDocsWork checks that linked files and sections exist.
func TestLinksInDocsWork(t *testing.T) {
	reference, err := filepath.Glob(filepath.Join(repo, "docs", "reference", "*.md"))
	if err != nil || len(reference) == 0 {
		t.Fatalf("no reference: %v", err)
	}
	for _, path := range slices.Concat(guides(t), reference, []string{filepath.Join(repo, "README.md"),
		filepath.Join(repo, "CONTRIBUTING.md"), filepath.Join(repo, "CHANGELOG.md")}) {
		for _, m := range link.FindAllStringSubmatch(read(t, path), -1) {
			target := path
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(path), m[1])
			}
			found, err := filepath.Glob(target)
			if err != nil || len(found) == 0 {
				t.Errorf("%s links to %s, which does not exist", filepath.Base(path), m[1])
				continue
			}
			if m[2] != "" && !slices.ContainsFunc(docs.Sections("", read(t, target)), func(p docs.Passage) bool {
				return docs.Anchor(p.Section) == m[2]
			}) {
				t.Errorf("%s links to %s, which has no section %s", filepath.Base(path), target, m[2])
			}
		}
	}
}

func TestREADMELinksEveryGuide(t *testing.T) {
	readme := read(t, repo, "README.md")
	for _, path := range guides(t) {
		if name := "docs/" + filepath.Base(path); !strings.Contains(readme, name) {
			t.Errorf("README.md does not mention %s", name)
		}
	}
}

// guides returns the paths of the hand-written documents in docs.
func guides(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(repo, "docs", "*.md"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	return found
}
