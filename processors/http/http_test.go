package http

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	"github.com/flowd-io/flowd/internal/testing/webtest"
	"go.uber.org/goleak"
)

// opened returns an open step. URL is replaced by the URL of the server. The step is closed when the test ends.
func opened(t *testing.T, s *webtest.Server, config string) engine.Processor {
	t.Helper()
	p := enginetest.New(t, engine.Processors, `{"http": `+strings.ReplaceAll(config, "URL", s.URL)+`}`)
	if err := p.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.(engine.Closer).Close(context.Background()) })
	return p
}

// run processes a batch, and returns its messages in order.
func run(t *testing.T, ctx context.Context, p engine.Processor, payloads ...string) []*engine.Message {
	t.Helper()
	b := enginetest.Batch(payloads...)
	var all []*engine.Message
	for m := range b.All() {
		all = append(all, m)
	}
	if err := p.Process(ctx, b); err != nil {
		t.Fatal(err)
	}
	return all
}

// outcomes returns the payloads, or "CLASS: error" for failed ones.
func outcomes(all []*engine.Message) (got []string) {
	for _, m := range all {
		if e := m.Err(); e != nil {
			got = append(got, string(e.Class)+": "+e.Error())
		} else {
			got = append(got, string(m.Bytes()))
		}
	}
	return got
}

