package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const lookupPipeline = `
inputs:
  in: {stdin: {}}
processors:
  - set: {item: 'lookup("items", id)?.n'}
outputs:
  out: {stdout: {}}
resources:
  tables:
    items: {file: items.csv, key: id, interval: 100ms}
`

// items makes a table whose rows all have the same value.
func items(rows int, value string) string {
	var b strings.Builder
	b.WriteString("id,n\n")
	for i := range rows {
		fmt.Fprintf(&b, "%d,%s\n", i, value)
	}
	return b.String()
}

// A table must be complete before the first message is read, or lookups of early messages fail.
func TestTablesAreLoadedBeforeTheFirstMessage(t *testing.T) {
	t.Parallel()
	const rows, runs = 2000, 60
	dir := t.TempDir()
	write(t, dir, "p.yaml", lookupPipeline)
	write(t, dir, "items.csv", items(rows, "x"))
	var stdin, want strings.Builder
	for i := range rows {
		fmt.Fprintf(&stdin, "{\"id\":%d}\n", rows-1-i)
		fmt.Fprintf(&want, "{\"id\":%d,\"item\":\"x\"}\n", rows-1-i)
	}
	for run := range runs {
		got := flowd(t, dir, stdin.String(), "-c", "p.yaml", "-s", "engine.workers=1")
		got.Want(t, 0)
		if got.Stdout != want.String() {
			t.Fatalf("run %d: a lookup failed", run)
		}
	}
}

func TestAChangedTableIsReloaded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "p.yaml", lookupPipeline)
	write(t, dir, "items.csv", items(10, "first"))
	p := start(t, dir, "-c", "p.yaml")
	ask := func(want string) {
		t.Helper()
		p.Send(`{"id":7}` + "\n")
		if got := p.Line(); got != `{"id":7,"item":"`+want+`"}` {
			t.Errorf("stdout %s, want %s", got, want)
		}
	}
	ask("first")
	write(t, dir, "next.csv", items(11, "second"))
	if err := os.Rename(filepath.Join(dir, "next.csv"), filepath.Join(dir, "items.csv")); err != nil {
		t.Fatal(err)
	}
	p.Says("the table was read again")
	ask("second")
	write(t, dir, "items.csv", items(10, "third")+"7,twice\n")
	p.Says(`the key \"7\" is in line 9 and again in line 12`)
	ask("second")

	// A reload keeps the table, unless its configuration has changed.
	p.Signal(syscall.SIGHUP)
	p.Says("nothing has changed") // items.csv is still invalid
	ask("second")
	write(t, dir, "items.csv", items(12, "fourth"))
	p.Says("the table was read again")
	write(t, dir, "other.csv", "id,n\nx,7\n")
	write(t, dir, "p.yaml", strings.Replace(strings.Replace(lookupPipeline, "key: id", "key: n", 1), "items.csv", "other.csv", 1))
	p.Signal(syscall.SIGHUP)
	p.Says("reloaded")
	ask("7")
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0, "5 received: 5 delivered")
}

func TestAMissingTableStopsThePipeline(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "p.yaml", lookupPipeline)
	got := flowd(t, dir, `{"id":1}`, "-c", "p.yaml")
	got.Want(t, 1, "p.yaml:10:19: resources.tables.items.file: warning: items.csv: no such file or directory",
		"table items: p.yaml:10:5: items.csv: no such file or directory", "0 received")
	write(t, dir, "items.csv", "id,n\n1,x\n1,y\n")
	got = flowd(t, dir, `{"id":1}`, "-c", "p.yaml")
	got.Want(t, 2, `p.yaml:10:19: resources.tables.items.file: items.csv: the key "1" is in line 2 and again in line 3`)
	if got.Stdout != "" {
		t.Errorf("stdout %s", got.Stdout)
	}
}

func TestLintShowsTheMemoryOfTables(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "p.yaml", lookupPipeline)
	write(t, dir, "items.csv", items(10000, "x"))
	got := flowd(t, dir, "", "lint", "--show", "p.yaml")
	got.Want(t, 0)
	if !strings.Contains(got.Stdout, "p.yaml:10: 10000 rows, ") || !strings.Contains(got.Stdout, "KiB of memory") {
		t.Errorf("lint --show does not show the memory of the table:\n%s", got.Stdout)
	}
}
