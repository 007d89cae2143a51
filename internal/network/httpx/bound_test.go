package httpx

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAnswersAreBounded(t *testing.T) {
	tests := []struct {
		name   string
		coding string
		begin  string
		more   string // until the client has enough
		want   string
	}{
		{"endless", "", `{"a": "`, "{,[<=", "longer than 8 MiB"},
		{"a bomb", "gzip", `"`, "aaaaaaaaaaaaaaaa", "longer than 8 MiB"},
		{"an endless text of XML", "", "<a>", "text", "262144 bytes of text"},
		{"small objects", "", `{"all": [`, "{},", "131072 values"},
		{"small numbers", "", " \n[", "1,", "131072 values"},
		{"after strings with quotes in them", "", `["\"","\\"`, ",0", "131072 values"},
		{"empty elements", "", "\ufeff<all>", "<a/>", "131072 values"},
		{"attributes", "", "<all ", `a="" `, "262144 bytes of text"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				out := io.Writer(w)
				if tt.coding != "" {
					w.Header().Set("Content-Encoding", tt.coding)
					z := gzip.NewWriter(w)
					defer z.Close()
					out = z
				}
				_, err := io.WriteString(out, tt.begin)
				for more := strings.Repeat(tt.more, 1<<12); err == nil; {
					_, err = io.WriteString(out, more)
				}
			}))
			defer s.Close()
			client := &http.Client{Transport: Bounded{RoundTripper: Network(nil)}}
			defer client.CloseIdleConnections()
			res, err := client.Get(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			n, err := io.Copy(io.Discard, res.Body)
			if _, again := res.Body.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), tt.want) ||
				again == nil || n > MostAnswer {
				t.Errorf("%d bytes were read: %v, then %v", n, err, again)
			}
			res.Body.Close()
		})
	}
}

func TestAnErrorIsCut(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		for err := error(nil); err == nil; {
			_, err = io.WriteString(w, strings.Repeat("no ", 1<<12))
		}
	}))
	defer s.Close()
	if n, err := content(t, s.URL); err != nil || n != mostFailed {
		t.Errorf("%d bytes of it were read: %v", n, err)
	}
}

// content is how many bytes of content a client reads.
func content(t *testing.T, url string) (n int64, err error) {
	t.Helper()
	client := Direct(Network(nil), MostAnswer)
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(Streams(t.Context()), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return io.Copy(io.Discard, res.Body)
}

func TestContentIsNotBounded(t *testing.T) {
	body := strings.Repeat("[", MostAnswer+1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, body) }))
	defer s.Close()
	if n, err := content(t, s.URL); err != nil || int(n) != len(body) {
		t.Error(n, err)
	}
}

// trickle is an answer with a byte a second.
type trickle struct{ ctx context.Context }

func (t trickle) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Body: trickle{req.Context()}}, nil
}

func (t trickle) Read(p []byte) (int, error) {
	time.Sleep(time.Second)
	return copy(p, " "), t.ctx.Err()
}

func (trickle) Close() error { return nil }

func TestARequestWithoutADeadlineEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		req := httptest.NewRequest(http.MethodGet, "http://a/", nil)
		begun := time.Now()
		res, err := Bounded{RoundTripper: trickle{}}.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		_, err = io.ReadAll(res.Body)
		if took := time.Since(begun); !errors.Is(err, context.DeadlineExceeded) || took > answerTimeout+time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

func TestHeadersAreBounded(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/early" {
			for range 1000 {
				w.Header().Set("Link", strings.Repeat("a", 100))
				w.WriteHeader(http.StatusEarlyHints)
			}
			return
		}
		w.Header().Set("X-Long", strings.Repeat("a", 2*MostHeader))
	}))
	defer s.Close()
	client := Direct(Network(nil), MostAnswer)
	defer client.CloseIdleConnections()
	for _, path := range []string{"/", "/early"} {
		res, err := client.Get(s.URL + path)
		if err == nil {
			res.Body.Close()
			t.Errorf("%s is taken", path)
		}
	}
}
