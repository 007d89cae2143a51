package test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const savedPipeline = `# The pipeline of the shop.
name: orders
inputs:
  web: {generate: {interval: 20ms, body: '{id: counter(), total: counter() % 3, password: "hunter2", name: "a $${ b"}'}}
processors:
  - filter: total > 0   # nothing is free
  - name: price
    http: {url: "URL/price", body: "{id: id}", into: price}
    on_error: ON_ERROR
  - set: {gross: 'total * 2'STAMP}
batchers:
  large: {match: total == 2, output: lake}
  small: {output: pond}
outputs: {lake: {drop: {}}, pond: {drop: {}}}
service: {listen: "127.0.0.1:0", token_file: token}
`

// TestTapSavesATestThatPasses saves messages of a running flowd as a test, which fails once the pipeline changes.
func TestTapSavesATestThatPasses(t *testing.T) {
	for _, c := range []struct{ name, onError, stamp, says, has string }{
		{"as seen", "continue", "", "", "400 Bad Request', class: rejected"},
		{"with the time", "continue", ", at: now()", "the test does not give what was seen", "2000-01-01"},
		{"with failures", "fail", "", "", "takes_back: nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var order map[string]any
				_ = json.NewDecoder(r.Body).Decode(&order)
				id, _ := order["id"].(float64)
				if int(id)%5 == 0 {
					w.WriteHeader(http.StatusBadRequest)
					return
				}
				order = map[string]any{"net": id * 10}
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(order)
			}))
			defer server.Close()
			dir := t.TempDir()
			write(t, dir, "token", managerToken)
			text := strings.NewReplacer("URL", server.URL, "STAMP", c.stamp, "ON_ERROR", c.onError).Replace(savedPipeline)
			file := write(t, dir, "orders.yaml", text)
			p := start(t, dir, "-c", file)
			_, at, _ := strings.Cut(p.Says("admin API listening"), "address=")
			at, _, _ = strings.Cut(at, " ")
			saved := filepath.Join(dir, "test.yaml")
			tap := []string{"--addr", at, "--token-file", filepath.Join(dir, "token"), "--rate", "100", "--limit", "9", "--save", saved}

			out := string(runTap(t, append(tap, "-c", file)))
			if !strings.Contains(out, `added the test "seen on `) || !strings.Contains(out, c.says) {
				t.Errorf("tap says:\n%s", out)
			}
			if differs := strings.Contains(out, "does not give what was seen"); differs != (c.says != "") {
				t.Errorf("differences from what was seen: %t\n%s", differs, out)
			}
			out = string(runTap(t, tap)) // adds another
			server.Close()               // a test does not need it

			now := read(t, saved)
			if !strings.HasPrefix(now, strings.TrimRight(text, "\n")) || strings.Contains(now[len(text):], "hunter2") ||
				!strings.Contains(now, "[redacted]") || !strings.Contains(now, c.has) || strings.Count(now, "name: seen on ") != 2 {
				t.Errorf("%s\nthe file:\n%s", out, now)
			}
			if out, err := exec.Command(binary, "test", saved).CombinedOutput(); err != nil || !strings.Contains(string(out), "2 passed") {
				t.Errorf("flowd test: %v\n%s\n%s", err, out, now)
			}
			write(t, dir, "test.yaml", strings.Replace(now, "total * 2", "total * 3", 1))
			if out, err := exec.Command(binary, "test", saved).CombinedOutput(); err == nil || !strings.Contains(string(out), "gross") {
				t.Errorf("flowd test after a change: %v\n%s", err, out)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, ".*saving*")); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// TestTapRefusesToSaveParts lists what --save can't be combined with.
func TestTapRefusesToSaveParts(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"lake", "--save", "x.yaml"}, "leave out COMPONENT"},
		{[]string{"--failed", "--save", "x.yaml"}, "leave out COMPONENT"},
		{[]string{"--save", "none.yaml"}, "-c FILE"},
		{[]string{"--save", "."}, "is a directory"},
		{[]string{"-c", "x.yaml"}, "only for --save"},
	} {
		out, err := exec.Command(binary, append([]string{"tap"}, c.args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.says) {
			t.Errorf("tap %q: %v\n%s", c.args, err, out)
		}
	}
	if _, err := os.Stat("none.yaml"); err == nil {
		t.Error("a file was made")
	}
}
