package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// feed is an unreliable API of numbered records. Every few requests it fails: with 502, 429, a login page, a truncated
// response, or an expired token.
type feed struct {
	url    string
	most   atomic.Int64 // how many records exist
	asked  atomic.Int64 // requests for records
	tokens atomic.Int64 // issued tokens
	valid  atomic.Int64 // number of the valid token
}

func newFeed(t *testing.T) *feed {
	t.Helper()
	f := &feed{}
	mux := http.NewServeMux()
	mux.HandleFunc("/token", f.token)
	mux.HandleFunc("/records", f.records)
	mux.HandleFunc("/events", f.events)
	s := httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	f.url = s.URL
	return f
}

func (f *feed) token(w http.ResponseWriter, r *http.Request) {
	if id, secret, _ := r.BasicAuth(); id != "flowd" || secret != "sesame-sesame" {
		http.Error(w, `{"error": "invalid_client"}`, http.StatusUnauthorized)
		return
	}
	n := f.tokens.Add(1)
	f.valid.Store(n)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"access_token": "token-of-the-feed-%d", "token_type": "Bearer", "expires_in": 3600}`, n)
}

func (f *feed) records(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != fmt.Sprintf("Bearer token-of-the-feed-%d", f.valid.Load()) {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	after, _ := strconv.Atoi(r.FormValue("after"))
	var all []string
	for id := after + 1; id <= min(after+100, int(f.most.Load())); id++ {
		all = append(all, fmt.Sprintf(`{"id": %d, "half": %d}`, id, id/2))
	}
	body := fmt.Sprintf(`{"records": [%s]}`, strings.Join(all, ", "))
	switch f.asked.Add(1) % 12 {
	case 3:
		http.Error(w, "down", http.StatusBadGateway)
	case 5:
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write([]byte(body[:len(body)/2]))
		panic(http.ErrAbortHandler)
	case 7:
		w.Header().Set("Retry-After", "0")
		http.Error(w, "slowly", http.StatusTooManyRequests)
	case 9:
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html>Log in")
	case 11:
		f.valid.Add(1000)
		panic(http.ErrAbortHandler)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(body))
	}
}

// events sends up to 700 events after Last-Event-ID, and then breaks the connection in the middle of one.
func (f *feed) events(w http.ResponseWriter, r *http.Request) {
	last, _ := strconv.Atoi(r.Header.Get("Last-Event-ID"))
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, "retry: 100\n\n")
	for id := last + 1; id <= min(last+700, int(f.most.Load())); id++ {
		fmt.Fprintf(w, "id: %d\ndata: {\"id\": %d, \"half\": %d}\n\n", id, id, id/2)
	}
	fmt.Fprint(w, "id: 9999999\ndata: {\"id\"")
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// countRecords returns the largest n for which a file has all records from 1 to n. Invalid records fail the test.
func countRecords(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	seen := map[int]bool{}
	for line := range strings.Lines(string(text)) {
		var r struct{ ID, Half int }
		if !strings.HasSuffix(line, "\n") {
			break // the line is still being written
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.ID == 0 || r.Half != r.ID/2 {
			t.Fatalf("invalid record %q (error %v)", line, err)
		}
		seen[r.ID] = true
	}
	for id := 1; ; id++ {
		if !seen[id] {
			return id - 1
		}
	}
}

// An input that polls an API, or reads its event stream, is killed several times. In the end, each record has arrived.
func TestAKilledHTTPInputLosesNothing(t *testing.T) {
	const lives = 3
	inputs := map[string]struct {
		config  string
		records int
	}{
		"poll": {`url: "URL/records?after=$(cursor() ?? 0)"
      auth: {oauth2: {token_url: "URL/token", client_id: flowd, client_secret: sesame-sesame}}
      items: records
      cursor: last(records)?.id
      pages: cursor
      interval: 20ms`, 6_000},
		"sse": {"url: URL/events\n      stream: sse", 6_000},
	}
	for name, in := range inputs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFeed(t)
			dir := t.TempDir()
			config := write(t, dir, "p.yaml", `
