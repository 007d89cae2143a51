package httpx

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
)

// guarded is a server that wants the latest token, and one that gives them.
type guarded struct {
	issued  atomic.Int64 // tokens
	revoked atomic.Int64 // tokens up to this number are refused
	grant   func(w http.ResponseWriter, r *http.Request) bool
	caller  *Caller
}

func newGuarded(t *testing.T, change func(*OAuth2)) *guarded {
	t.Helper()
	g := &guarded{}
	gives := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.grant != nil && !g.grant(w, r) {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token": "secret-token-%d", "token_type": "bearer", "expires_in": 3600}`, g.issued.Add(1))
	}))
	t.Cleanup(gives.Close)
	wants := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int64
		_, _ = fmt.Sscanf(r.Header.Get("Authorization"), "Bearer secret-token-%d", &n)
		if n == 0 || n <= g.revoked.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, "not %q", r.Header.Get("Authorization"))
		}
	}))
	t.Cleanup(wants.Close)
	o := &OAuth2{TokenURL: gives.URL, ClientID: "me", ClientSecret: schema.NewSecret("s3cret-of-client"),
		Scopes: []string{"read", "write"}, Audience: "api", SendAs: "header"}
	if change != nil {
		change(o)
	}
	g.caller = NewCaller(&Calls{URL: expr.MustTemplate(wants.URL), Auth: ClientAuth{OAuth2: o}}, nil)
	if err := g.caller.Open(false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.caller.Close)
	return g
}

func (g *guarded) call(ctx context.Context) error {
	res, err := g.caller.Do(ctx, "GET", g.caller.guard.prefix, http.Header{}, nil)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

func TestATokenIsAskedForOnce(t *testing.T) {
	g := newGuarded(t, nil)
	g.grant = func(w http.ResponseWriter, r *http.Request) bool {
		id, secret, _ := r.BasicAuth()
		if id != "me" || secret != "s3cret-of-client" || r.FormValue("grant_type") != "client_credentials" ||
			r.FormValue("scope") != "read write" || r.FormValue("audience") != "api" {
			http.Error(w, "wrong", http.StatusBadRequest)
			return false
		}
		return true
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := g.call(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := g.issued.Load(); n != 1 {
		t.Errorf("%d tokens for 20 requests", n)
	}
}

func TestATokenThatIsRefusedIsReplacedOnce(t *testing.T) {
	g := newGuarded(t, nil)
	for range 3 {
		if err := g.call(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.revoked.Store(g.issued.Load())
	}
	if n := g.issued.Load(); n != 3 {
		t.Errorf("%d tokens, want 3", n)
	}
	g.caller.Close()
	if err := g.caller.Open(false); err != nil { // as after a failure: the token is still there
		t.Fatal(err)
	}
	g.revoked.Store(0)
	if err := g.call(t.Context()); err != nil || g.issued.Load() != 3 {
		t.Fatalf("%v, %d tokens", err, g.issued.Load())
	}
	g.revoked.Store(1 << 40) // now no token is good enough
	err := g.call(t.Context())
	if e := engine.ErrorOf(err, ""); e.Class != engine.Auth || e.Holds || strings.Contains(err.Error(), "secret-token") {
		t.Errorf("got %v of class %s", err, e.Class)
	}
	if n := g.issued.Load(); n != 4 { // the refused one was replaced once, and then it was given up
		t.Errorf("%d tokens, want 4", n)
	}
}

func TestWhyThereIsNoToken(t *testing.T) {
	tests := []struct {
		name   string
		grant  func(w http.ResponseWriter, r *http.Request)
		change func(*OAuth2)
		class  engine.Class
		says   string
	}{
		{"a refusal", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error": "invalid_client", "error_description": "no such client s3cret-of-client"}`)
		}, nil, engine.Auth, "401 Unauthorized: invalid_client no such client *** (check client_id"},
		{"an outage", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "later", http.StatusServiceUnavailable)
		}, nil, engine.Transient, "503 Service Unavailable: later"},
		{"a page", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<html><body>Log in")
		}, nil, engine.Auth, "the response has no token"},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere.example/", http.StatusFound)
		}, nil, engine.Auth, "302 Found"},
		{"nobody is there", nil, func(o *OAuth2) { o.TokenURL = "http://127.0.0.1:1/token?key=hidden" },
			engine.Transient, "token of http://127.0.0.1:1/token: dial tcp"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newGuarded(t, tt.change)
			g.grant = func(w http.ResponseWriter, r *http.Request) bool { tt.grant(w, r); return false }
			err := g.call(t.Context())
			e := engine.ErrorOf(err, "")
			if e.Class != tt.class || !e.Holds || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %q of class %s, holds: %v", err, e.Class, e.Holds)
			}
			for _, secret := range []string{"s3cret", "hidden"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("shows a secret: %v", err)
				}
			}
		})
	}
}

func TestTokensAreNotAskedForAtRefusedAddresses(t *testing.T) {
	o := &OAuth2{TokenURL: "http://127.0.0.1:1/", ClientID: "me", ClientSecret: schema.NewSecret("s3cret-of-client")}
	c := NewCaller(&Calls{URL: expr.MustTemplate("http://example.com"), Auth: ClientAuth{OAuth2: o}, Refuse: Refused{"loopback"}}, nil)
	if err := c.Open(false); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err := c.Do(t.Context(), "GET", "http://example.com", http.Header{}, nil)
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1 is not called (loopback)") {
		t.Errorf("got %v", err)
	}
}

func TestATokenHasADeadline(t *testing.T) {
	g := newGuarded(t, nil)
	done := make(chan struct{})
	g.grant = func(http.ResponseWriter, *http.Request) bool { <-done; return false }
	defer close(done)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	err := g.call(ctx)
	if e := engine.ErrorOf(err, ""); e.Class != engine.Timeout || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
