package service

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/schema"
	"github.com/google/go-cmp/cmp"
)

func newTestClient(t *testing.T, to Target) *Client {
	t.Helper()
	c, err := NewClient(to)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAClientSteersAProcess(t *testing.T) {
	p := &fake{snapshots: twoPipelines()}
	file := tokenFile(t)
	s := serve(t, Config{TokenFile: file}, p)
	c := newTestClient(t, Target{Addr: s.Addr(), TokenFile: file})
	ctx := t.Context()
	for _, do := range []func() ([]string, error){
		func() ([]string, error) { return c.Pause(ctx, "") },
		func() ([]string, error) { return c.Resume(ctx, "orders") },
		func() ([]string, error) { return c.Drain(ctx, "audit") },
		func() ([]string, error) { return c.Reload(ctx) },
		func() ([]string, error) { return c.SetLimit(ctx, "orders", "engine", Limit{500, time.Second, 9, true}) },
	} {
		if on, err := do(); err != nil || len(on) == 0 {
			t.Errorf("got %q, %v", on, err)
		}
	}
	want := []string{`pause ""`, `resume "orders"`, `drain "audit"`, `reload`,
		`limit "orders" "engine" 500/1s burst 9 now true`}
	if diff := cmp.Diff(want, p.took()); diff != "" {
		t.Errorf("calls:\n%s", diff)
	}
	if st, err := c.State(ctx); err != nil || len(st.Pipelines) != 2 || st.Ready.Status != "ok" {
		t.Errorf("state: got %+v, %v", st, err)
	}
	if _, err := c.Drain(ctx, "order"); err == nil ||
		err.Error() != `there is no pipeline "order" (there are orders, audit)` {
		t.Errorf("an unknown pipeline: got %v", err)
	}
}

func TestHealthNeedsNoToken(t *testing.T) {
	home(t, "HOME")
	p := &fake{snapshots: []engine.Snapshot{{Pipeline: "orders", State: engine.Draining}}}
	s := serve(t, Config{}, p)
	c := newTestClient(t, Target{Addr: s.Addr()})
	if h, err := c.Health(t.Context(), "live"); err != nil || h.Status != "ok" {
		t.Errorf("live: got %+v, %v", h, err)
	}
	if h, err := c.Health(t.Context(), "ready"); err != nil || worded(h) != "pipeline_draining" {
		t.Errorf("ready: got %+v, %v", h, err)
	}
}

func TestWhatAClientSaysWhenItCanNot(t *testing.T) {
	dir := home(t, "HOME")
	s := serve(t, Config{}, &fake{snapshots: twoPipelines()})
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte(strings.Repeat("x", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			t.Error("the token is missing")
		}
		http.Redirect(w, r, "https://evil.example/", http.StatusFound)
	}))
	defer web.Close()
	closed := httptest.NewServer(nil)
	closed.Close()
	tests := []struct {
		name string
		to   Target
		err  string
	}{
		{"nothing there", Target{Addr: closed.Listener.Addr().String(), TokenFile: other},
			"nothing listens at 127.0.0.1:"},
		{"nothing there, nor a token", Target{Addr: closed.Listener.Addr().String()}, "nothing listens at 127.0.0.1:"},
		{"another's token", Target{Addr: s.Addr(), TokenFile: other}, "does not accept the token in " + other},
		{"no token", Target{Addr: s.Addr()}, filepath.Join(dir, ".config", "flowd", "token-"+port(s.Addr())) +
			" (run this as the user that flowd runs as"},
		{"no such token file", Target{Addr: s.Addr(), TokenFile: "/nope"}, "open /nope: no such file or directory"},
		{"another server, which points elsewhere", Target{Addr: web.Listener.Addr().String(), TokenFile: other},
			"does not answer like flowd: 302 Found"},
		{"TLS where there is none", Target{Addr: "https://" + s.Addr(), TokenFile: other},
			"server gave HTTP response to HTTPS client"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := newTestClient(t, tt.to).State(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v, want %q", err, tt.err)
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	tests := []struct{ addr, url, err string }{
		{"127.0.0.1:9600", "http://127.0.0.1:9600", ""},
		{":9600", "http://127.0.0.1:9600", ""},
		{"localhost:1", "http://localhost:1", ""},
		{"[::1]:1", "http://[::1]:1", ""},
		{"http://127.0.0.2:1/", "http://127.0.0.2:1", ""},
		{"https://flowd.example:9600", "https://flowd.example:9600", ""},
		{"https://0.0.0.0:1", "https://0.0.0.0:1", ""},
		{"flowd.example:9600", "", "in clear text (write https://flowd.example:9600)"},
		{"0.0.0.0:9600", "", "in clear text"},
		{"localhost.evil.example:1", "", "in clear text"},
		{"9600", "", "is not a valid address of a flowd"},
		{"", "", "is not a valid address of a flowd"},
		{"127.0.0.1:", "", "is not a valid address of a flowd"},
		{"ftp://127.0.0.1:1", "", "is not a valid address of a flowd"},
		{"https://localhost@evil.example:1", "", "is not a valid address of a flowd"},
	}
	for _, tt := range tests {
		u, err := parseAddr(tt.addr)
		if tt.err == "" && (err != nil || u.String() != tt.url) {
			t.Errorf("%q: got %s, %v, want %s", tt.addr, &u, err, tt.url)
		}
		if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%q: got %v, want %q", tt.addr, err, tt.err)
		}
	}
}

// certificate makes one for flowd.example and 127.0.0.1, in two files.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"flowd.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der},
		key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestAnotherAddressThanLoopbackNeedsTLSAndAToken(t *testing.T) {
	home(t, "HOME")
	cert, key := certificate(t)
	withTLS := tlsconf.Server{Cert: cert, Key: schema.NewSecret(key)}
	tests := []struct {
		name string
		cfg  Config
		err  string
	}{
		{"neither", Config{Listen: "0.0.0.0:0"},
			"is not a loopback address (listen on 127.0.0.1, or set service.tls and service.token_file)"},
		{"a token alone", Config{Listen: ":0", TokenFile: tokenFile(t)},
			"is not a loopback address (listen on 127.0.0.1, or set service.tls and service.token_file)"},
		{"TLS alone", Config{Listen: "[::]:0", TLS: withTLS},
			"is not a loopback address (listen on 127.0.0.1, or set service.token_file, too)"},
		{"no such certificate", Config{Listen: "127.0.0.1:0",
			TLS: tlsconf.Server{Cert: "/nope", Key: schema.NewSecret(key)}}, "service.tls.cert: open /nope"},
		{"no address", Config{Listen: "localhost"},
			`service.listen "localhost": listen tcp: address localhost: missing port in address`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Start(t.Context(), tt.cfg, &fake{}, nil, slog.New(slog.DiscardHandler))
			if err == nil {
				_ = s.Close(context.Background())
			}
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v, want %q", err, tt.err)
			}
		})
	}
}

