package httpx

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
)

// caller is open for a URL.
func caller(t *testing.T, url string) *Caller {
	t.Helper()
	c := NewCaller(&Calls{URL: expr.MustTemplate(url)}, nil)
	if err := c.Open(false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// closedPort is an address at which nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestWhatWasNotSentHolds has requests end in ways in which a server can, or can't, have
// seen them.
func TestWhatWasNotSentHolds(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice that the client has left
		switch r.URL.Path {
		case "/cut":
			panic(http.ErrAbortHandler)
		case "/silent":
			<-r.Context().Done()
		case "/500":
			w.WriteHeader(500)
		case "/507":
			w.WriteHeader(507)
		}
	}))
	defer server.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	dial := func(f func(ctx context.Context) error) func(*Caller) {
		return func(c *Caller) {
			c.network.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Err: f(ctx)}
			}
		}
	}
	tests := []struct {
		name, url string
		edit      func(*Caller)
		class     engine.Class
		holds     bool
	}{
		{"refused", "http://" + closedPort(t), nil, engine.Transient, true},
		{"a name that is not known", "http://nowhere.example",
			dial(func(context.Context) error { return &net.DNSError{Err: "no such host", IsNotFound: true} }),
			engine.Transient, true},
		{"too late to connect", "http://far.example",
			dial(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }), engine.Timeout, true},
		{"a certificate that nobody trusts", secure.URL, nil, engine.Transient, true},
		{"no TLS there", "https" + server.URL[len("http"):], nil, engine.Transient, true},
		{"an answer", server.URL + "/500", nil, engine.Transient, false},
		{"a server whose disk is full", server.URL + "/507", nil, engine.Transient, true},
		{"cut behind the request", server.URL + "/cut", nil, engine.Transient, false},
		{"no answer", server.URL + "/silent", nil, engine.Timeout, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := caller(t, tt.url)
			if tt.edit != nil {
				tt.edit(c)
			}
			within := time.Minute
			if tt.class == engine.Timeout {
				within = 300 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			_, err := c.Do(ctx, http.MethodPost, tt.url, http.Header{}, []byte("body"))
			var e *engine.Error
			if !errors.As(err, &e) || e.Class != tt.class || e.Holds != tt.holds {
				t.Errorf("got %+v, want class %s, holds %v", err, tt.class, tt.holds)
			}
		})
	}
}

// TestReachSendsNoRequest has servers that count requests.
func TestReachSendsNoRequest(t *testing.T) {
	var requests atomic.Int64
	count := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) })
	plain, secure := httptest.NewServer(count), httptest.NewUnstartedServer(count)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer plain.Close()
	defer secure.Close()
	if err := caller(t, plain.URL+"/$(id)?key=secret").Reach(t.Context()); err != nil {
		t.Error(err)
	}
	trusting := caller(t, secure.URL)
	trusting.network.TLSClientConfig = secure.Client().Transport.(*http.Transport).TLSClientConfig
	if err := trusting.Reach(t.Context()); err != nil {
		t.Error(err)
	}
	for _, url := range []string{secure.URL, "http://" + closedPort(t)} {
		err := caller(t, url).Reach(t.Context())
		var e *engine.Error
		if !errors.As(err, &e) || !e.Holds {
			t.Errorf("%s: got %v, want an error that holds", url, err)
		}
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests came", n)
	}
}
