package test

import (
	"strings"
	"syscall"
	"testing"
)

// TestPush pushes messages into a running flowd, where they meet the input's own steps.
func TestPush(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	address := freeAddress(t)
	write(t, dir, "orders.yaml", `
service: {listen: "`+address+`", token_file: token}
inputs:
  in:
    stdin: {}
    processors: [{filter: n < 3}, {set: {via: 1}}]
outputs: {out: {stdout: {}}}
`)
	p := start(t, dir, "-c", "orders.yaml")
	p.Send(`{"n":0}` + "\n")
	if got := p.Line(); got != `{"n":0,"via":1}` {
		t.Fatalf("stdout %s", got)
	}
	ctl := []string{"--addr", address, "--token-file", "token"}
	push := func(in string, args ...string) result {
		t.Helper()
		return flowd(t, dir, in, append(append([]string{"ctl", "push"}, args...), ctl...)...)
	}
	push("{\"n\":1}\n{\"n\":5}\n", "orders").Want(t, 0, "orders: 2 pushed: 1 delivered, 1 filtered in ")
	if got := p.Line(); got != `{"n":1,"via":1}` {
		t.Errorf("stdout %s", got)
	}
	got := push("nonsense\n{\"n\":2}\n", "orders/in", "--json")
	if want := `{"line":2,"fate":"delivered"}` + "\n"; got.Code != 1 || !strings.HasSuffix(got.Stdout, want) ||
		!strings.HasPrefix(got.Stdout, `{"line":1,"fate":"returned","class":"decode","at":"step filter",`) {
		t.Errorf("code %d\n%s%s", got.Code, got.Stdout, got.Stderr)
	}
	push("a\n", "orders/web").Want(t, 1, `pipeline "orders" has no input "web" (there is in)`)
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0)
}