func TestConforms(t *testing.T) {
	s := webtest.Serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"ok":true}`) })
	steptest.Conforms(t, `{"http": {"url": "`+s.URL+`/x", "body": "raw()", "into": "a"}}`, `{"a":1}`, `{}`)
	steptest.Conforms(t, `{"http": {"url": "`+s.URL+`/$(id)", "parallel": 2}}`, `{"id":1}`, `{"id":"x"}`, `{"id":3}`)
}

func TestRequests(t *testing.T) {
	tests := []struct{ name, config, in, want string }{
		{"a GET without a body", `{"url": "URL/x", "into": "a"}`, `{"k":1}`, "GET /x : "},
		{"a POST with one", `{"url": "URL/x", "body": "{id: k}"}`, `{"k":1}`, `POST /x application/json: {"id":1}`},
		{"text as it is", `{"url": "URL/x", "body": "upper(k)"}`, `{"k":"a"}`, `POST /x application/octet-stream: A`},
		{"another method", `{"url": "URL/x", "method": "PUT", "body": "raw()"}`, `[1]`, `PUT /x application/json: [1]`},
		{"a type by name", `{"url": "URL/x", "body": "k", "headers": {"Content-Type": "text/$(t)"}}`,
			`{"k":"<a>","t":"xml"}`, `POST /x text/xml: <a>`},
		{"data in the URL", `{"url": "URL/$(k)?q=$(q)"}`, `{"k":1,"q":"ä b"}`, `GET /1?q=%C3%A4%20b : `},
		{"data of any kind in the URL", `{"url": "URL/$(url_encode(k))?q=$(url_encode(k))"}`, `{"k":"a&b/c?d#e%"}`,
			`GET /a%26b%2Fc%3Fd%23e%25?q=a%26b%2Fc%3Fd%23e%25 : `},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := webtest.Serve(t, nil)
			for _, m := range run(t, t.Context(), opened(t, s, tt.config), tt.in) {
				if m.Err() != nil {
					t.Error(m.Err())
				}
			}
			if got := s.Requests(); len(got) != 1 || got[0] != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAnswersBecomeValues(t *testing.T) {
	tests := []struct{ name, more, kind, answer, want string }{
		{"the payload", "", "application/json", ` {"x": 1} `, ` {"x": 1} `},
		{"the payload, whatever it is", "", "", "\xff\x00", "\xff\x00"},
		{"a document", `, "into": "geo"`, "application/json", ` {"x": 1.0} `, `{"k":1,"geo":{"x": 1.0}}`},
		{"a scalar by its type", `, "into": "geo"`, "application/problem+json; charset=utf-8", `12`,
			`{"k":1,"geo":12}`},
		{"the document", `, "into": "this"`, "application/json", ` {"x": 1.0} `, `{"x": 1.0}`},
		{"text as the document", `, "into": "this"`, "text/plain", "12\n", `"12"`},
		{"a document by its look", `, "into": "geo"`, "text/plain", `[1]`, `{"k":1,"geo":[1]}`},
		{"text", `, "into": "geo"`, "text/plain", "12\n", `{"k":1,"geo":"12"}`},
		{"what only looks like a document", `, "into": "geo"`, "", `{"x": "y`, `{"k":1,"geo":"{\"x\": \"y"}`},
		{"nothing", `, "into": "geo"`, "application/json", ``, `{"k":1,"geo":null}`},
		{"a deep field", `, "into": "a.b"`, "", `x`, `{"k":1,"a":{"b":"x"}}`},
		{"a broken document", `, "into": "geo"`, "application/json", `{"x": `,
			"decode: the answer's content type is JSON, but it is not valid: not a JSON document: unexpected end of document at byte 5"},
		{"bytes", `, "into": "geo"`, "image/png", "\x89PNG\xff",
			"decode: the answer is neither JSON nor text (without `into` it becomes the payload as it is)"},
		{"no place for it", `, "into": "k.x"`, "", `1`, "permanent: k.x: k is a number, not an object"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := webtest.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.kind)
				fmt.Fprint(w, tt.answer)
			})
			got := outcomes(run(t, t.Context(), opened(t, s, `{"url": "URL"`+tt.more+`}`), `{"k":1}`))[0]
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestAFieldNeedsADocument(t *testing.T) {
	s := webtest.Serve(t, nil)
	got := run(t, t.Context(), opened(t, s, `{"url": "URL", "into": "a"}`), `text`)[0]
	if got.Err() == nil || got.Err().Class != "" && got.Err().Class != engine.Decode {
		t.Errorf("got %v", got.Err())
	}
	if s.Requests() != nil {
		t.Error("it was called for nothing")
	}
}

func TestMetadata(t *testing.T) {
	var got http.Header
	s := webtest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		w.Header().Add("Link", "<a>")
		w.Header().Add("Link", "<b>")
		w.WriteHeader(http.StatusCreated)
	})
	p := opened(t, s,
		`{"url": "URL", "metadata": ["LINK", "ETag"], "forward": ["n", "none"], "headers": {"X-Id": "$(id)"}}`)
	b := enginetest.Batch(`{"id":7}`)
	for m := range b.All() {
		m.Meta = engine.Meta{}.With("traceparent", "00-1\r\nX: y").With("n", 5).With("secret", "x")
	}
	if err := p.Process(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for m := range b.All() {
		meta := m.Meta.Map()
		if len(meta) != 5 || meta["http_status"] != 201 || meta["link"] != "<a>, <b>" {
			t.Errorf("metadata %v", meta)
		}
	}
	for name, want := range map[string]string{"Traceparent": "00-1  X: y", "N": "5", "None": "", "Secret": "",
		"X-Id": "7"} {
		if got.Get(name) != want {
			t.Errorf("header %s: got %q, want %q", name, got.Get(name), want)
		}
	}
}

func TestStatuses(t *testing.T) {
	tests := []struct {
		name, more string
		status     int
		header     string
		class      engine.Class
		delay      time.Duration
	}{
		{"created", "", 201, "", "", 0},
		{"what is expected", `, "expect": [200, 404]`, 404, "", "", 0},
		{"a success that is not", `, "expect": [202]`, 200, "", engine.Permanent, 0},
		{"credentials refused", "", 401, "", engine.Auth, 0},
		{"forbidden", "", 403, "", engine.Auth, 0},
		{"bad request", "", 400, "", engine.Rejected, 0},
		{"not found", "", 404, "", engine.Rejected, 0},
		{"a conflict", "", 409, "", engine.Rejected, 0},
		{"gone", "", 410, "", engine.Rejected, 0},
		{"unprocessable", "", 422, "", engine.Rejected, 0},
		{"too slow a client", "", 408, "", engine.Transient, 0},
		{"too many", "", 429, "7", engine.Transient, 7 * time.Second},
		{"an absurd Retry-After", "", 503, "99999999999", engine.Transient, time.Hour},
		{"a Retry-After in the past", "", 503, "Mon, 02 Jan 2006 15:04:05 GMT", engine.Transient, 0},
		{"a Retry-After in the far future", "", 503, "Fri, 02 Jan 2099 15:04:05 GMT", engine.Transient, time.Hour},
		{"a Retry-After that is none", "", 503, "soon", engine.Transient, 0},
		{"broken", "", 500, "", engine.Transient, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := webtest.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", tt.header)
				w.WriteHeader(tt.status)
				fmt.Fprint(w, "because\x1b[31m of tok-tok-tok and key-key-key, pw-in-url")
			})
			p := opened(t, s,
				`{"url": "URL/p?pw=pw-in-url", "headers": {"X-Key": "Key key-key-key"}, "auth": {"bearer": "tok-tok-tok"}`+tt.more+`}`)
			m := run(t, t.Context(), p, `{}`)[0]
			if tt.class == "" {
				if v, _ := m.Meta.Get("http_status"); m.Err() != nil || v != tt.status {
					t.Errorf("got %v, status %v", m.Err(), v)
				}
				return
			}
			want := fmt.Sprintf("%s/p: %d %s: because [31m of *** and ***, ***", s.URL, tt.status,
				http.StatusText(tt.status))
			if e := m.Err(); e == nil || e.Class != tt.class || e.Delay != tt.delay || e.Error() != want {
				t.Errorf("got  %v, %+v\nwant %s %s %v", e, e, tt.class, want, tt.delay)
			}
			if m.Meta.Len() != 0 || string(m.Bytes()) != "{}" {
				t.Error("the message was changed")
			}
		})
	}
}

func TestMessagesFailSingly(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s := webtest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "3") {
			w.WriteHeader(422)
		}
		fmt.Fprint(w, r.URL.Path[1:])
	})
	p := opened(t, s, `{"url": "URL/$(k)", "into": "v", "parallel": 3}`)
	var in, want []string
	for i := range 50 {
		switch i % 10 {
		case 3:
			want = append(want, fmt.Sprintf("rejected: %s/%d: 422 Unprocessable Entity: %d", s.URL, i, i))
			in = append(in, fmt.Sprintf(`{"k":%d}`, i))
		case 5:
			want = append(want, `rejected: url `+s.URL+`/…: data leads out of its folder`)
			in = append(in, `{"k":".."}`)
		default:
			want = append(want, fmt.Sprintf(`{"k":%d,"v":"%d"}`, i, i))
			in = append(in, fmt.Sprintf(`{"k":%d}`, i))
		}
	}
	if got := outcomes(run(t, t.Context(), p, in...)); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	_ = p.(engine.Closer).Close(context.Background())
	s.Close()
}

func TestCallsRunBesideEachOtherUpToABound(t *testing.T) {
	var mu sync.Mutex
	now, most, full := 0, 0, make(chan struct{})
	s := webtest.Serve(t, func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		now++
		if most = max(most, now); now == 4 {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		mu.Unlock()
		<-full // the first four wait for each other
		mu.Lock()
		now--
		mu.Unlock()
	})
	p := opened(t, s, `{"url": "URL", "parallel": 4}`)
	run(t, t.Context(), p, make([]string, 40)...)
	if most != 4 {
		t.Errorf("%d calls at once, want 4", most)
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	var conns atomic.Int32
	s := &webtest.Server{Server: httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		if r.URL.Path == "/bad" {
			w.WriteHeader(500)
		}
		_, _ = w.Write(bytes.Repeat([]byte("x"), 100<<10))
	}))}
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	p := opened(t, s, `{"url": "URL/$(k)", "parallel": 1}`)
	for range 5 {
		run(t, t.Context(), p, `{"k":"good"}`, `{"k":"bad"}`)
	}
	if got := conns.Load(); got != 1 {
		t.Errorf("%d connections, want 1", got)
	}
}

func TestLongAnswers(t *testing.T) {
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"as long as may be", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<10)) }, ""},
		{"one byte more", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<10+1)) },
			"permanent: the answer is longer than max_response, 1KiB (raise it, if answers may be that long)"},
		{"without an end", func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, "permanent: the answer is longer than max_response, 1KiB (raise it, if answers may be that long)"},
		{"a bomb", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(make([]byte, 1<<20))
			_ = z.Close()
		}, "permanent: the answer is longer than max_response, 1KiB (raise it, if answers may be that long)"},
		{"cut off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "x")
		}, "transient: URL: unexpected EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := webtest.Serve(t, tt.answer)
			m := run(t, t.Context(), opened(t, s, `{"url": "URL", "max_response": "1KiB"}`), `{}`)[0]
			got := ""
			if m.Err() != nil {
				got = string(m.Err().Class) + ": " + strings.ReplaceAll(m.Err().Error(), s.URL, "URL")
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRedirects(t *testing.T) {
	var leaked atomic.Bool
	elsewhere := webtest.Serve(t, func(http.ResponseWriter, *http.Request) { leaked.Store(true) })
	tests := []struct {
		name, more, to string
		status         int
		want           string // part of the error; "" is success
	}{
		{"within the server", "", "/end", 302, ""},
		{"to another server", "", elsewhere.URL + "/x?token=t", 302, `permanent: URL/: 302 Found to "` + elsewhere.URL +
			`/x", which is not followed (write that URL if it is the right one)`},
		{"in a circle", "", "/", 302, "permanent: URL/: 302 Found to"},
		{"with another method", `, "body": "1"`, "/end", 302, "permanent: URL/: 302 Found to"},
		{"with the same method", `, "body": "1"`, "/end", 308, ""},
		{"to another scheme", "", "ftp://x/", 302, "permanent: URL/: 302 Found to"},
		{"one that is expected", `, "expect": [302]`, "/end", 302, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := webtest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/" {
					http.Redirect(w, r, tt.to, tt.status)
				}
			})
			m := run(t, t.Context(), opened(t, s, `{"url": "URL/", "auth": {"bearer": "tok"}`+tt.more+`}`), `{}`)[0]
			got := ""
			if m.Err() != nil {
				got = string(m.Err().Class) + ": " + strings.ReplaceAll(m.Err().Error(), s.URL, "URL")
			}
			if got != tt.want && (tt.want == "" || !strings.HasPrefix(got, tt.want)) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if n := len(s.Requests()); n > 7 {
				t.Errorf("%d requests", n)
			}
		})
	}
	if leaked.Load() {
		t.Error("a redirect to another server was followed")
	}
}

