package test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestHTTPExample posts to the example's server. The response arrives once the event is in the
// file.
func TestHTTPExample(t *testing.T) {
	dir := t.TempDir()
	p := start(t, dir, "-c", filepath.Join(repo, "examples", "http-to-file.yaml"), "-s",
		"inputs.web.http_server.listen=127.0.0.1:0")
	url := regexp.MustCompile(`http://[^\s"]+`).FindString(p.Says("listening on"))
	for _, tt := range []struct {
		body   string
		status int
	}{
		{`{"kind": "click", "page": "/cart"}`, http.StatusOK},
		{"not json", http.StatusBadRequest},
	} {
		answer, err := http.Post(url, "application/json", strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != tt.status {
			t.Errorf("%s: %s, want %d", tt.body, answer.Status, tt.status)
		}
	}

	files, err := filepath.Glob(filepath.Join(dir, "events", "*.ndjson"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, want one", files)
	}
	if got, want := read(t, files[0]), `{"kind": "click", "page": "/cart","at":"`; !strings.HasPrefix(got, want) {
		t.Errorf("file has %q, want it to begin with %q", got, want)
	}
	p.Signal(syscall.SIGTERM)
	p.Wait()
}

// TestWebhooksExample signs requests as the comment in the example says.
func TestWebhooksExample(t *testing.T) {
	t.Setenv("GITHUB_SECRET", "It's a Secret to Everybody")
	dir := t.TempDir()
	p := start(t, dir, "-c", filepath.Join(repo, "examples", "webhooks.yaml"), "-s",
		"inputs.github.http_server.listen=127.0.0.1:0")
	url := regexp.MustCompile(`http://[^\s"]+`).FindString(p.Says("listening on"))
	const sum = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17" // from GitHub's documentation
	for _, tt := range []struct {
		body, sum string
		status    int
	}{
		{"Hello, World!", sum, http.StatusOK},
		{"Hello, World!", sum, http.StatusOK}, // a repeated delivery
		{"Hello, world!", sum, http.StatusUnauthorized},
		{"Hello, World!", sum[1:], http.StatusUnauthorized},
	} {
		req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Hub-Signature-256", "sha256="+tt.sum)
		req.Header.Set("X-Github-Delivery", "1")
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != tt.status {
			t.Errorf("%s: %s, want %d", tt.body, answer.Status, tt.status)
		}
	}
	p.Signal(syscall.SIGTERM)
	p.Wait()
	if got := read(t, dir, "github.ndjson"); got != "Hello, World!\n" {
		t.Errorf("file has %q", got)
	}
}

// TestAnHTTPOutputRetries writes to a server that fails two requests, and that always rejects
// one of the messages.
func TestAnHTTPOutputRetries(t *testing.T) {
	var mu sync.Mutex
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		got = append(got, string(body))
		switch {
		case string(body) == "bad":
			w.WriteHeader(http.StatusUnprocessableEntity)
		case len(got) <= 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	config := write(t, dir, "p.yaml", `
inputs: {in: {stdin: {}}}
outputs:
  out: {http: "`+server.URL+`", retry: {intervals: [1ms]}}
  dead: {stdout: {}, processors: [{map: 'raw() + " " + meta("error_class") + " " + string(meta("error_attempt"))'}]}
engine: {on_failure: {dead_letter: dead}}
`)
	r := flowd(t, dir, "good\n", "-c", config)
	r.Want(t, 0, "p: 1 received: 1 delivered in ")
	if want := []string{"good", "good", "good"}; !slices.Equal(got, want) {
		t.Errorf("the server got %q, want %q", got, want)
	}
	r = flowd(t, dir, "bad\ngood\n", "-c", config)
	r.Want(t, 0, "p: 2 received: 1 delivered, 1 dead-lettered in ")
	if want := "\"bad rejected 1\"\n"; r.Stdout != want {
		t.Errorf("dead letters %q, want %q", r.Stdout, want)
	}
}
