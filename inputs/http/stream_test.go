package http

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
)

func parsed(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// ticks sends n events after the last event that the client has.
func ticks(n int, end func(w http.ResponseWriter, r *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		last, _ := strconv.Atoi(r.Header.Get("Last-Event-ID"))
		fmt.Fprint(w, "retry: 1\n\n")
		for i := last + 1; i <= last+n; i++ {
			fmt.Fprintf(w, "id: %d\ndata: {\"id\":%d}\n\n", i, i)
		}
		fmt.Fprintf(w, "id: %d\ndata: {\"id\":", last+n+1) // an incomplete event
		_ = http.NewResponseController(w).Flush()
		end(w, r)
	}
}

func ends(http.ResponseWriter, *http.Request) {}

func breaks(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func stays(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func TestAStreamIsOpenedAgainAfterTheLastEvent(t *testing.T) {
	for name, end := range map[string]func(http.ResponseWriter, *http.Request){"it ends": ends, "it is cut off": breaks} {
		t.Run(name, func(t *testing.T) {
			a := serve(t, ticks(3, end))
			got, _ := next(t, opened(t, a.url, `"stream": "sse"`), 7)
			equal(t, got, ids(1, 7))
			equal(t, a.sent("Last-Event-ID")[:3], []string{"", "3", "6"})
		})
	}
}

func TestAStreamResumesAfterWhatIsSettled(t *testing.T) {
	a := serve(t, ticks(5, stays))
	config := `"stream": "sse", "checkpoint": "` + filepath.Join(t.TempDir(), "c") + `"`
	first := 1
	for _, settled := range []int{0, 2, 5, 1} {
		in := opened(t, a.url, config)
		got, refs := next(t, in, 5)
		equal(t, got, ids(first, first+4))
		settle(t, in, refs[:settled]...)
		closed(t, in)
		first += settled
	}
}

// lines sends n lines after the requested one.
func lines(n int, end func(w http.ResponseWriter, r *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		after, _ := strconv.Atoi(r.FormValue("after"))
		for i := after + 1; i <= after+n; i++ {
			fmt.Fprintf(w, "{\"id\":%d}\n\n", i)
		}
		fmt.Fprint(w, `1`) // possibly the beginning of 12
		_ = http.NewResponseController(w).Flush()
		end(w, r)
	}
}

func TestAStreamOfLines(t *testing.T) {
	for name, end := range map[string]func(http.ResponseWriter, *http.Request){"it ends": ends, "it is cut off": breaks} {
		t.Run(name, func(t *testing.T) {
			synced := atomic.Int64{}
			a := serve(t, func(w http.ResponseWriter, r *http.Request) {
				synced.Add(1)
				lines(3, end)(w, r)
			})
			config := `"stream": "ndjson", "cursor": "id", "checkpoint": "` + filepath.Join(t.TempDir(), "c") + `"`
			in := opened(t, a.url+"/?after=$(cursor() ?? 0)", config)
			got, refs := next(t, in, 3)
			equal(t, got, ids(1, 3))
			settle(t, in, refs[:2]...)
			closed(t, in)
			in = opened(t, a.url+"/?after=$(cursor() ?? 0)", config)
			got, _ = next(t, in, 3)
			equal(t, got, ids(3, 5))
			equal(t, a.uris(), []string{"/?after=0", "/?after=2"})
		})
	}
}

func TestATruncatedLineIsNotAMessage(t *testing.T) {
	for name, end := range map[string]func(http.ResponseWriter, *http.Request){"it ends": ends, "it is cut off": breaks} {
		t.Run(name, func(t *testing.T) {
			a := serve(t, lines(1, end))
			in := opened(t, a.url+"/?after=$(cursor() ?? 0)", `"stream": "ndjson", "cursor": "id"`)
			b := engine.NewBatch(10)
			for b.Len() < 2 {
				if _, err := in.Read(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				in.until = time.Time{} // skip the pause
			}
			var got []string
			for m := range b.All() {
				got = append(got, string(m.Bytes()))
			}
			equal(t, got, ids(1, 2))
		})
	}
}

func TestLinesThatAreNotJSONFail(t *testing.T) {
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "oops\n{\"id\": 1}\n{\"x\": 1}\n")
		_ = http.NewResponseController(w).Flush()
		stays(w, r)
	})
	in := opened(t, a.url+"/?after=$(cursor() ?? 0)", `"stream": "ndjson", "cursor": "id + 0"`)
	b := engine.NewBatch(10)
	for b.Len() < 3 {
		if _, err := in.Read(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	var classes []string
	for m := range b.All() {
		classes = append(classes, string(m.Bytes()))
	}
	equal(t, classes, []string{`{"id": 1}`})
	if string(in.at) != "1" {
		t.Errorf("cursor %s, want 1", in.at)
	}
}

func TestStreamsThatAreNone(t *testing.T) {
	tests := []struct {
		name, stream string
		answer       http.HandlerFunc
		class        engine.Class
		word         string
	}{
		{"a web page", "ndjson", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>hi") }, engine.Decode,
			"is a web page: <html>hi"},
		{"a document", "sse", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }, engine.Decode,
			"text/plain; charset=utf-8, is not a stream of events"},
		{"a refusal", "sse", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) }, engine.Auth,
			"401 Unauthorized: no"},
		{"an outage", "sse", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadGateway) }, engine.Transient,
			"502 Bad Gateway"},
		{"no answer", "sse", stays, engine.Timeout, "no response within timeout"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := serve(t, tt.answer)
			_, _, err := read(t, opened(t, a.url, `"timeout": "100ms", "stream": "`+tt.stream+`"`), 1)
			fails(t, err, tt.class, tt.word)
		})
	}
}