func TestTime(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want engine.Class
	}{
		{"a deadline", context.DeadlineExceeded, engine.Timeout},
		{"a stop", context.Canceled, engine.Transient},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			arrived, release := make(chan struct{}, 8), make(chan struct{})
			s := webtest.Serve(t, func(_ http.ResponseWriter, r *http.Request) {
				arrived <- struct{}{}
				select {
				case <-release:
				case <-r.Context().Done():
				}
			})
			p := opened(t, s, `{"url": "URL", "parallel": 2}`)
			ctx := &until{Context: t.Context(), done: make(chan struct{}), err: tt.err}
			got := make(chan []*engine.Message)
			go func() { got <- run(t, ctx, p, "a", "b", "c") }()
			<-arrived
			close(ctx.done)
			for _, m := range <-got {
				if m.Err() == nil || m.Err().Class != tt.want {
					t.Errorf("got %+v", m.Err())
				}
			}
			close(release)
			_ = p.(engine.Closer).Close(context.Background())
			s.Close()
		})
	}
}

// until is a context that the test ends, with an error of its choice.
type until struct {
	context.Context
	done chan struct{}
	err  error
}

func (c *until) Done() <-chan struct{} { return c.done }

func (c *until) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

func TestAServerThatIsNotThere(t *testing.T) {
	s := webtest.Serve(t, nil)
	p := opened(t, s, `{"url": "URL/p?key=secret"}`)
	s.Close()
	e := run(t, t.Context(), p, "a")[0].Err()
	if e == nil || e.Class != engine.Transient || !strings.HasPrefix(e.Error(), s.URL+"/p: dial tcp") {
		t.Errorf("got %v", e)
	}
}

