package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a process whose snapshots a test gives.
type fake struct {
	mu        sync.Mutex // guards the fields below
	snapshots []engine.Snapshot
	calls     []string
	err       error
	push      func(ctx context.Context, pipeline, input string, b *engine.Batch) ([]*engine.Result, error) // may be nil; set before the start
}

func (f *fake) call(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
	return f.err
}

func (f *fake) Snapshots() []engine.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.snapshots
}

func (f *fake) Pause(p string) error  { return f.call("pause %q", p) }
func (f *fake) Resume(p string) error { return f.call("resume %q", p) }
func (f *fake) Drain(p string) error  { return f.call("drain %q", p) }
func (f *fake) Reload() error         { return f.call("reload") }
func (f *fake) Push(ctx context.Context, pipeline, input string, b *engine.Batch) ([]*engine.Result, error) {
	if f.push == nil {
		return nil, errors.New("the pipeline is starting")
	}
	return f.push(ctx, pipeline, input, b)
}
func (f *fake) SetLimit(p, name string, l Limit) error {
	return f.call("limit %q %q %d/%s burst %d now %t", p, name, l.Messages, l.Per, l.Burst, l.AtOnce)
}

// took empties the list of calls.
func (f *fake) took() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

// twoPipelines share the limit api; each has its own on all inputs.
func twoPipelines() []engine.Snapshot {
	engineLimit := engine.LimitState{Name: "engine", Messages: 10, Per: time.Second}
	api := engine.LimitState{Name: "api", Messages: 5, Per: time.Minute}
	return []engine.Snapshot{
		{Pipeline: "orders", State: engine.Running, Limits: []engine.LimitState{engineLimit, api},
			Inputs: []engine.InputState{{Name: "web",
				Limit: &engine.LimitState{Name: "input web", Messages: 1, Per: time.Second}}}},
		{Pipeline: "audit", State: engine.Running, Limits: []engine.LimitState{engineLimit},
			Outputs: []engine.OutputState{{Name: "lake", Breaker: "closed", Limit: &api}}},
	}
}

const tokenText = "0123456789abcdef0123456789abcdef"

func tokenFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(tokenText+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// serve starts a listener that ends with the test.
func serve(t *testing.T, cfg Config, p Process) *Server {
	t.Helper()
	if cfg.TokenFile == "" {
		cfg.TokenFile = tokenFile(t)
	}
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	s, err := Start(t.Context(), cfg, p, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// plain has no connections that outlive a request.
var plain = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// send makes a request with headers given as pairs; those named Host set the host.
func send(t *testing.T, s *Server, method, path, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Addr()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := plain.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text), res.Header
}

var withToken = []string{"Authorization", "Bearer " + tokenText, "Content-Type", "application/json"}

func with(headers ...string) []string { return append(append([]string{}, withToken...), headers...) }

func TestActionsReachTheProcess(t *testing.T) {
	tests := []struct {
		path, body, call, on string
	}{
		{"pause", `{}`, `pause ""`, "orders audit"},
		{"pause", `{"pipeline": "audit"}`, `pause "audit"`, "audit"},
		{"resume", ` {"pipeline": ""}`, `resume ""`, "orders audit"},
		{"drain", `{"pipeline": "orders"}`, `drain "orders"`, "orders"},
		{"reload", `{}`, `reload`, "orders audit"},
		{"limit", `{"name": "input web", "messages": 500, "per": "1s"}`,
			`limit "orders" "input web" 500/1s burst 0 now false`, "orders input web"},
		{"limit", `{"name": "engine", "pipeline": "audit", "messages": 5, "per": "1m", "burst": 7, "now": true}`,
			`limit "audit" "engine" 5/1m0s burst 7 now true`, "audit engine"},
		{"limit", `{"name": "api", "messages": 5, "per": "1ms"}`, `limit "" "api" 5/1ms burst 0 now false`, "api"},
	}
	p := &fake{snapshots: twoPipelines()}
	s := serve(t, Config{}, p)
	for _, tt := range tests {
		t.Run(tt.path+" "+tt.body, func(t *testing.T) {
			status, body, _ := send(t, s, "POST", "/api/v1/"+tt.path, tt.body, withToken...)
			var got done
			if err := json.Unmarshal([]byte(body), &got); err != nil || status != 200 ||
				strings.Join(got.Done, " ") != tt.on {
				t.Errorf("got %d %s, want 200 for %s", status, body, tt.on)
			}
			if calls := p.took(); len(calls) != 1 || calls[0] != tt.call {
				t.Errorf("called %q, want %q", calls, tt.call)
			}
		})
	}
}

func TestRequestsThatAreRefusedChangeNothing(t *testing.T) {
	tests := []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		why                      string
	}{
		{"no token", "POST", "/api/v1/pause", `{}`, []string{"Content-Type", "application/json"}, 401,
			"the token is missing or wrong"},
		{"no token for the state", "GET", "/api/v1/state", "", nil, 401, "the token is missing or wrong"},
		{"a wrong token", "POST", "/api/v1/pause", `{}`, with("Authorization", "Bearer 1"+tokenText[1:]), 401,
			"the token is missing or wrong"},
		{"a part of the token", "POST", "/api/v1/pause", `{}`, with("Authorization", "Bearer "+tokenText[:31]), 401,
			"the token is missing or wrong"},
		{"an empty token", "POST", "/api/v1/pause", `{}`, with("Authorization", "Bearer "), 401,
			"the token is missing or wrong"},
		{"the token as a password", "POST", "/api/v1/pause", `{}`, with("Authorization", "Basic "+tokenText), 401,
			"the token is missing or wrong"},
		{"the token in the query", "POST", "/api/v1/pause?token=" + tokenText, `{}`,
			[]string{"Content-Type", "application/json"}, 401, "the token is missing or wrong"},

		{"a rebound name", "POST", "/api/v1/pause", `{}`, with("Host", "evil.example"), 421,
			"the Host header names a host"},
		{"a rebound name for metrics", "GET", "/metrics", "", []string{"Host", "evil.example:9600"}, 421,
			"the Host header names a host"},
		{"a name that begins with localhost", "GET", "/live", "", []string{"Host", "localhost.evil.example"}, 421,
			"the Host header names a host"},
		{"an address of the network", "GET", "/live", "", []string{"Host", "192.0.2.1"}, 421,
			"the Host header names a host"},
		{"another site", "POST", "/api/v1/pause", `{}`, with("Origin", "https://evil.example"), 403, "another site"},
		{"no site's page", "POST", "/api/v1/pause", `{}`, with("Origin", "null"), 403, "another site"},
		{"a page of another port", "POST", "/api/v1/pause", `{}`, with("Origin", "http://127.0.0.1:1"), 403,
			"another site"},
		{"another site, by its metadata", "POST", "/api/v1/pause", `{}`, with("Sec-Fetch-Site", "cross-site"), 403,
			"another site"},
		{"another site that asks for health", "GET", "/ready", "", []string{"Origin", "https://evil.example"}, 403,
			"another site"},
		{"a form", "POST", "/api/v1/pause", `{}`, with("Content-Type", "text/plain"), 415, "the body must be JSON"},
		{"no content type", "POST", "/api/v1/pause", `{}`, with("Content-Type", ""), 415, "the body must be JSON"},
		{"a preflight", "OPTIONS", "/api/v1/pause", "", []string{"Access-Control-Request-Method", "POST"}, 405, ""},
		{"a change by GET", "GET", "/api/v1/pause", "", withToken, 405, ""},
		{"a page that there is not", "GET", "/debug/pprof/", "", withToken, 404, ""},
		{"a profile that there is not", "GET", "/debug/pprof/x", "", withToken, 404, "there are profile, trace, heap"},
		{"the command line, which may have secrets", "GET", "/debug/pprof/cmdline", "", withToken, 404, "no profile cmdline"},
		{"a profile that takes too long", "GET", "/debug/pprof/profile?seconds=1000000", "", withToken, 400,
			"is not a whole number from 1 to 300"},
		{"a profile that never began", "GET", "/debug/pprof/trace?seconds=-1", "", withToken, 400, "is not a whole number"},
		{"a profile without the token", "GET", "/debug/pprof/heap", "", nil, 401, "the token is missing"},
		{"a CPU profile without the token", "GET", "/debug/pprof/profile", "", nil, 401, "the token is missing"},

		{"no body", "POST", "/api/v1/pause", "", withToken, 400, "not a JSON object"},
		{"not JSON", "POST", "/api/v1/pause", "pipeline=orders", withToken, 400, "not a JSON object"},
		{"null", "POST", "/api/v1/pause", "null", withToken, 400, "not a JSON object"},
		{"a list", "POST", "/api/v1/pause", `["orders"]`, withToken, 400, "not a JSON object"},
		{"half an object", "POST", "/api/v1/pause", `{"pipeline"`, withToken, 400, "unexpected EOF"},
		{"null does not mean all", "POST", "/api/v1/pause", `{"pipeline": null}`, withToken, 400,
			"must be a string, not null"},
		{"a number for a name", "POST", "/api/v1/pause", `{"pipeline": 1}`, withToken, 400, "must be a string, not 1"},
		{"an object for a name", "POST", "/api/v1/limit", `{"name": {"a": 1}}`, withToken, 400,
			`must be a string, not {\"a\": 1}`},
		{"an unknown field", "POST", "/api/v1/pause", `{"pipelines": "orders"}`, withToken, 400,
			`unknown field \"pipelines\"`},
		{"a field for reload", "POST", "/api/v1/reload", `{"force": true}`, withToken, 400, `unknown field \"force\"`},
		{"two objects", "POST", "/api/v1/pause", `{}{}`, withToken, 400, "something follows the JSON object"},
		{"a huge body", "POST", "/api/v1/pause", `{"pipeline": "` + strings.Repeat("x", maxBody) + `"}`, withToken, 413,
			"larger than 65536 bytes"},
		{"depth", "POST", "/api/v1/pause", `{"pipeline": ` + strings.Repeat("[", 60_000), withToken, 400,
			"the body is not valid"},

		{"an unknown pipeline", "POST", "/api/v1/drain", `{"pipeline": "order"}`, withToken, 404,
			`there is no pipeline \"order\" (there are orders, audit)`},
		{"an unknown limit", "POST", "/api/v1/limit", `{"name": "x", "messages": 1, "per": "1s"}`, withToken, 404,
			`there is no limit \"x\" (there are engine, api, input web)`},
		{"a limit of another pipeline", "POST", "/api/v1/limit",
			`{"name": "input web", "pipeline": "audit", "messages": 1, "per": "1s"}`, withToken, 404,
			`(there are engine, api)`},
		{"a limit that several have", "POST", "/api/v1/limit", `{"name": "engine", "messages": 1, "per": "1s"}`,
			withToken, 409, "several pipelines have a limit"},
		{"no messages", "POST", "/api/v1/limit", `{"name": "api", "per": "1s"}`, withToken, 400,
			"messages: must be at least 1"},
		{"messages as text", "POST", "/api/v1/limit", `{"name": "api", "messages": "1", "per": "1s"}`, withToken, 400,
			"cannot unmarshal string"},
		{"half a message", "POST", "/api/v1/limit", `{"name": "api", "messages": 0.5, "per": "1s"}`, withToken, 400,
			"cannot unmarshal number 0.5"},
		{"too many messages", "POST", "/api/v1/limit", `{"name": "api", "messages": 1e30, "per": "1s"}`, withToken, 400,
			"cannot unmarshal number"},
		{"no time", "POST", "/api/v1/limit", `{"name": "api", "messages": 1}`, withToken, 400, "per: "},
		{"a time without unit", "POST", "/api/v1/limit", `{"name": "api", "messages": 1, "per": "10"}`, withToken, 400,
			`per: \"10\" is not a duration`},
		{"a time that runs backwards", "POST", "/api/v1/limit", `{"name": "api", "messages": 1, "per": "-1s"}`,
			withToken, 400, "per: "},
		{"a negative burst", "POST", "/api/v1/limit", `{"name": "api", "messages": 1, "per": "1s", "burst": -1}`,
			withToken, 400, "burst: "},
	}
	p := &fake{snapshots: twoPipelines()}
	s := serve(t, Config{}, p)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, body, headers := send(t, s, tt.method, tt.path, tt.body, tt.headers...)
			if status != tt.status || !strings.Contains(body, tt.why) {
				t.Errorf("got %d %s, want %d and %q", status, body, tt.status, tt.why)
			}
			if calls := p.took(); calls != nil {
				t.Errorf("the process was asked to %q", calls)
			}
			for name := range headers {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s: %s, want no word to other origins", name, headers.Get(name))
				}
			}
			if strings.Contains(body, tokenText) {
				t.Errorf("the answer shows the token: %s", body)
			}
			if len(body) > 1000 {
				t.Errorf("the answer to %s grows with the request: %d bytes", tt.name, len(body))
			}
		})
	}
}

