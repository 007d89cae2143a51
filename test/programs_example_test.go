package test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestExamplesOfPrograms lints the examples of programs, and runs their tests.
func TestExamplesOfPrograms(t *testing.T) {
	for folder, language := range map[string]string{"node-input": "node", "python-step": "python", "ruby-worker": "ruby"} {
		t.Run(folder, func(t *testing.T) {
			needsInterpreter(t, language)
			flowd(t, repo, "", "lint", example(folder, "pipeline.yaml")).Want(t, 0, "0 errors, 0 warnings")
			flowd(t, repo, "", "test", example(folder, "pipeline.yaml")).Want(t, 0, "1 passed, 0 failed")
		})
	}
}

// TestNodeInput kills flowd while it follows a feed, and then stops it: no document is missing.
func TestNodeInput(t *testing.T) {
	needsInterpreter(t, "node")
	const page, every = 100, 5 // of the documents are drafts
	var last atomic.Int64
	last.Store(250)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any
		if id, ok := strings.CutPrefix(r.URL.Path, "/documents/"); ok {
			n, _ := strconv.Atoi(id)
			answer = map[string]any{"n": n, "state": map[bool]string{true: "draft"}[n%every == 0]}
		} else {
			type change struct {
				Seq int    `json:"seq"`
				ID  string `json:"id"`
			}
			since, err := strconv.Atoi(r.FormValue("since"))
			if err != nil || r.FormValue("limit") != strconv.Itoa(page) {
				http.Error(w, r.URL.String(), http.StatusBadRequest)
				return
			}
			changes := []change{}
			for n := since + 1; n <= min(since+page, int(last.Load())); n++ {
				changes = append(changes, change{n, strconv.Itoa(n)})
			}
			answer = changes
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer api.Close()
	dir := t.TempDir()
	out := filepath.Join(dir, "documents.ndjson")
	// Tests limit the address space of flowd and its children. Without this option, WebAssembly reserves more, and fetch needs it.
	t.Setenv("NODE_OPTIONS", "--disable-wasm-trap-handler")
	for name, value := range map[string]string{"API": api.URL, "OUT": out, "CHECKPOINT": filepath.Join(dir, "checkpoint")} {
		t.Setenv(name, value)
	}
	command := []string{"-c", example("node-input", "pipeline.yaml"), "-s", "inputs.changes.program.config.interval=0.02"}
	has := func(n int) {
		t.Helper()
		want := fmt.Sprintf(`"n":%d,`, n)
		for late := time.Now().Add(deadline); ; time.Sleep(5 * time.Millisecond) {
			if text, _ := os.ReadFile(out); strings.Contains(string(text), want) {
				return
			}
			if time.Now().After(late) {
				t.Fatalf("document %d has not arrived after %v", n, deadline)
			}
		}
	}
	p := start(t, repo, command...)
	has(249)
	p.Signal(syscall.SIGKILL)
	p.Wait()
	last.Store(498)
	p = start(t, repo, command...)
	has(498)
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0)
	last.Store(499)
	p = start(t, repo, command...)
	has(499)
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0, "1 received: 1 delivered")
	if n := len(slices.Compact(slices.Sorted(slices.Values(lines(read(t, out)))))); n != 400 {
		t.Errorf("%d documents, want 400", n)
	}
}

func TestRubyWorker(t *testing.T) {
	needsInterpreter(t, "ruby")
	dir := t.TempDir()
	t.Setenv("SPOOL", dir)
	t.Setenv("OUT", dir)
	flowd(t, repo, "", "-c", example("ruby-worker", "pipeline.yaml")).Want(t, 0, "2 delivered, 1 dead-lettered",
		"the order has no e-mail address")
	if got := read(t, dir, "1.eml"); !strings.Contains(got, "Thank you, Ada. You pay 12.50 EUR.") {
		t.Error(got)
	}
	if got := read(t, dir, "dead-orders.jsonl"); !strings.Contains(got, `"error_class":"rejected"`) {
		t.Error(got)
	}
}

func TestPythonStep(t *testing.T) {
	needsInterpreter(t, "python")
	t.Setenv("OUT", t.TempDir())
	got := flowd(t, repo, "", "-c", example("python-step", "pipeline.yaml"))
	got.Want(t, 0, "1 dead-lettered", "the review has no text")
	if !strings.Contains(got.Stdout, `"positive":`) {
		t.Error(got.Stdout)
	}
}