func TestDataDoesNotChangeWhatIsAskedFor(t *testing.T) {
	tests := []struct{ name, config, k, want string }{
		{"a query of its own", `{"url": "URL/$(k)"}`, "x?admin=1", "data contains \"?\""},
		{"another parameter", `{"url": "URL/?key=secret&q=$(k)"}`, "x&admin=1",
			"data contains \"&\", which would change the request (write $(url_encode(…)))"},
		{"a fragment that hides the rest", `{"url": "URL/$(k)/end"}`, "x#", "data contains \"#\""},
		{"out of the folder", `{"url": "URL/a/$(k)"}`, "../admin", "out of its folder"},
		{"out of the folder, encoded", `{"url": "URL/a/$(k)"}`, "%2e%2e/admin", "out of its folder"},
		{"a backslash", `{"url": "URL/a/$(k)"}`, `..\\admin`, "a backslash"},
		{"a line end", `{"url": "URL/$(k)"}`, `x\r\nHost: evil`, "invalid control character in URL"},
		{"an escape that is none", `{"url": "URL/$(k)"}`, `100%`, "invalid URL escape"},
		{"a header of its own", `{"url": "URL", "headers": {"X-K": "$(k)"}}`, `a\r\nX-Admin: 1`,
			"header X-K: the value has control characters"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := webtest.Serve(t, nil)
			e := run(t, t.Context(), opened(t, s, tt.config), `{"k":"`+tt.k+`"}`)[0].Err()
			if e == nil || e.Class != engine.Rejected || !strings.Contains(e.Error(), tt.want) ||
				strings.Contains(e.Error(), "secret") {
				t.Errorf("got %v, want %q", e, tt.want)
			}
			if got := s.Requests(); got != nil {
				t.Errorf("the server got %q", got)
			}
		})
	}
}