func TestRequestsOfThisMachineAreTaken(t *testing.T) {
	s := serve(t, Config{}, &fake{snapshots: twoPipelines()})
	for _, headers := range [][]string{
		nil,
		{"Host", "localhost:9600"}, {"Host", "LOCALHOST"}, {"Host", "127.0.0.1"}, {"Host", "[::1]:9600"},
		{"Host", "127.8.0.1:1"},
		{"Origin", "http://" + s.Addr()},
		{"Host", "localhost:8000", "Origin", "http://localhost:8000", "Sec-Fetch-Site", "same-origin"},
		{"Sec-Fetch-Site", "none"},
	} {
		if status, body, _ := send(t, s, "POST", "/api/v1/pause", `{}`, with(headers...)...); status != 200 {
			t.Errorf("%q: got %d %s", headers, status, body)
		}
	}
}

func TestWhatTheProcessCanNotDoIsAnswered(t *testing.T) {
	p := &fake{snapshots: twoPipelines(), err: errors.New(`orders.yaml:3:1: inputs is missing (add it)`)}
	s := serve(t, Config{}, p)
	status, body, _ := send(t, s, "POST", "/api/v1/reload", `{}`, withToken...)
	if status != http.StatusConflict || !strings.Contains(body, "orders.yaml:3:1: inputs is missing (add it)") {
		t.Errorf("got %d %s", status, body)
	}
}

