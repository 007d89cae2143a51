package http

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/webtest"
)

// make1 makes an output. URL in the component is replaced by the URL of the server.
func make1(t *testing.T, s *webtest.Server, component string) engine.Output {
	t.Helper()
	o := enginetest.New(t, engine.Outputs, strings.ReplaceAll(component, "URL", s.URL))
	if err := o.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.(engine.Closer).Close(context.Background()) })
	return o
}

func write(t *testing.T, o engine.Output, payloads ...string) (failed []*engine.Error) {
	t.Helper()
	b := enginetest.Batch(payloads...)
	if err := o.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for m := range b.Ended() {
		failed = append(failed, m.Err())
	}
	return failed
}

func TestOutput(t *testing.T) {
	s := webtest.Serve(t, nil)
	enginetest.Output(t, func(t *testing.T) engine.Output {
		return enginetest.New(t, engine.Outputs, `{"http": "`+s.URL+`"}`)
	}, "a", "b")
}

func TestAServerThatIsAway(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	var headers map[string]string
	enginetest.Remote{
		Reach: func(t *testing.T, wire *enginetest.Wire) func() engine.Output {
			got = nil
			s := webtest.Serve(t, func(_ http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				got, headers = append(got, strings.TrimPrefix(r.URL.Path, "/")), map[string]string{}
				for name := range r.Header {
					headers[strings.ToLower(name)] = r.Header.Get(name)
				}
			})
			return func() engine.Output {
				return enginetest.New(t, engine.Outputs, `{"http": "`+wire.Over(s.URL)+`/$(raw())"}`)
			}
		},
		Arrived:  func(*testing.T) []string { return got },
		Headers:  func(*testing.T) map[string]string { return headers },
		Payloads: []string{"1", "2", "3", "4", "5"},
	}.Run(t)
}

func TestNoMessageBecomesSeveralLines(t *testing.T) {
	enginetest.Separated(t, "\n", func(t *testing.T, payloads ...string) (string, []*engine.Error) {
		var body []byte
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { body, _ = io.ReadAll(r.Body) }))
		defer server.Close()
		o := enginetest.New(t, engine.Outputs, `{"http": {"url": "`+server.URL+`", "batch": "lines"}}`)
		if err := o.(engine.Opener).Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer o.(engine.Closer).Close(t.Context())
		failed := enginetest.Failures(t, o, payloads...)
		return string(body), failed
	})
}

