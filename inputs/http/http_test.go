package http

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/formats/compression"
)

// orders answers with the three orders after the requested one, up to the last.
func orders(last *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		after, _ := strconv.Atoi(r.FormValue("after"))
		var all []string
		for id := after + 1; id <= min(after+3, int(last.Load())); id++ {
			all = append(all, fmt.Sprintf(`{"id":%d}`, id))
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"data": {"orders": [%s]}}`, strings.Join(all, ", "))
	}
}

const (
	afterCursor = "/orders?after=$(cursor() ?? 0)"
	byCursor    = `"items": "data.orders", "cursor": "last(data.orders)?.id", "pages": "cursor"`
)

func ids(from, to int) (all []string) {
	for id := from; id <= to; id++ {
		all = append(all, fmt.Sprintf(`{"id":%d}`, id))
	}
	return all
}

func TestInput(t *testing.T) {
	var last atomic.Int64
	last.Store(7)
	a := serve(t, orders(&last))
	enginetest.Input(t, func(t *testing.T) engine.Input { return made(t, a.url+afterCursor, byCursor) }, ids(1, 7)...)
	enginetest.Input(t, func(t *testing.T) engine.Input {
		return made(t, a.url+afterCursor, byCursor+`, "checkpoint": "`+filepath.Join(t.TempDir(), "c")+`"`)
	}, ids(1, 7)...)
	events := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Last-Event-ID") == "9" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		ticks(3, ends)(w, r)
	})
	enginetest.Input(t, func(t *testing.T) engine.Input { return made(t, events.url, `"stream": "sse"`) }, ids(1, 9)...)
}

func TestConfiguration(t *testing.T) {
	tests := []struct{ config, want string }{
		{`"url": "http://$(cursor())/"`, "data must not choose the host"},
		{`"url": "http://a/", "cursor": "id"`, "no request depends on it"},
		{`"url": "http://a/", "pages": "cursor"`, "the next page is requested with the cursor, and there is none"},
		{`"url": "http://a/", "pages": "link", "next": "next"`, "next already says"},
		{`"url": "http://a/", "stream": "sse", "interval": "1s"`, "a stream has no pages"},
		{`"url": "http://a/", "stream": "ndjson", "checkpoint": "c"`, "there is no cursor to record"},
		{`"url": "http://a/", "items": "x", "framing": "lines"`, "the elements of items are the records"},
		{`"url": "http://a/", "method": "GET", "body": "'x'"`, "few servers read the body"},
		{`"url": "http://a/", "interval": "often"`, "neither a duration nor a cron expression"},
		{`"url": "http://a/", "auth": {"oauth2": {"token_url": "x", "client_id": "i", "client_secret": "s"}}`, "is not an HTTP URL"},
		{`"url": "http://a/", "auth": {"bearer": "x", "oauth2": {"token_url": "http://x", "client_id": "i", "client_secret": "s"}}`, "oauth2"},
		{`"url": "http://a/", "schedule": "1m"`, "write `interval`"},
		{`"url": "http://a/", "body": "header('x')"`, "header"},
	}
	for _, tt := range tests {
		got := strings.Join(enginetest.Problems(t, engine.Inputs, `{"http": {`+tt.config+`}}`), "\n")
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q in it", tt.config, got, tt.want)
		}
	}
}

func TestFramings(t *testing.T) {
	tests := []struct {
		name, kind, body, config string
		want                     []string
	}{
		{"an array", "application/json", `[{"a": 1}, 2, "x"]`, "", []string{`{"a": 1}`, "2", `"x"`}},
		{"documents", "application/x-ndjson", "{\"a\":1}\n{\"a\":2}\n", "", []string{`{"a":1}`, `{"a":2}`}},
		{"one document", "application/json; charset=utf-8", `{"a": 1}`, "", []string{`{"a": 1}`}},
		{"lines", "text/plain", "a\nb", `"framing": "lines"`, []string{"a", "b"}},
		{"rows", "text/csv", "id,name\n1,x\n", `"framing": "csv"`, []string{`{"id":"1","name":"x"}`}},
		{"the whole", "text/html", "<p>hi\n</p>", `"framing": "whole"`, []string{"<p>hi\n</p>"}},
		{"items", "", `{"a": {"b": [{"id": 1}, [2]]}}`, `"items": "a.b"`, []string{`{"id": 1}`, "[2]"}},
		{"items that are computed", "", `{"a": [1, 2, 3]}`, `"items": "filter(a, # > 1)"`, []string{"2", "3"}},
		{"nothing", "application/json", "", `"items": "a"`, nil},
		{"no items", "application/json", `{"a": []}`, `"items": "a"`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.kind)
				_, _ = io.WriteString(w, tt.body)
			})
			got, err := rest(t, opened(t, a.url, tt.config))
			if err != nil {
				t.Fatal(err)
			}
			equal(t, got, tt.want)
		})
	}
}

func TestAnswersThatAreNotWhatWasAskedFor(t *testing.T) {
	html := "<!DOCTYPE html>\n<title>Log in</title>"
	tests := []struct {
		name, config string
		answer       func(w http.ResponseWriter, r *http.Request)
		class        engine.Class // of an input with an interval; without one it is permanent instead, unless it is transient
		words        []string
	}{
		{"a web page", "", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, html)
		}, engine.Decode, []string{"the response, text/html; charset=utf-8, is a web page: <!DOCTYPE html> <title>"}},
		{"a web page that says it is JSON", "", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, html)
		}, engine.Decode, []string{"is not JSON: <!DOCTYPE html>"}},
		{"a web page for lines", `"framing": "lines"`, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, html) // the server detects the content type
		}, engine.Decode, []string{"text/html"}},
		{"no JSON for items", `"items": "a"`, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"a": [1, `)
		}, engine.Decode, []string{"is not one JSON document, which items reads: {\"a\": [1,"}},
		{"another envelope", `"items": "a"`, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"error": "quota"}`)
		}, engine.Decode, []string{"items: is not a list in the response", "quota"}},
		{"not found", "", http.NotFound, engine.Rejected, []string{"404 Not Found"}},
		{"not allowed", "", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "who are you?", http.StatusForbidden)
		}, engine.Auth, []string{"403 Forbidden: who are you?"}},
		{"an outage", "", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "later", http.StatusServiceUnavailable)
		}, engine.Transient, []string{"503 Service Unavailable: later"}},
		{"too long", `"max_body": "10B"`, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `["0123456789"]`)
		}, engine.TooLarge, []string{"longer than max_body, 10B"}},
		{"a bomb", `"max_body": "1MiB"`, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(make([]byte, 8<<20))
			_ = z.Close()
		}, engine.TooLarge, []string{"longer than max_body, 1MiB"}},
		{"a strange coding", "", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			_, _ = io.WriteString(w, "x")
		}, engine.Decode, []string{`content encoding "br" is not supported`}},
		{"less than announced", "", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `[1, 2, 3`)
		}, engine.Transient, []string{"unexpected EOF"}},
		{"cut within a chunk", `"framing": "lines"`, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "one\ntwo\nthr")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, engine.Transient, []string{"unexpected EOF"}},
		{"nothing at all", "", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			engine.Transient, []string{"EOF"}},
		{"an answer that takes too long", `"timeout": "50ms"`, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			engine.Timeout, []string{"deadline"}},
		{"a body that takes too long", `"timeout": "50ms"`, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "[1,")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, engine.Timeout, []string{"deadline"}},
		{"redirects without end", "", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"x", http.StatusFound) },
			engine.Rejected, []string{"302 Found", "is not followed"}},
		{"a redirect elsewhere", "", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere.example/", http.StatusFound)
		}, engine.Rejected, []string{`302 Found to "http://elsewhere.example/", which is not followed`}},
		{"304 that was not asked for", "", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) },
			engine.Rejected, []string{"304"}},
		{"a next page elsewhere", `"next": "next"`, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"next": "https://elsewhere.example/?secret"}`)
		}, engine.Rejected, []string{"the next page is at https://elsewhere.example/, which is not followed"}},
		{"a next page that is none", `"next": "next"`, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"next": {"page": 2}}`)
		}, engine.Decode, []string{`next: is {"page":2}, not the text of a URL`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := serve(t, tt.answer)
			for _, interval := range []string{`"interval": "1ms"`, ""} {
				config := strings.Trim(tt.config+", "+interval, ", ")
				got, err := rest(t, opened(t, a.url, config))
				class := tt.class
				if interval == "" && final(class) {
					class = engine.Permanent
				}
				fails(t, err, class, tt.words...)
				if err == engine.ErrEnd {
					t.Error("the engine would take it for the input's end")
				}
				if len(got) > 0 {
					t.Errorf("messages were made: %q", got)
				}
			}
		})
	}
}

func TestPagesByCursor(t *testing.T) {
	var last atomic.Int64
	last.Store(8)
	a := serve(t, orders(&last))
	path := filepath.Join(t.TempDir(), "c")
	config := byCursor + `, "checkpoint": "` + path + `"`
	in := opened(t, a.url+afterCursor, config)
	got, err := rest(t, in)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, got, ids(1, 8))
	equal(t, a.uris(), []string{"/orders?after=0", "/orders?after=3", "/orders?after=6", "/orders?after=8"})
	closed(t, in)
	last.Store(9)
	if got, err = rest(t, opened(t, a.url+afterCursor, config)); err != nil {
		t.Fatal(err)
	}
	equal(t, got, ids(9, 9))
}

func TestACheckpointIsOfWhatIsSettled(t *testing.T) {
	var last atomic.Int64
	last.Store(8)
	a := serve(t, orders(&last))
	tests := []struct{ settled, first int }{{0, 1}, {2, 1}, {3, 4}, {5, 4}, {6, 7}, {8, 9}}
	for _, tt := range tests {
		config := byCursor + `, "checkpoint": "` + filepath.Join(t.TempDir(), "c") + `"`
		in := opened(t, a.url+afterCursor, config)
		_, refs := next(t, in, 8)
		if _, _, err := read(t, in, 1); err != engine.ErrEnd {
			t.Fatal(err)
		}
		settle(t, in, refs[:tt.settled]...)
		closed(t, in)
		got, err := rest(t, opened(t, a.url+afterCursor, config))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, got, ids(tt.first, 8))
	}
}

func TestAnswersThatHaveNotChanged(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, by := range []string{"ETag", "Last-Modified"} {
		t.Run(by, func(t *testing.T) {
			var version atomic.Int64
			version.Store(1)
			a := serve(t, func(w http.ResponseWriter, r *http.Request) {
				v := version.Load()
				name, tag := "If-None-Match", fmt.Sprintf(`"%d"`, v)
				if by == "Last-Modified" {
					name, tag = "If-Modified-Since", begin.Add(time.Duration(v)*time.Hour).Format(http.TimeFormat)
				}
				w.Header().Set(by, tag)
				if r.Header.Get(name) == tag {
					w.WriteHeader(http.StatusNotModified)
					return
				}
				fmt.Fprintf(w, "[%d]", v)
			})
			config := `"interval": "1ms", "checkpoint": "` + filepath.Join(t.TempDir(), "c") + `"`
			in := opened(t, a.url, config)
			got, _ := next(t, in, 1)
			equal(t, got, []string{"1"})
			waits(t, in, func() bool { return len(a.uris()) > 3 })
			closed(t, in) // version 1 was not settled

			in = opened(t, a.url, config)
			got, refs := next(t, in, 1)
			equal(t, got, []string{"1"})
			settle(t, in, refs...)
			version.Store(2)
			got, refs = next(t, in, 1)
			equal(t, got, []string{"2"})
			settle(t, in, refs...)
			closed(t, in)

			n := len(a.uris())
			in = opened(t, a.url, config)
			waits(t, in, func() bool { return len(a.uris()) > n })
			version.Store(3)
			got, _ = next(t, in, 1)
			equal(t, got, []string{"3"})
		})
	}
}

// waits calls Read, which must return no messages, until a condition holds.
func waits(t *testing.T, in *input, until func() bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		for deadline := time.Now().Add(2 * time.Minute); !until() && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
	}()
	b := engine.NewBatch(10)
	if _, err := in.Read(ctx, b); !errors.Is(err, context.Canceled) || b.Len() > 0 {
		t.Errorf("got %d messages and %v", b.Len(), err)
	}
	if !until() {
		t.Error("waited in vain")
	}
}

func TestAMomentOfTheSameSecondIdentifiesNothing(t *testing.T) {
	in := made(t, "http://a/", "")
	for ago, want := range map[time.Duration]bool{0: false, time.Second: false, 2 * time.Second: true} {
		now := time.Now()
		h := http.Header{"Last-Modified": {now.Add(-ago).UTC().Format(http.TimeFormat)}, "Date": {now.UTC().Format(http.TimeFormat)}}
		if got := in.identity("x", h) != (known{}); got != want {
			t.Errorf("changed %v ago: %v", ago, got)
		}
	}
}

// scripted returns an input whose requests are answered without a network.
func scripted(t *testing.T, more string, answer http.HandlerFunc) *input {
	in := opened(t, "http://a.example/", more)
	in.get = func(ctx context.Context, method, url string, h http.Header, _ []byte, also ...int) (*http.Response, error) {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(ctx, method, url, http.NoBody)
		r.Header = h
		answer(w, r)
		res := w.Result()
		res.Request = r
		if res.StatusCode >= 300 {
			e := engine.Errorf(engine.Transient, "%s", res.Status)
			e.Delay = time.Minute
			return nil, e
		}
		return res, ctx.Err()
	}
	return in
}

func TestIntervals(t *testing.T) {
	tests := []struct {
		name, interval string
		takes          time.Duration // duration of a response
		want           time.Duration // time until the fourth response
	}{
		{"every so often, from the beginning of one poll to that of the next", "10s", time.Second, 31 * time.Second},
		{"what was missed is not made up for", "10s", 15 * time.Second, 60 * time.Second},
		{"by the clock, which starts at midnight", "* * * * *", time.Second, 4*time.Minute + time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := scripted(t, `"interval": "`+tt.interval+`"`, func(w http.ResponseWriter, _ *http.Request) {
					time.Sleep(tt.takes)
					fmt.Fprint(w, "[1]")
				})
				start := time.Now()
				next(t, in, 4)
				if got := time.Since(start); got != tt.want {
					t.Errorf("four answers after %v, want %v", got, tt.want)
				}
				closed(t, in)
			})
		})
	}
}

func TestAServerThatWantsToBeLeftAloneIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		in := scripted(t, `"interval": "1s"`, func(w http.ResponseWriter, _ *http.Request) {
			if n.Add(1) == 1 {
				w.WriteHeader(http.StatusTooManyRequests)
			}
			fmt.Fprint(w, "[1]")
		})
		start := time.Now()
		_, _, err := read(t, in, 1)
		fails(t, err, engine.Transient)
		closed(t, in)
		open(t, in)
		next(t, in, 1)
		if got := time.Since(start); got != time.Minute {
			t.Errorf("asked again after %v, want a minute", got)
		}
		closed(t, in)
	})
}

func TestAReadThatEndsLeavesItsRequestUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		in := scripted(t, "", func(w http.ResponseWriter, _ *http.Request) {
			n.Add(1)
			time.Sleep(10 * time.Second)
			fmt.Fprint(w, "[1]")
		})
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := in.Read(ctx, engine.NewBatch(1)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			cancel()
		}
		next(t, in, 1)
		if n.Load() != 1 {
			t.Errorf("%d requests, want 1", n.Load())
		}
		closed(t, in)
	})
}

func TestWhatIsSent(t *testing.T) {
	var body atomic.Value
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		body.Store(r.Method + " " + r.Header.Get("Content-Type") + " " + string(b))
		w.Header().Set("X-Trace", "7")
		fmt.Fprint(w, "[1]")
	})
	in := opened(t, a.url+"/a?key=secret", `"body": "{after: cursor() ?? 0}", "headers": {"X-A": "b$(cursor() ?? 0)"}, "auth": {"bearer": `+
		`"token"}, "metadata": ["X-Trace", "X-None"]`)
	b := engine.NewBatch(1)
	if _, err := in.Read(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if got := body.Load(); got != `POST application/json {"after":0}` {
		t.Errorf("sent %s", got)
	}
	equal(t, append(a.sent("Authorization"), a.sent("X-A")...), []string{"Bearer token", "b0"})
	for m := range b.All() {
		want := map[string]any{"http_url": a.url + "/a", "http_status": 200, "http_page": 1, "line": 1, "x-trace": "7"}
		if got := m.Meta.Map(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("metadata %v, want %v", got, want)
		}
	}
}

func TestContentEncodings(t *testing.T) {
	for coding, format := range map[string]compression.Format{"gzip": compression.Gzip, "x-gzip": compression.Gzip, "zstd": compression.Zstd} {
		a := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", coding)
			z, err := compression.NewWriter(format, w, 0)
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(z, "[1, 2]")
			_ = z.Close()
		})
		got, err := rest(t, opened(t, a.url, `"headers": {"Accept-Encoding": "gzip, zstd"}`))
		if err != nil {
			t.Errorf("%s: %v", coding, err)
		}
		equal(t, got, []string{"1", "2"})
	}
}

func TestCompressedFiles(t *testing.T) {
	a := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, "[1, 2]")
		_ = z.Close()
	})
	got, err := rest(t, opened(t, a.url+"/a.json.gz", ""))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, got, []string{"1", "2"})
}

// TestConnectionsThatBreak requests the documents after a cursor, as pages and as a stream.
func TestConnectionsThatBreak(t *testing.T) {
	for _, tt := range []struct{ name, fields string }{
		{"pages", `"items": "items", "cursor": "last(items)?.n", "pages": "cursor", "interval": "10ms"`},
		{"a stream", `"stream": "sse", "cursor": "n"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var all *backlog
			enginetest.RemoteInput{
				Reach: func(t *testing.T, wire *enginetest.Wire) string {
					all = &backlog{more: make(chan struct{})}
					s := serve(t, all.answer)
					return fmt.Sprintf(`{"http": {"url": "%s/?after=$(cursor() ?? -1)", %s}}`, wire.Over(s.url), tt.fields)
				},
				Send: func(_ *testing.T, payloads ...string) { all.add(payloads) },
			}.Run(t)
		})
	}
}