inputs:
  in:
    http:
      `+strings.ReplaceAll(in.config, "URL", f.url)+`
      checkpoint: cp
processors:
  - sleep: 1ms
outputs:
  out: {file: {path: out.ndjson, append: true}}
engine: {restart: {backoff: 5ms, max_backoff: 20ms}}
`)
			out := filepath.Join(dir, "out.ndjson")
			reaches := func(n int) {
				t.Helper()
				for late := time.Now().Add(deadline); countRecords(t, out) < n; time.Sleep(5 * time.Millisecond) {
					if time.Now().After(late) {
						t.Fatalf("%d records after %v, want %d", countRecords(t, out), deadline, n)
					}
				}
			}
			for life := range lives {
				f.most.Store(int64((life + 1) * in.records / (lives + 1)))
				p := start(t, dir, "-c", config)
				reaches(int(f.most.Load()) * 9 / 10)
				p.Signal(syscall.SIGKILL)
				p.Wait()
			}
			f.most.Store(int64(in.records))
			p := start(t, dir, "-c", config)
			reaches(in.records)
			p.Signal(syscall.SIGTERM)
			got := p.Wait()
			got.Want(t, 0, "draining")
			if strings.Contains(got.Stderr, "token-of-the-feed") || strings.Contains(got.Stderr, "sesame-sesame") {
				t.Errorf("the log contains a secret:\n%s", got.Stderr)
			}
			lines := strings.Count(read(t, out), "\n")
			if most := in.records * 2; lines > most {
				t.Errorf("%d lines for %d records: the checkpoint is not used", lines, in.records)
			}
			if name == "poll" && f.tokens.Load() <= lives {
				t.Errorf("%d tokens were issued: none was renewed", f.tokens.Load())
			}
		})
	}
}

// A step and an output need tokens. The token server is down at first, and a token is rejected before it expires.
func TestOAuthTokensAreRenewed(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	var down, calls atomic.Int64
	var got sync.Map
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch {
		case r.URL.Path == "/token" && down.Add(1) <= 3:
			http.Error(w, "later", http.StatusServiceUnavailable)
		case r.URL.Path == "/token":
			f.token(w, r)
		case token == "token-of-the-feed-1" && calls.Add(1) > 5 || !strings.HasPrefix(token, "token-of-the-feed-"):
			http.Error(w, "not "+token, http.StatusUnauthorized)
		case r.URL.Path == "/name":
			fmt.Fprintf(w, `{"name": "n%s"}`, r.FormValue("id"))
		default:
			body, _ := io.ReadAll(r.Body)
			got.Store(string(body), true)
		}
	}))
	defer api.Close()
	dir := t.TempDir()
	config := write(t, dir, "p.yaml", strings.ReplaceAll(`
inputs: {in: {stdin: {}}}
processors:
  - http:
      url: "URL/name?id=$(id)"
      into: who
      auth: &auth {oauth2: {token_url: "URL/token", client_id: flowd, client_secret: sesame-sesame, send_as: header}}
    retry: {intervals: [10ms], max_attempts: 100}
outputs:
  out: {http: {url: "URL/out", auth: *auth}, retry: {intervals: [10ms]}}
`, "URL", api.URL))
	var in strings.Builder
	for id := range 20 {
		fmt.Fprintf(&in, "{\"id\": %d}\n", id)
	}
	r := flowd(t, dir, in.String(), "-c", config)
	r.Want(t, 0, "20 received: 20 delivered")
	for id := range 20 {
		want := fmt.Sprintf(`{"id": %d,"who":{"name": "n%d"}}`, id, id)
		if _, arrived := got.Load(want); !arrived {
			t.Errorf("%s has not arrived", want)
		}
	}
	if strings.Contains(r.Stderr, "token-of-the-feed") || strings.Contains(r.Stderr, "sesame") {
		t.Errorf("the log contains a secret:\n%s", r.Stderr)
	}
}
