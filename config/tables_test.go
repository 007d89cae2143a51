package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAReloadGoesOnWithTablesThatHaveNotChanged(t *testing.T) {
	const pipeline = `
inputs: {in: {stdin: {}}}
processors: [{filter: 'lookup("items", 1) == nil and lookup("same", 1) == nil'}]
outputs: {out: {stdout: {}}}
resources:
  tables:
    items: {file: "DIR/items.csv", key: id}
    same: {file: "DIR/items.csv", key: n}
`
	dir := write(t, map[string]string{"items.csv": "id,n\n1,x\n"})
	text := strings.ReplaceAll(pipeline, "DIR", filepath.ToSlash(dir))
	path := filepath.Join(write(t, map[string]string{"p.yaml": text}), "p.yaml")
	before, problems := Load([]string{path}, Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if shown := before.Pipelines[0].Show(); !strings.Contains(shown, "p.yaml:7: 1 row, ") {
		t.Errorf("the size of a table is not shown:\n%s", shown)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(text, "key: id", "key: n", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	after, problems := before.Reload([]string{path}, Options{}, func(Service) error { return nil })
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if before.tables["same"] != after.tables["same"] || before.tables["items"] == after.tables["items"] {
		t.Error("a table that has changed is the one before, or one that has not is another")
	}
	if _, err := before.tables["items"].Lookup("1"); err == nil {
		t.Error("a table that is no longer used takes memory")
	}
	if v, err := after.tables["items"].Lookup("x"); v == nil || err != nil {
		t.Errorf("got %v, %v", v, err)
	}
}
