package tables

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// served is a table behind a URL of a server.
func served(t *testing.T, h http.HandlerFunc) *Table {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return New("items", Config{URL: s.URL + "/items.csv?key=sesame", Key: engine.Names{"id"}, MaxSize: 4096,
		Timeout: 5 * time.Second}, nil, &schema.Secrets{})
}

func TestAURLIsAskedForNewVersions(t *testing.T) {
	var conditions []string
	version := "id,n\na,1\n"
	made := served(t, func(w http.ResponseWriter, r *http.Request) {
		conditions = append(conditions, r.Header.Get("If-None-Match")+"|"+r.Header.Get("If-Modified-Since"))
		w.Header().Set("ETag", `"`+version[len(version)-2:len(version)-1]+`"`)
		w.Header().Set("Last-Modified", "Mon, 02 Nov 2026 10:00:00 GMT")
		if r.Header.Get("If-None-Match") == w.Header().Get("ETag") {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, version)
	})
	if err := made.Check(); err != nil || made.now.Load() != nil {
		t.Fatalf("the check of a configuration asks a server: %v", err)
	}
	for _, v := range []string{"1", "1", "2"} {
		version = "id,n\na," + v + "\n"
		before := made.now.Load()
		if err := made.load(t.Context(), made.source.changed); err != nil {
			t.Fatal(err)
		}
		row, err := made.Lookup("a")
		if err != nil || row.(object)["n"] != v {
			t.Errorf("got %v, %v, want %s", row, err, v)
		}
		if again := len(conditions) == 2; again != (before == made.now.Load()) {
			t.Errorf("request %d: read again: %v", len(conditions), !again)
		}
	}
	if got, want := strings.Join(conditions, " "),
		`| "1"|Mon, 02 Nov 2026 10:00:00 GMT "1"|Mon, 02 Nov 2026 10:00:00 GMT`; got != want {
		t.Errorf("got conditions %s, want %s", got, want)
	}
}

// A server that was down for one request, and then says that the table has not changed, has no error any more.
func TestAnOutageOfAServerEnds(t *testing.T) {
	var down atomic.Bool
	made := served(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		switch {
		case down.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.Header.Get("If-None-Match") != "":
			w.WriteHeader(http.StatusNotModified)
		default:
			_, _ = io.WriteString(w, "id,n\na,1\n")
		}
	})
	made.cfg.Interval = time.Millisecond
	if err := made.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer made.Close(t.Context())
	down.Store(true)
	until(t, "an error", func() bool { return made.Table().Err != "" })
	down.Store(false)
	until(t, "no error", func() bool { return made.Table().Err == "" })
	if s := made.Table(); s.Reloads != 0 || s.Failed != 1 {
		t.Errorf("got %d reloads, %d failed", s.Reloads, s.Failed)
	}
}

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for late := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("there is never %s", what)
		}
	}
}

func TestAnswersThatAreNoTables(t *testing.T) {
	tests := []struct {
		name   string
		answer http.HandlerFunc
		class  engine.Class
		want   string
	}{
		{"refused", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, engine.Auth,
			"answered 403 Forbidden (check `auth`)"},
		{"not there", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, engine.Rejected, "answered 404"},
		{"down", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, engine.Transient, "answered 503"},
		{"elsewhere", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/x.csv", http.StatusFound)
		}, engine.Rejected, "it leads to another server"},
		{"a long body", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 5000)) },
			engine.TooLarge, "is larger than 4KiB"},
		{"a body without an end", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, strings.Repeat("x", 1000))
			}
		}, engine.TooLarge, "is larger than 4KiB"},
		{"a bomb", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, strings.Repeat("x", 1<<20))
			_ = z.Close()
		}, engine.TooLarge, "is larger than 4KiB"},
		{"half a body", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "id\na\n")
		}, engine.Transient, "unexpected EOF"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			made := served(t, test.answer)
			err := made.load(t.Context(), made.source.read)
			e, ok := errors.AsType[*engine.Error](err)
			if !ok || e.Class != test.class || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(),
				"sesame") {
				t.Errorf("got %v, want %q with class %s, without the query", err, test.want, test.class)
			}
		})
	}
}

func TestASlowServer(t *testing.T) {
	stop := make(chan struct{})
	made := served(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "id\n")
		w.(http.Flusher).Flush()
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	})
	defer close(stop)
	made.cfg.Timeout = 50 * time.Millisecond
	err := made.Open(t.Context())
	if e, ok := errors.AsType[*engine.Error](err); !ok || e.Class != engine.Timeout || strings.Contains(err.Error(),
		"sesame") {
		t.Errorf("got %v, want a timeout without the query", err)
	}
}

func TestCredentialsAndRedirects(t *testing.T) {
	token := schema.NewSecret("sesame")
	made := served(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer sesame":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/items.csv":
			http.Redirect(w, r, "/there.csv", http.StatusFound)
		default:
			_, _ = io.WriteString(w, "id\na\n")
		}
	})
	made.cfg.Auth.Bearer = &token
	if err := made.load(t.Context(), made.source.read); err != nil {
		t.Fatal(err)
	}
	if v, err := made.Lookup("a"); v == nil || err != nil {
		t.Errorf("got %v, %v", v, err)
	}
}
