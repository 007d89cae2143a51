package test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine/expr"
)

// TestTheReferenceIsUpToDate compares docs/reference with what flowd docs writes.
func TestTheReferenceIsUpToDate(t *testing.T) {
	dir := t.TempDir()
	flowd(t, repo, "", "docs", "--markdown", dir).Want(t, 0)
	command(t, repo, "", "diff", "-r", filepath.Join("docs", "reference"), dir).Want(t, 0)
	if t.Failed() {
		t.Error("docs/reference is stale: run make reference")
	}
}

// TestFunctionExamplesInTheReference evaluates the examples of functions that need a message, in the pipeline that the
// reference shows. Examples of other functions are tested in their own package.
func TestFunctionExamplesInTheReference(t *testing.T) {
	all := blocks(read(t, repo, "docs", "reference", "functions.md"))
	if len(all) < 2 || all[0].language != "sh" || all[1].language != "yaml" {
		t.Fatal("docs/reference/functions.md does not begin with the files and the pipeline of the examples")
	}
	dir := t.TempDir()
	command(t, dir, "", "sh", "-c", all[0].text).Want(t, 0)

	var examples, calls []string
	for _, f := range expr.Functions("", "batch") {
		for example := range strings.SplitSeq(f.Example, "\n") {
			call, want, ok := strings.Cut(example, " → ")
			if !ok {
				t.Errorf("%s: %q is not of the form CALL → RESULT", f.Name, f.Example)
			} else if !strings.HasPrefix(want, "error: ") {
				examples = append(examples, example)
				calls = append(calls, fmt.Sprintf("[(%s) == (%s), %[1]s]", call, want))
			}
		}
	}
	evaluate, _ := json.Marshal("[" + strings.Join(calls, ", ") + "]")
	write(t, dir, "p.yaml", strings.Replace(all[1].text, "out: {stdout: {}}\n", "out:\n    stdout: {}\n    processors: [set: {all: "+
		strings.ReplaceAll(string(evaluate), "${", "$${")+"}]\n", 1))
	t.Setenv("REGION", "eu")
	got := flowd(t, dir, "", "-c", "p.yaml")
	got.Want(t, 0)
	first, _, _ := strings.Cut(got.Stdout, "\n")
	var values struct{ All [][]any }
	if err := json.Unmarshal([]byte(first), &values); err != nil || len(values.All) != len(examples) {
		t.Fatalf("%v: %s", err, first)
	}
	for i, example := range examples {
		if values.All[i][0] != true {
			t.Errorf("%s: got %v", example, values.All[i][1])
		}
	}
}
