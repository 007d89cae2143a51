package test

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const tappedPipeline = `
name: orders
inputs:
  web: {generate: {interval: 5ms, body: '{id: counter(), total: counter() % 2, password: "hunter2", note: "\u001b[31m\u202e"}'}}
processors:
  - filter: total > 0
  - set: {VERSION: 1}
outputs: {lake: {drop: {}}}
service: {listen: "127.0.0.1:0", token_file: token, history: {id: id}}
`

// TestTapFollowsMessagesAcrossAReload reads live messages of a running flowd, whose pipeline changes meanwhile.
func TestTapFollowsMessagesAcrossAReload(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "token", managerToken)
	file := write(t, dir, "orders.yaml", strings.ReplaceAll(tappedPipeline, "VERSION", "old"))
	p := start(t, dir, "-c", file)
	_, at, _ := strings.Cut(p.Says("admin API listening"), "address=")
	at, _, _ = strings.Cut(at, " ")
	target := []string{"--addr", at, "--token-file", filepath.Join(dir, "token")}

	text := string(runTap(t, append(target, "--limit", "30")))
	for _, want := range []string{"orders: web ", "× step filter  line 6, filtered", "total > 0   (total = 0)", "+ old: 1", "→ output lake",
		"= delivered", "= filtered", `"password":"[redacted]"`, `\u001b[31m\u202e`} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if n := len([]rune(line)); n > 81 || strings.ContainsAny(line, "\x1b\u202e") {
			t.Errorf("a line has %d columns or control characters: %q", n, line)
		}
	}

	shown, err := exec.Command(binary, append([]string{"trace", "5"}, target...)...).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(shown), "orders: web ") || !strings.Contains(string(shown), "step filter  line 6") ||
		!strings.Contains(string(shown), "ed, after ") {
		t.Errorf("%v\n%s", err, shown)
	}
	if shown, err := exec.Command(binary, append([]string{"trace", "none"}, target...)...).CombinedOutput(); err == nil ||
		!strings.Contains(string(shown), "no message with this id among the last ") {
		t.Errorf("%v\n%s", err, shown)
	}

	shown, err = exec.Command(binary, append([]string{"tap", "--pipeline", "order"}, target...)...).CombinedOutput()
	if err == nil || !strings.Contains(string(shown), `no pipeline is called "order" (choose one with --pipeline: orders)`) {
		t.Errorf("%v\n%s", err, shown)
	}

	cmd := exec.Command(binary, append([]string{"tap", "set", "--json", "--rate", "100"}, target...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	lines, seen := bufio.NewScanner(out), ""
	for seen != "new" && lines.Scan() {
		var r struct{ Changes []struct{ Path string } }
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%v in %s", err, lines.Bytes())
		}
		if len(r.Changes) == 0 {
			continue // how many messages were not shown
		}
		if path := r.Changes[0].Path; path != seen {
			seen = path
			write(t, dir, "orders.yaml", strings.ReplaceAll(tappedPipeline, "VERSION", "new"))
			if err := p.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
		}
	}
	if seen != "new" {
		t.Errorf("the tap has ended before it saw the new version: %v", lines.Err())
	}
}

// runTap runs flowd tap to its end.
func runTap(t *testing.T, args []string) []byte {
	t.Helper()
	out, err := exec.Command(binary, append([]string{"tap"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}
