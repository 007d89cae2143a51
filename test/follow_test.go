package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const followPipeline = `
inputs:
  logs: {file: {path: "logs/*.log", follow: true, checkpoint: state/cp}}
outputs:
  out: {stdout: {}}
`

// TestAKilledFollowerLosesNothing kills flowd several times while lines are appended and files
// are rotated. Together, the processes must deliver each line.
func TestAKilledFollowerLosesNothing(t *testing.T) {
	t.Parallel()
	const lives, each = 6, 4000
	dir := t.TempDir()
	config := write(t, dir, "p.yaml", followPipeline)
	log := filepath.Join(dir, "logs", "a.log")
	write(t, dir, "logs/a.log", "")
	seen, written := map[string]bool{}, 0
	add := func(n int) {
		t.Helper()
		var text strings.Builder
		for range n {
			written++
			fmt.Fprintf(&text, "line %d\n", written)
		}
		appendFile(t, log, text.String())
	}
	for life := range lives {
		p := start(t, dir, "-c", config)
		add(each / 2)
		for range each / 4 { // further lines are in flight
			seen[p.Line()] = true
		}
		if life%2 == 0 {
			if err := os.Rename(log, fmt.Sprintf("%s.%d", log, life)); err != nil {
				t.Fatal(err)
			}
		}
		add(each / 2)
		p.Signal(syscall.SIGKILL)
		for line := range strings.Lines(p.Wait().Stdout) {
			if whole, ok := strings.CutSuffix(line, "\n"); ok { // the last line may be incomplete
				seen[whole] = true
			}
		}
	}
	p := start(t, dir, "-c", config)
	add(1)
	for len(seen) < written {
		seen[p.Line()] = true
	}
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0, "draining")

	got := flowd(t, dir, "", "-c", write(t, dir, "once.yaml", strings.Replace(followPipeline, "follow: true, ", "", 1)))
	if got.Want(t, 0); got.Stdout != "" {
		t.Errorf("all lines had been delivered, but %q was read again", got.Stdout)
	}
}

const checkpointPipeline = `
inputs:
  in: {file: {path: in.ndjson, checkpoint: cp}}
processors:
  - set: {twice: n * 2}
outputs:
  out: {stdout: {}}
`

func TestACheckpointedRunSkipsDeliveredMessages(t *testing.T) {
	dir := t.TempDir()
	config := write(t, dir, "p.yaml", checkpointPipeline)
	write(t, dir, "in.ndjson", `{"n":1}`+"\n")
	if got := flowd(t, dir, "", "-c", config); got.Stdout != `{"n":1,"twice":2}`+"\n" {
		t.Errorf("got %q", got.Stdout)
	}
	input := write(t, dir, "in.ndjson", `{"n":1}`+"\n"+`{"n":"x"}`+"\n"+`{"n":3}`+"\n")
	for range 2 { // a source with a position stops at a failed message, and restarts there
		got := flowd(t, dir, "", "-c", config)
		if got.Want(t, 1, "in.ndjson, line 2", " returned"); strings.Contains(got.Stdout, `"n":1`) ||
			strings.Contains(got.Stdout, "x") {
			t.Errorf("got %q", got.Stdout)
		}
	}
	if err := os.Remove(input); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "in.ndjson", `{"n":5}`+"\n") // another file
	for _, want := range []string{`{"n":5,"twice":10}` + "\n", ""} {
		got := flowd(t, dir, "", "-c", config)
		if got.Want(t, 0); got.Stdout != want {
			t.Errorf("got %q, want %q", got.Stdout, want)
		}
	}
}

func TestABadCheckpointIsRejected(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "in.ndjson", `{"n":1}`+"\n")
	one, two := write(t, dir, "one.yaml", checkpointPipeline), write(t, dir, "two.yaml", checkpointPipeline)
	flowd(t, dir, "", "-c", one, "-c", two).Want(t, 2, "two.yaml:3:44: inputs.in.file.checkpoint: cp is already used at",
		"give each component its own file")
	write(t, dir, "cp", "{")
	got := flowd(t, dir, "", "-c", one)
	if got.Want(t, 1, "checkpoint cp: is damaged or not a checkpoint",
		"restore it, or remove it: its input then reads everything again"); got.Stdout != "" {
		t.Errorf("got %q", got.Stdout)
	}
}

func appendFile(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
