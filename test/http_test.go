package test

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestHTTPExample posts to the server of the example: the answer comes when the
// event is in the file.
func TestHTTPExample(t *testing.T) {
	dir := t.TempDir()
	p := start(t, dir, "-c", filepath.Join(repo, "examples", "http-to-file.yaml"), "-s", "inputs.web.http_server.listen=127.0.0.1:0")
	url := regexp.MustCompile(`http://[^\s"]+`).FindString(p.says("listening on"))
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
	p.signal(syscall.SIGTERM)
	p.wait()
}