type panicking struct{ fake }

func (*panicking) Reload() error { panic("oops") }

func TestAPanicIsAnsweredAndNothingStaysLocked(t *testing.T) {
	p := &panicking{fake{snapshots: twoPipelines()}}
	s := serve(t, Config{}, p)
	if status, body, _ := send(t, s, "POST", "/api/v1/reload", `{}`, withToken...); status != 500 ||
		!strings.Contains(body, "internal error") || strings.Contains(body, "oops") {
		t.Errorf("got %d %s", status, body)
	}
	if status, body, _ := send(t, s, "POST", "/api/v1/pause", `{}`, withToken...); status != 200 {
		t.Errorf("after it: got %d %s", status, body)
	}
}

func TestChangesAreLogged(t *testing.T) {
	var log bytes.Buffer
	a := &api{process: &fake{snapshots: twoPipelines()}, log: slog.New(slog.NewTextHandler(&log, nil))}
	for body, want := range map[string]string{
		`{"pipeline": "audit"}`:       "admin request completed\" request=pause from=here on=[audit]",
		`{"pipeline": "x\ny=\u001b"}`: `there is no pipeline \"x\\ny=\\x1b\"`,
	} {
		log.Reset()
		r, err := http.NewRequestWithContext(t.Context(), "POST", "/api/v1/pause", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.RemoteAddr = "here"
		a.action("pause", a.pause).ServeHTTP(&discard{http.Header{}}, r)
		if strings.Count(log.String(), "\n") != 1 ||
			!strings.Contains(strings.ReplaceAll(log.String(), `\\\`, `\`), want) {
			t.Errorf("%s: logged %s, want one line with %s", body, &log, want)
		}
	}
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

func TestTheStateIsCompleteAndHasNoNulls(t *testing.T) {
	s := serve(t, Config{}, &fake{snapshots: []engine.Snapshot{{Pipeline: "empty"}, full()}})
	status, body, _ := send(t, s, "GET", "/api/v1/state", "", withToken...)
	var got State
	if err := json.Unmarshal([]byte(body), &got); err != nil || status != 200 || strings.Contains(body, "null") {
		t.Fatalf("got %d, %v: %s", status, err, body)
	}
	want := stateOf([]engine.Snapshot{{Pipeline: "empty"}, full()})
	if want.Memory = got.Memory; got.Memory == 0 { // it changes all the time
		t.Error("the memory of the process is missing")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what was sent differs from what arrived:\n%s", diff)
	}
	p := got.Pipelines[1]
	if diff := cmp.Diff(Counts{Received: 100, Delivered: 80, Filtered: 10, DeadLettered: 3, Dropped: 1, Returned: 1,
		InFlight: 5}, p.Messages); diff != "" {
		t.Errorf("messages:\n%s", diff)
	}
	places := []string{}
	for _, step := range p.Steps {
		places = append(places, step.Place+"/"+step.Name)
	}
	in := []string{"input web/decode", "processors/filter", "processors/filter", "processors/check",
		"batcher archive/compress", "output lake/map"}
	if diff := cmp.Diff(in, places); diff != "" {
		t.Errorf("steps:\n%s", diff)
	}
}

func TestAClosedListenerFreesItsAddress(t *testing.T) {
	cfg := Config{Listen: "127.0.0.1:0", TokenFile: tokenFile(t)}
	s, err := Start(t.Context(), cfg, &fake{}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Listen = s.Addr()
	if _, err = Start(t.Context(), cfg, &fake{}, nil, slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "address already in use (give a free address") {
		t.Errorf("a second listener: got %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	serve(t, cfg, &fake{})
}

func TestTheListenerForScrapersShowsNoData(t *testing.T) {
	p := &fake{snapshots: []engine.Snapshot{full()}}
	s, err := StartMetrics(t.Context(), Config{Listen: "0.0.0.0:0"}, p, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for _, tt := range []struct {
		method, path string
		status       int
		body         string // the whole body, or a part of the metrics
	}{
		{"GET", "/metrics", 200, "\nflowd_messages_received_total{pipeline=\"orders\"} 100\n"},
		{"GET", "/live", 503, "{\"status\":\"fail\"}\n"},
		{"GET", "/ready", 503, "{\"status\":\"fail\"}\n"},
		{"POST", "/metrics", 405, ""},
		{"GET", "/api/v1/state", 404, ""},
		{"POST", "/api/v1/drain", 404, ""},
		{"GET", "/debug/pprof/heap", 404, ""},
	} {
		for _, headers := range [][]string{nil, {"Host", "flowd.monitoring.svc:9601"}, {"Authorization", "Bearer "}} {
			status, body, _ := send(t, s, tt.method, tt.path, "", headers...)
			if status != tt.status || !strings.Contains(body, tt.body) || tt.status == 503 && body != tt.body {
				t.Errorf("%s %s with %q: got %d %s, want %d %s", tt.method, tt.path, headers, status, body, tt.status, tt.body)
			}
			if strings.Contains(body, "secret") {
				t.Errorf("%s shows data: %s", tt.path, body)
			}
		}
	}
	if status, _, _ := send(t, s, "GET", "/metrics", "", "Origin", "https://evil.example"); status != 403 {
		t.Errorf("a page of another site gets %d", status)
	}
	if calls := p.took(); calls != nil {
		t.Errorf("the process was asked to %q", calls)
	}
	_, err = StartMetrics(t.Context(), Config{Listen: s.Addr()}, p, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "service.metrics.listen") ||
		!strings.Contains(err.Error(), "address already in use (give a free address or port)") {
		t.Errorf("a port in use: %v", err)
	}
}
