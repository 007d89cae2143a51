package test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestAWebhookLearnsWhatBecomesOfPipelines runs pipelines one of which fails. The webhook does not answer its first
// request; the process waits for nothing.
func TestAWebhookLearnsWhatBecomesOfPipelines(t *testing.T) {
	t.Parallel()
	type event struct{ Event, Pipeline, Reason string }
	var mu sync.Mutex
	got := map[event]bool{}
	more := make(chan struct{}, 100)
	first := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e event
		err := json.NewDecoder(r.Body).Decode(&e)
		mu.Lock()
		defer mu.Unlock()
		if first || err != nil {
			first = false
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		got[e] = true
		more <- struct{}{}
	}))
	defer server.Close()
	arrives := func(e event) {
		t.Helper()
		for late := time.After(deadline); ; {
			mu.Lock()
			there := got[e]
			mu.Unlock()
			if there {
				return
			}
			select {
			case <-more:
			case <-late:
				t.Fatalf("no %+v arrived, but %v", e, got)
			}
		}
	}
	dir := t.TempDir()
	write(t, dir, "serve.yaml", `
inputs: {in: {http_server: "127.0.0.1:0"}}
outputs: {out: {stdout: {}}}
service:
  notify: {on: [failed, stopped, ready], http: `+server.URL+`}
`)
	write(t, dir, "fail.yaml", `
inputs: {in: {generate: {count: 1, body: "{a: 1}"}}}
processors: [{fail: no}]
outputs: {out: {stdout: {}}}
engine: {on_failure: {then: stop}}
`)
	p := start(t, dir, "-c", ".")
	arrives(event{Event: "ready", Pipeline: "serve"})
	arrives(event{Event: "failed", Pipeline: "fail", Reason: "no"})
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 1)
	arrives(event{Event: "stopped", Pipeline: "serve"}) // sent before the process has ended
}

// TestAProgramLearnsWhatBecomesOfPipelines runs a program for each event. The process does not end before the last event
// is told.
func TestAProgramLearnsWhatBecomesOfPipelines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	told := filepath.Join(dir, "told")
	if err := syscall.Mkfifo(told, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(told, os.O_RDWR, 0) // a writer, too, so that there is no end between two programs
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if err := pipe.SetReadDeadline(time.Now().Add(deadline)); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "orders.yaml", `
inputs: {in: {http_server: "127.0.0.1:0"}}
outputs: {out: {stdout: {}}}
service:
  notify:
    on: [stopped, ready]
    exec: [sh, -c, 'read -r event; echo "$FLOWD_EVENT $FLOWD_PIPELINE $event" >told']
`)
	p := start(t, dir, "-c", ".")
	lines := bufio.NewScanner(pipe)
	for _, event := range []string{"ready", "stopped"} {
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		if want := event + ` orders {"event":"` + event + `","pipeline":"orders",`; !strings.HasPrefix(lines.Text(), want) {
			t.Errorf("got %s, want %s…", lines.Text(), want)
		}
		if event == "ready" {
			p.Signal(syscall.SIGTERM)
			p.Wait().Want(t, 0)
		}
	}
}
