package test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestExamplesOfHTTPAreClean lints the examples, and runs their tests with the command in their README.md.
func TestExamplesOfHTTPAreClean(t *testing.T) {
	for _, folder := range []string{"api-polling", "http-enrichment"} {
		flowd(t, repo, "", "lint", example(folder, "pipeline.yaml")).Want(t, 0, "0 errors, 0 warnings")
		readme := blocks(read(t, repo, "examples", folder, "README.md"))
		flowd(t, repo, "", words(t, readme[len(readme)-1].text)...).Want(t, 0, "2 passed, 0 failed")
	}
}

// TestAPIPolling runs the command in the example's README.md with an API like PostgREST's, kills it, and starts it again.
func TestAPIPolling(t *testing.T) {
	var most atomic.Int64
	most.Store(250)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		after, limit := 0, 0
		if _, err := fmt.Sscanf(r.FormValue("id")+" "+r.FormValue("limit"), "gt.%d %d", &after, &limit); err != nil ||
			r.FormValue("order") != "id" || r.URL.Path != "/orders" {
			http.Error(w, r.URL.String(), http.StatusBadRequest)
			return
		}
		var rows []string
		for id := after + 1; id <= min(after+limit, int(most.Load())); id++ {
			rows = append(rows, fmt.Sprintf(`{"id":%d,"customer":%d,"total":%d.25,"state":"new"}`, id, 1+id%7, id))
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		fmt.Fprintf(w, "[%s]", strings.Join(rows, ", \n "))
	}))
	defer api.Close()
	dir := t.TempDir()
	out := filepath.Join(dir, "orders.ndjson")
	for name, value := range map[string]string{"API": api.URL, "INTERVAL": "20ms", "OUT": out,
		"CHECKPOINT": filepath.Join(dir, "orders.checkpoint")} {
		t.Setenv(name, value)
	}
	command := words(t, blocks(read(t, repo, "examples", "api-polling", "README.md"))[1].text)
	has := func(id int) {
		t.Helper()
		want := fmt.Sprintf(`{"id":%d,`, id)
		for late := time.Now().Add(deadline); ; time.Sleep(5 * time.Millisecond) {
			if text, _ := os.ReadFile(out); strings.Contains(string(text), want) {
				return
			}
			if time.Now().After(late) {
				t.Fatalf("order %d has not arrived after %v", id, deadline)
			}
		}
	}
	p := start(t, repo, command...)
	has(250)
	p.Signal(syscall.SIGKILL)
	p.Wait()
	most.Store(251)
	p = start(t, repo, command...)
	has(251)
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0)
	most.Store(252)
	p = start(t, repo, command...)
	has(252)
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0, "1 received: 1 delivered")
	if n := len(slices.Compact(slices.Sorted(slices.Values(lines(read(t, out)))))); n != 252 {
		t.Errorf("%d orders, want 252", n)
	}
}

// TestHTTPEnrichment runs the command in the example's README.md twice, with a server for the example's files.
func TestHTTPEnrichment(t *testing.T) {
	files := http.FileServer(http.Dir(filepath.Join(repo, "examples", "http-enrichment")))
	var mu sync.Mutex // guards asked
	var asked []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.URL.Path)
		again := len(asked) == 1
		mu.Unlock()
		if again {
			http.Error(w, "later", http.StatusServiceUnavailable)
			return
		}
		files.ServeHTTP(w, r)
	}))
	defer api.Close()
	t.Setenv("CUSTOMERS", api.URL)
	t.Setenv("CACHE", filepath.Join(t.TempDir(), "customers.db"))
	t.Setenv("FAILED", filepath.Join(t.TempDir(), "failed.ndjson"))
	readme := blocks(read(t, repo, "examples", "http-enrichment", "README.md"))
	for range 2 {
		got := flowd(t, repo, "", words(t, readme[1].text)...)
		got.Want(t, 0, "6 received: 6 delivered")
		for _, want := range []string{strings.TrimSpace(readme[2].text),
			`{"id": 6, "customer": 3, "total": 1,"who":{"country":null,"name":"unknown"}}`} {
			if !strings.Contains(got.Stdout, want) {
				t.Errorf("got\n%s\nwant %s in it", got.Stdout, want)
			}
		}
	}
	if len(asked) != 4 {
		t.Errorf("the server got %d requests, want one for each of 3 customers and one retry: %q", len(asked), asked)
	}
}
