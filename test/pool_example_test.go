package test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// poolAddress is the address of the hub in the documentation of examples/pool.
const poolAddress = "127.0.0.1:5019"

// suspicious is one of 26 lines that examples/pool prints.
const suspicious = `{"client":"198.51.100.201","method":"GET","path":"/search?q=%22","status":500,"score":15}`

// TestPoolExampleIsClean lints the example and runs its tests.
func TestPoolExampleIsClean(t *testing.T) {
	file := filepath.Join("examples", "pool", "pipeline.yaml")
	got := flowd(t, repo, "", "lint", file)
	got.Want(t, 0, "0 errors, 0 warnings")
	if got.Stdout != "" {
		t.Error(got.Stdout)
	}
	flowd(t, repo, "", "test", file).Want(t, 0, " 0 failed")
}

// TestPoolExampleOnTwoTerminals runs the commands in the example's README.md, for one machine
// and for several.
func TestPoolExampleOnTwoTerminals(t *testing.T) {
	text := read(t, repo, "examples", "pool", "README.md")
	readme := blocks(text)
	if len(readme) != 6 {
		t.Fatalf("README.md has %d blocks, want 6", len(readme))
	}
	t.Run("one machine", func(t *testing.T) {
		t.Setenv("FLOWD_TOKEN", "")
		runPool(t, "127.0.0.1:0", words(t, readme[0].text), words(t, readme[1].text), words(t, readme[2].text))
	})
	t.Run("several machines", func(t *testing.T) {
		t.Setenv("FLOWD_TOKEN", strings.Repeat("f", 64))
		_, hub, _ := strings.Cut(readme[3].text, "0.0.0.0:5019 ")
		runPool(t, "0.0.0.0:0", words(t, hub), words(t, readme[4].text), words(t, readme[2].text))
	})
	t.Run("a worker with another token is refused", func(t *testing.T) {
		t.Setenv("FLOWD_TOKEN", strings.Repeat("f", 64))
		t.Setenv("POOL_LISTEN", "127.0.0.1:0")
		hub := start(t, repo, words(t, readme[0].text)...)
		at := joinedAt(hub)
		t.Setenv("FLOWD_TOKEN", "wrong")
		flowd(t, repo, "", at(words(t, readme[1].text))...).Want(t, 1, "refuses this worker", "FLOWD_TOKEN")
		hub.Signal(syscall.SIGTERM)
		hub.Says("draining")
		hub.Signal(syscall.SIGTERM) // no worker finishes its jobs
		hub.Wait()
	})
}

// TestPoolExampleInContainers runs the commands of the containers, with the environment in
// compose.yaml.
func TestPoolExampleInContainers(t *testing.T) {
	type service struct {
		Build       struct{ Context, Dockerfile string }
		Command     []string
		Environment map[string]string
	}
	var compose struct {
		Services map[string]service
	}
	pipeline := "inputs: {in: {file: {path: examples/pool/compose.yaml, framing: whole}}}\nprocessors: [{decode: yaml}]\noutputs: {out: " +
		"{stdout: {}}}\n"
	got := flowd(t, repo, "", "-c", write(t, t.TempDir(), "compose.yaml", pipeline))
	got.Want(t, 0)
	if err := json.Unmarshal([]byte(got.Stdout), &compose); err != nil {
		t.Fatalf("%v: %s", err, got.Stdout)
	}
	hub, worker := compose.Services["hub"], compose.Services["worker"]
	for name, s := range compose.Services {
		root := filepath.Join(repo, "examples", "pool", s.Build.Context)
		if root != repo {
			t.Errorf("%s is built in %s, want the repository", name, s.Build.Context)
		}
		read(t, root, s.Build.Dockerfile)
		if !strings.HasPrefix(s.Environment["FLOWD_TOKEN"], "${FLOWD_TOKEN:?") {
			t.Errorf("%s has the token %q, want a required variable", name, s.Environment["FLOWD_TOKEN"])
		}
	}
	if got := hub.Environment["POOL_LISTEN"]; got != "0.0.0.0:5019" {
		t.Errorf("the hub listens on %q, want port 5019 of all addresses", got)
	}
	t.Setenv("FLOWD_TOKEN", strings.Repeat("f", 64))
	runPool(t, "0.0.0.0:0", hub.Command, worker.Command, []string{"pool", "ls", "--join", poolAddress})
}

// runPool starts a hub that listens on an address, runs ls, and starts a worker. The hub ends
// with its input, and the worker with SIGTERM.
func runPool(t *testing.T, listen string, hubArgs, workerArgs, ls []string) {
	t.Helper()
	t.Setenv("POOL_LISTEN", listen)
	hub := start(t, repo, hubArgs...)
	at := joinedAt(hub)
	list := flowd(t, repo, "", at(ls)...)
	list.Want(t, 0)
	if !strings.HasPrefix(list.Stdout, "score of pipeline at ") || !strings.HasSuffix(list.Stdout, "\n  no workers\n") {
		t.Errorf("pool ls prints\n%s", list.Stdout)
	}
	worker := start(t, repo, at(workerArgs)...)
	hub.Says("a worker has joined the pool")
	got := hub.Wait()
	got.Want(t, 0, "200 received: 26 delivered, 171 filtered, 3 dead-lettered")
	if lines := lines(got.Stdout); len(lines) != 26 || !slices.Contains(lines, suspicious) {
		t.Errorf("%d lines, want 26 including %s\n%s", len(lines), suspicious, got.Stdout)
	}
	worker.Signal(syscall.SIGTERM)
	worker.Wait().Want(t, 0)
}

var hubPort = regexp.MustCompile(`workers may join.* addr=\S+:(\d+) `)

// joinedAt waits until a hub listens. The returned function replaces the documented address
// in arguments with the hub's.
func joinedAt(hub *process) func(args []string) []string {
	hub.T.Helper()
	line := hub.Says("workers may join")
	m := hubPort.FindStringSubmatch(line)
	if m == nil {
		hub.T.Fatalf("%s has no port", line)
	}
	return func(args []string) []string {
		args = slices.Clone(args)
		for i := range args {
			if strings.HasSuffix(args[i], ":5019") {
				args[i] = "127.0.0.1:" + m[1]
			}
		}
		return args
	}
}

// words returns the arguments of a flowd command.
func words(t *testing.T, text string) []string {
	t.Helper()
	all := strings.Fields(text)
	if len(all) < 2 || all[0] != "flowd" {
		t.Fatalf("%q is not a flowd command", text)
	}
	return all[1:]
}