func TestRequests(t *testing.T) {
	tests := []struct {
		name, component string
		in              []string
		want            []string
	}{
		{"each message is a request", `{"http": "URL/x"}`, []string{`{"a":1}`, "text"},
			[]string{"POST /x application/json: {\"a\":1}", "POST /x application/octet-stream: text"}},
		{"an array is one request", `{"http": {"url": "URL", "batch": "array"}}`, []string{`{"a":1}`, "2"},
			[]string{`POST / application/json: [{"a":1},2]`}},
		{"lines are one request", `{"http": {"url": "URL", "batch": "lines"}}`, []string{`{"a":1}`, "{\n\"b\": 2}"},
			[]string{"POST / application/x-ndjson: {\"a\":1}\n{\"b\":2}\n"}},
		{"one request for each URL", `{"http": {"url": "URL/$(k)", "batch": "array", "method": "PUT"}}`,
			[]string{`{"k":1}`, `{"k":2}`, `{"k":1}`},
			[]string{`PUT /1 application/json: [{"k":1},{"k":1}]`, `PUT /2 application/json: [{"k":2}]`}},
		{"a body and headers of data",
			`{"http": {"url": "URL/?q=$(k)", "body": "'<' + string(k) + '>'", "headers": {"Content-Type": "text/$(t)"}}}`,
			[]string{`{"k":1,"t":"xml"}`},
			[]string{`POST /?q=1 text/xml: <1>`}},
		{"a body of fields is JSON", `{"http": {"url": "URL", "body": "{k: k, of: [raw()]}"}}`,
			[]string{`{"k":1,"t":2}`},
			[]string{`POST / application/json: {"k":1,"of":["{\"k\":1,\"t\":2}"]}`}},
		{"a body of bytes", `{"http": {"url": "URL", "body": "raw()"}}`, []string{"\xff\x00"},
			[]string{"POST / application/octet-stream: \xff\x00"}},
		{"bodies in an array", `{"http": {"url": "URL", "batch": "array", "body": "{k: k}"}}`,
			[]string{`{"k":1,"t":2}`, `{"k":"x"}`}, []string{`POST / application/json: [{"k":1},{"k":"x"}]`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := webtest.Serve(t, nil)
			if failed := write(t, make1(t, s, tt.component), tt.in...); failed != nil {
				t.Error(failed)
			}
			if got := s.Requests(); !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	tests := []struct {
		name, more string
		status     int
		header     string
		class      engine.Class
		delay      time.Duration
		text       string
	}{
		{"created", "", 201, "", "", 0, ""},
		{"a status that is expected", `, "expect": [404]`, 404, "", "", 0, ""},
		{"a success that is not", `, "expect": [202]`, 200, "", engine.Permanent, 0, "200 OK: because"},
		{"credentials refused", "", 401, "", engine.Auth, 0, "401 Unauthorized: because"},
		{"forbidden", "", 403, "", engine.Auth, 0, "403 Forbidden"},
		{"bad request", "", 400, "", engine.Rejected, 0, "400 Bad Request"},
		{"too many", "", 429, "7", engine.Transient, 7 * time.Second, "429 Too Many Requests"},
		{"an absurd Retry-After", "", 503, "99999999999", engine.Transient, time.Hour, "503"},
		{"a Retry-After in the past", "", 503, "Mon, 02 Jan 2006 15:04:05 GMT", engine.Transient, 0, "503"},
		{"broken", "", 500, "", engine.Transient, 0, "500"},
		{"a redirect", "", 307, "", engine.Permanent, 0,
			`307 Temporary Redirect to "http://elsewhere/", which is not followed (write that URL if it is the right one)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := webtest.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if tt.header != "" {
					w.Header().Set("Retry-After", tt.header)
				}
				w.Header().Set("Location", "http://elsewhere/")
				w.WriteHeader(tt.status)
				fmt.Fprint(w, "because\x1b[31m")
			})
			failed := write(t, make1(t, s, `{"http": {"url": "URL/p?secret=x"`+tt.more+`}}`), "a")
			if tt.class == "" {
				if failed != nil {
					t.Error(failed[0])
				}
				return
			}
			if len(failed) != 1 {
				t.Fatal("it did not fail")
			}
			e := failed[0]
			if e.Class != tt.class || e.Delay != tt.delay || !strings.Contains(e.Error(), tt.text) {
				t.Errorf("got %s, %v, %q", e.Class, e.Delay, e)
			}
			if strings.Contains(e.Error(), "secret") || strings.Contains(e.Error(), "\x1b") {
				t.Errorf("the error shows too much: %q", e)
			}
		})
	}
}

func TestMessagesFailSingly(t *testing.T) {
	s := webtest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" {
			w.WriteHeader(422)
		}
	})
	b := enginetest.Batch(`{"k":"good"}`, `{"k":"bad"}`, `{}`, `{"k":"fine"}`)
	err := make1(t, s, `{"http": "URL/$(k)"}`).Write(t.Context(), b)
	if got, want := enginetest.WriteFates(b, err), []string{"safe", "failed", "failed", "safe"}; err != nil ||
		!slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// TestConnectionsAreKept checks that a second write needs no new connections.
func TestConnectionsAreKept(t *testing.T) {
	const parallel = 100
	var made atomic.Int64
	here := make(chan struct{}, parallel)
	s := &webtest.Server{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		here <- struct{}{}
		for len(here) < parallel { // all requests of a write are in flight at once
			runtime.Gosched()
		}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			made.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	o := make1(t, s, fmt.Sprintf(`{"http": {"url": "URL", "parallel": %d}}`, parallel))
	payloads := strings.Split(strings.Repeat("x", parallel), "")
	for range 2 {
		if failed := write(t, o, payloads...); len(failed) > 0 {
			t.Fatal(failed)
		}
		for range parallel {
			<-here
		}
	}
	if n := made.Load(); n != parallel {
		t.Errorf("%d connections were made, want %d", n, parallel)
	}
}

func TestDataDoesNotChangeWhereItGoes(t *testing.T) {
	tests := []struct{ name, url, k string }{
		{"a query of its own", "URL/$(k)", "x?admin=1"},
		{"another parameter", "URL/?q=$(k)", "x&admin=1"},
		{"a fragment that hides the rest", "URL/$(k)/end", "x#"},
		{"out of the folder", "URL/a/$(k)", "../admin"},
		{"out of the folder, encoded", "URL/a/$(k)", "%2e%2e/admin"},
		{"a backslash", "URL/a/$(k)", `..\\admin`},
		{"a line end", "URL/$(k)", `x\r\nHost: evil`},
		{"a NUL", "URL/$(k)", `\u0000`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := webtest.Serve(t, nil)
			failed := write(t, make1(t, s, `{"http": "`+tt.url+`"}`), `{"k":"`+tt.k+`"}`)
			if len(failed) != 1 || failed[0].Class != engine.Rejected {
				t.Errorf("got %v", failed)
			}
			if got := s.Requests(); got != nil {
				t.Errorf("the server got %q", got)
			}
		})
	}
}

func TestMetadataThatStepsSetBecomesHeaders(t *testing.T) {
	var got http.Header
	s := webtest.Serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	o := make1(t, s, `{"http": {"url": "URL/", "headers": {"X-Set": "mine"}}}`)
	b := enginetest.Batch("{}")
	for m := range b.All() {
		m.Meta = engine.Meta{}.With("path", "in.log").Own().
			With("tenant", "t1").With("n", 7).With("note", "two\nlines").
			With("x-set", "theirs").With("content-length", 99).With("authorization", "me").With("no token", 1)
	}
	if err := o.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"Tenant": "t1", "N": "7", "Note": "two lines", "X-Set": "mine",
		"Path": "", "Authorization": "", "Content-Length": "2"} {
		if got.Get(name) != want {
			t.Errorf("header %s: got %q, want %q", name, got.Get(name), want)
		}
	}
}

func TestAHeaderHasNoLineEnds(t *testing.T) {
	s := webtest.Serve(t, nil)
	failed := write(t, make1(t, s, `{"http": {"url": "URL", "headers": {"X-K": "$(k)"}}}`), `{"k":"a\r\nX-Admin: 1"}`)
	if len(failed) != 1 || failed[0].Class != engine.Rejected ||
		failed[0].Error() != "header X-K: the value has control characters" {
		t.Errorf("got %v", failed)
	}
}

func TestConfiguration(t *testing.T) {
	for config, want := range map[string]string{
		`"ftp://x/"`:             "must begin with http:// or https://",
		`"http://$(host)/x"`:     "data must not choose the host",
		`"http://good.$(evil)/"`: "data must not choose the host",
		`"http://h:$(port)/"`:    "data must not choose the host",
		`"http:///x"`:            "has no host",
		`"$(url)"`:               "must begin with http:// or https://",
		`{"url": "http://h", "headers": {"a b": "c"}}`:        "is not a valid header name",
		`{"url": "http://h", "headers": {"host": "c"}}`:       "host is set by the request itself",
		`{"url": "http://h", "batch": "all"}`:                 "must be one of each, array, lines",
		`{"url": "http://h", "auth": {"basic": {"user": 1}}}`: "password",
		`{"url": "http://h", "tls": {"cert": "x"}}`:           "a certificate needs its key",
	} {
		got := strings.Join(enginetest.Problems(t, engine.Outputs, `{"http": `+config+`}`), "\n")
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q in it", config, got, want)
		}
	}
}

func TestCredentials(t *testing.T) {
	for config, want := range map[string]string{
		`{"bearer": "tok"}`:                         "Bearer tok",
		`{"basic": {"user": "u", "password": "p"}}`: "Basic dTpw",
	} {
		var got string
		s := webtest.Serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") })
		write(t, make1(t, s, `{"http": {"url": "URL", "auth": `+config+`}}`), "x")
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAServerThatDoesNotAnswerIsATimeout(t *testing.T) {
	release := make(chan struct{})
	s := webtest.Serve(t, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	b := enginetest.Batch("a")
	_ = make1(t, s, `{"http": "URL"}`).Write(ctx, b)
	for m := range b.Ended() {
		if m.Err().Class != engine.Timeout {
			t.Errorf("got %s: %v", m.Err().Class, m.Err())
		}
	}
}

func TestAServerThatIsNotThere(t *testing.T) {
	s := webtest.Serve(t, nil)
	o := make1(t, s, `{"http": "URL/p"}`)
	s.Close()
	failed := write(t, o, "a")
	if len(failed) != 1 || !strings.HasPrefix(failed[0].Error(), s.URL+"/p: dial tcp") {
		t.Errorf("got %v", failed)
	}
}

func TestAnEndlessAnswerIsCutOff(t *testing.T) {
	s := webtest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	})
	if failed := write(t, make1(t, s, `{"http": "URL"}`), "a"); failed != nil {
		t.Error(failed)
	}
}

func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	path, _ := json.Marshal(ca)
	tests := []struct{ name, tls, want string }{
		{"an unknown authority is refused", `{}`, "certificate signed by unknown authority"},
		{"a given authority is trusted", `{"ca": ` + string(path) + `}`, ""},
		{"the name has to match", `{"ca": ` + string(path) + `, "server_name": "other.org"}`, "other.org"},
		{"no check, by name", `{"skip_verify": true}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			failed := write(t, make1(t, &webtest.Server{Server: s}, `{"http": {"url": "URL", "tls": `+tt.tls+`}}`), "a")
			if tt.want == "" && failed != nil || tt.want != "" &&
				(len(failed) != 1 || !strings.Contains(failed[0].Error(), tt.want)) {
				t.Errorf("got %v, want %q", failed, tt.want)
			}
		})
	}
}

func TestPayloadsOfAllKinds(t *testing.T) {
	var got [][]byte // requests arrive one after another
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, body)
	}))
	defer s.Close()
	o := enginetest.New(t, engine.Outputs, `{"http": "`+s.URL+`"}`)
	enginetest.Carries(t, o, func(*testing.T, int) [][]byte { return got })
}

