package test

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/flowd-io/flowd/internal/testing/daemon"
)

// TestSeveralPipelinesInOneProcess runs several pipelines in one process. The report on SIGTTIN shows each with its
// own lanes, and health checks fail once one pipeline has failed.
func TestSeveralPipelinesInOneProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	address := freeAddress(t)
	write(t, dir, "groups/fast.yaml", `
service: {listen: "`+address+`", token_file: token}
inputs: {in: {stdin: {}}}
outputs: {out: {stdout: {}}}
engine: {workers: 3}
`)
	write(t, dir, "groups/slow.yaml", `
inputs: {in: {poll: {sources: {a: {weight: 2, generate: {interval: 1h, body: "1"}}, b: {generate: {interval: 1h, body: "2"}}}}}}
outputs: {out: {stdout: {}}}
engine: {workers: 1}
`)
	p := start(t, dir, "-c", "groups")
	p.Send("one\n")
	got := []string{p.Line(), p.Line(), p.Line()} // in any order
	if slices.Sort(got); !slices.Equal(got, []string{"1", "2", "one"}) {
		t.Errorf("stdout %q", got)
	}
	p.Signal(syscall.SIGTTIN)
	p.Says("fast: running, 1 received")
	p.Says("slow: running, 2 received")
	p.Says("slow: lanes: 0 of 1 busy")
	p.Says("fast: lanes: 0 of 3 busy")
	flowd(t, dir, "", "ctl", "live", "--addr", address, "--token-file", "token").Want(t, 0)
	flowd(t, dir, "", "ctl", "ready", "--addr", address, "--token-file", "token").Want(t, 0)

	write(t, dir, "groups/slow.yaml", `
inputs: {in: {file: {path: nothing-is-there.ndjson}}}
outputs: {out: {drop: {}}}
`)
	p.Signal(syscall.SIGHUP)
	p.Says("reloaded")
	p.Says("slow: 2 received: 2 delivered")
	for _, probe := range []string{"live", "ready"} {
		got := flowd(t, dir, "", "ctl", probe, "--addr", address, "--token-file", "token")
		if got.Code != 1 || !strings.Contains(got.Stdout+got.Stderr, "slow") ||
			!strings.Contains(got.Stdout+got.Stderr, "nothing-is-there.ndjson") {
			t.Errorf("%s: code %d\n%s%s", probe, got.Code, got.Stdout, got.Stderr)
		}
	}
	p.Send("two\n") // the other pipeline continues
	if got := p.Line(); got != "two" {
		t.Errorf("stdout %s", got)
	}
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 1)
}

// freeAddress returns an address on which nothing listens, and which no other test gets.
func freeAddress(t *testing.T) string {
	t.Helper()
	ports, err := daemon.Ports(1)
	if err != nil {
		t.Fatal(err)
	}
	return "127.0.0.1:" + ports[0]
}