func TestAStreamThatWillGiveNothingEndsTheInput(t *testing.T) {
	a := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	in := opened(t, a.url, `"stream": "sse"`)
	for range 2 {
		if _, _, err := read(t, in, 1); err != engine.ErrEnd {
			t.Fatalf("got %v", err)
		}
	}
	if n := len(a.uris()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

func TestAStreamThatIsQuietForLongIsOpenedAgain(t *testing.T) {
	a := serve(t, ticks(2, stays))
	got, _ := next(t, opened(t, a.url, `"stream": "sse", "idle_timeout": "50ms"`), 5)
	equal(t, got, ids(1, 5))
}

// trickle is a body that returns a comment after each pause, and ends after a number of them.
type trickle struct {
	ctx   context.Context
	pause time.Duration
	left  int
}

func (r *trickle) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	r.left--
	select {
	case <-time.After(r.pause):
	case <-r.ctx.Done():
		return 0, context.Cause(r.ctx)
	}
	return copy(p, ":\n"), nil
}

func (r *trickle) Close() error { return nil }

func TestWhenAStreamIsOpenedAgain(t *testing.T) {
	tests := []struct {
		name               string
		pause              time.Duration // between comments, of which there are four
		earliest, atLatest time.Duration
	}{
		{"some seconds after its end", time.Minute, 4*time.Minute + 3*time.Second, 4*time.Minute + 5*time.Second},
		{"comments are a sign of life", 4 * time.Minute, 16*time.Minute + 3*time.Second, 16*time.Minute + 5*time.Second},
		{"what is quiet for five minutes is given up", 10 * time.Minute, 5*time.Minute + 3*time.Second, 5*time.Minute + 5*time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n int
				start := time.Now()
				again := make(chan time.Duration, 1)
				in := scripted(t, `"stream": "sse"`, nil)
				in.get = func(ctx context.Context, _, to string, _ http.Header, _ []byte, _ ...int) (*http.Response, error) {
					if n++; n == 2 {
						again <- time.Since(start)
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}},
						Request: &http.Request{URL: parsed(t, to)}, Body: &trickle{ctx, tt.pause, 4}}, nil
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, _ = in.Read(ctx, engine.NewBatch(1))
				}()
				if got := <-again; got < tt.earliest || got > tt.atLatest {
					t.Errorf("opened again after %v, want %v to %v", got, tt.earliest, tt.atLatest)
				}
				cancel()
				<-done
				closed(t, in)
			})
		})
	}
}
