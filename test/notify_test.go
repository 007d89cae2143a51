package test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
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