// A request has room for one trace, so several messages must belong to it.
func TestTheTraceOfARequestWithSeveralMessages(t *testing.T) {
	for _, tt := range []struct {
		name, fields string
		traces       []string
		want         string
	}{
		{"one trace", `"batch": "lines"`, []string{"00-1", "00-1"}, "00-1"},
		{"several traces", `"batch": "lines"`, []string{"00-1", "00-2"}, ""},
		{"some without", `"batch": "array"`, []string{"00-1", ""}, ""},
		{"one message", `"batch": "array"`, []string{"00-1"}, "00-1"},
		{"the configuration", `"batch": "array", "headers": {"Traceparent": "00-3"}`, []string{"00-1"}, "00-3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			s := webtest.Serve(t, func(_ http.ResponseWriter, r *http.Request) { got = append(got, r.Header.Get("Traceparent")) })
			o := make1(t, s, `{"http": {"url": "URL", `+tt.fields+`}}`)
			b, i := enginetest.Batch([]string{"1", "2"}[:len(tt.traces)]...), 0
			for m := range b.All() {
				if tt.traces[i] != "" {
					m.Meta = m.Meta.With("traceparent", tt.traces[i])
				}
				i++
			}
			if err := o.Write(t.Context(), b); err != nil || !slices.Equal(got, []string{tt.want}) {
				t.Errorf("got %q, error %v, want one request with %q", got, err, tt.want)
			}
		})
	}
}