func TestConfiguration(t *testing.T) {
	for config, want := range map[string]string{
		`{}`:                  "required",
		`"ftp://x/"`:          "must begin with http:// or https://",
		`"http://$(host)/x"`:  "data must not choose the host",
		`"http://h:$(port)/"`: "data must not choose the host",
		`{"url": "http://h", "headers": {"a b": "c"}}`:                                          "is not a valid header name",
		`{"url": "http://h", "forward": ["content-length"]}`:                                    "can't be sent",
		`{"url": "http://h", "forward": ["x-a"], "headers": {"X-A": "1"}}`:                      "can't be sent",
		`{"url": "http://h", "method": "GETT"}`:                                                 "must be one of GET",
		`{"url": "http://h", "method": "HEAD", "body": "1"}`:                                    "a HEAD request can't have a body",
		`{"url": "http://h", "parallel": 0}`:                                                    "must be at least 1",
		`{"url": "http://h", "timeout": "1s"}`:                                                  "write `timeout` on the step",
		`{"url": "http://h", "auth": {"bearer": "a", "basic": {"user": "u", "password": "p"}}}`: "exclude each other",
	} {
		got := strings.Join(enginetest.Problems(t, engine.Processors, `{"http": `+config+`}`), "\n")
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q in it", config, got, want)
		}
	}
}