func TestOtherMachinesGetNothingButAWordWithoutTheToken(t *testing.T) {
	cert, key := certificate(t)
	file := tokenFile(t)
	p := &fake{snapshots: []engine.Snapshot{{Pipeline: "orders", State: engine.Draining}}}
	s := serve(t, Config{Listen: "0.0.0.0:0", TokenFile: file,
		TLS: tlsconf.Server{Cert: cert, Key: schema.NewSecret(key)}}, p)
	addr := "127.0.0.1:" + port(s.Addr())

	c := newTestClient(t, Target{Addr: "https://" + addr, TokenFile: file, CA: cert})
	if st, err := c.State(t.Context()); err != nil || len(st.Pipelines) != 1 {
		t.Errorf("with all: got %+v, %v", st, err)
	}
	if _, err := newTestClient(t, Target{Addr: "https://" + addr, TokenFile: file}).State(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "(give the certificates to trust)") {
		t.Errorf("an unknown certificate: got %v", err)
	}
	if _, err := newTestClient(t, Target{Addr: addr, TokenFile: file}).State(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "HTTP request to an HTTPS server") {
		t.Errorf("without TLS: got %v", err)
	}

	conf, err := (&tlsconf.Client{CA: cert}).Config()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path, host, auth string
		status           int
		body             string
	}{
		{"/metrics", "", "", 401, "the token is missing"},
		{"/metrics", "", "Bearer " + tokenText, 200, "flowd_lanes"},
		{"/ready", "", "", 503, `{"status":"fail"}` + "\n"},
		{"/ready", "", "Bearer " + tokenText, 503, "pipeline_draining"},
		{"/live", "flowd.example:9600", "", 200, `{"status":"ok"}` + "\n"},
		{"/live", "192.0.2.1:9600", "", 200, `{"status":"ok"}` + "\n"},
		{"/live", "evil.example", "", 421, "the Host header"},
	} {
		status, body := get(t, conf, "https://"+addr+tt.path, tt.host, tt.auth)
		if status != tt.status || !strings.Contains(body, tt.body) {
			t.Errorf("%s for %s: got %d %s, want %d and %q", tt.path, tt.host, status, body, tt.status, tt.body)
		}
	}
}

func get(t *testing.T, conf *tls.Config, url, host, auth string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	if auth != "" {
		r.Header.Set("Authorization", auth)
	}
	res, err := httpClient(conf).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}
