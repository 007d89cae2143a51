package abuse

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"html"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/flowd-io/flowd/test/flowdtest"
)

var disclosures = slices.Concat(echoed, admin, transport)

var echoed = []attack{
	{"a server echoes basic authentication", echoes(`auth: {basic: {user: ada, password: "${X}"}}`, "")},
	{"a server echoes a bearer token", echoes(`auth: {bearer: "${X}"}`, "")},
	{"a server echoes a header made of a secret", echoes(`headers: {Authorization: "Token ${X}"}`, "")},
	{"a server echoes a header with data and a secret", echoes(`headers: {Authorization: "Token ${X} $(id)"}`, "")},
	{"a server echoes a header with a harmless name", echoes(`headers: {X-Route: "${X}"}`, "")},
	{"a server echoes the userinfo of its URL", echoes("", "ada:${XE}@")},
	{"a server echoes a password of three letters", tryEcho("zq7", `auth: {basic: {user: ada, password: "${X}"}}`, "")},
	{"a server echoes a URL with a password of one letter", tryEcho("q", "", "ada:${X}@")},
	{"a password of one letter does not mask the whole log", func(t *testing.T) {
		dir := t.TempDir()
		r := withEnv(t, dir, []string{"X=a"}, "-c", flowdtest.Write(t, dir, "p.yaml", `
inputs: {in: {generate: {count: 1, body: '{"id": 1}'}}}
processors: [{fail: "a message that has lots of letters"}]
outputs: {out: {http: {url: "http://127.0.0.1:1/", auth: {basic: {user: ada, password: "${X}"}}}}}
`))
		r.Want(t, 1, "a message that has lots of letters")
		if strings.Contains(r.Stderr, "***") {
			t.Errorf("the log is masked without need:\n%s", r.Stderr)
		}
	}},
	{"a step logs a secret", func(t *testing.T) {
		for _, secret := range []string{`s3 cr"et/1`, "zq7"} {
			for _, format := range []string{"text", "json"} {
				dir := t.TempDir()
				r := withEnv(t, dir, []string{"X=" + secret}, "-c", flowdtest.Write(t, dir, "p.yaml", `
inputs: {in: {generate: {count: 1, body: '{"id": 1}'}}}
processors: [{log: {message: "shows $(\"secret=${X}.\")", fields: {password: '"${X}"', list: '["${X}"]'}}}]
outputs: {out: {drop: {}}}
service: {log: {format: `+format+`}}
`))
				r.Want(t, 0, "shows secret=***.")
				expectHidden(t, r.Stderr, secret)
			}
		}
	}},
	{"a program prints its secret", func(t *testing.T) {
		const secret = `pr"int ed/77`
		dir := t.TempDir()
		p := flowdtest.Write(t, dir, "p.yaml", `
inputs: {in: {generate: {count: 1, body: '{"id": 1}'}}}
processors: [{exec: {command: [sh, -c, 'echo "pw is $PW" >&2; printf %s "$PW" | base64 >&2; exit 1'], env: {PW: "${X}"}}}]
outputs: {out: {drop: {}}, dead: {file: {path: dead, framing: messages}}}
engine: {on_failure: {dead_letter: dead}}
`)
		r := withEnv(t, dir, []string{"X=" + secret}, "-c", p)
		expectHidden(t, r.Stderr+flowdtest.Read(t, dir, "dead"), secret)
		if !strings.Contains(r.Stderr, "pw is ***") {
			t.Errorf("the log lacks the program's stderr:\n%s", r.Stderr)
		}
	}},
	{"a failing test prints a server's echo", func(t *testing.T) {
		const secret = "t0ken-of-the-test"
		dir, at := t.TempDir(), echoServer(t)
		p := flowdtest.Write(t, dir, "p.yaml", fmt.Sprintf(`
inputs: {in: {stdin: {}}}
processors: [{http: {url: "http://%s/", headers: {Authorization: "Token ${X}"}, expect: [200, 400], into: said}}]
outputs: {out: {stdout: {}}}
tests: [{name: t, input: [{json: {id: 1}}], expect: {out: [{json: {id: 1}}]}}]
`, at))
		for _, args := range [][]string{{"test", p}, {"test", p, "--json"}} {
			r := withEnv(t, dir, []string{"X=" + secret}, args...)
			expectHidden(t, r.Stdout+r.Stderr, secret)
			r.Want(t, 1)
			if !strings.Contains(r.Stdout, "***") {
				t.Errorf("the output lacks the masked response:\n%s", r.Stdout)
			}
		}
	}},
}

var admin = []attack{
	{"a web page of another site posts", request(403, "POST", "/api/v1/pause", "Origin: http://evil.example",
		"Sec-Fetch-Site: cross-site", "+token")},
	{"a web page of another site posts without an Origin",
		request(403, "POST", "/api/v1/drain", "Sec-Fetch-Site: cross-site", "+token")},
	{"another host name that resolves to this machine", request(421, "GET", "/api/v1/state", "Host: evil.example", "+token")},
	{"a request without the token", request(401, "POST", "/api/v1/drain")},
	{"a request for data without the token", request(401, "GET", "/api/v1/state")},
	{"JSON with wrong types", request(400, "POST", "/api/v1/limit", "+token",
		`{"name": ["x"], "messages": {}, "per": true}`)},
	{"JSON nested a million deep", request(400, "POST", "/api/v1/limit", "+token", strings.Repeat("[", 1<<15))},
	{"a form in place of JSON", request(415, "POST", "/api/v1/pause", "+token", "Content-Type: text/plain",
		`{"pipeline": ""}`)},
	{"idle connections on all slots", func(t *testing.T) {
		crowdAdmin(t, 128, func(c net.Conn) {
			fmt.Fprint(c, "GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
			if _, err := c.Read(make([]byte, 1)); err != nil {
				t.Error(err)
			}
		})
	}},
	{"silent connections on all slots", func(t *testing.T) { crowdAdmin(t, 200, func(net.Conn) {}) }},
	{"half requests on all slots", func(t *testing.T) {
		crowdAdmin(t, 200, func(c net.Conn) { fmt.Fprint(c, "GET /live HTTP/1.1\r\nHost: localhost\r\nX-A: ") })
	}},
	{"missing bodies on all slots", func(t *testing.T) {
		crowdAdmin(t, 200, func(c net.Conn) {
			fmt.Fprint(c, "POST /api/v1/pause HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
		})
	}},
	{"a listener on all addresses without TLS or token", func(t *testing.T) {
		for _, service := range []string{`{listen: "0.0.0.0:0"}`, `{listen: "0.0.0.0:0", token_file: t}`,
			`{listen: ":0", tls: {cert: c, key: k}}`} {
			dir := t.TempDir()
			file := flowdtest.Write(t, dir, "p.yaml",
				"inputs: {in: {generate: {count: 1}}}\noutputs: {out: {drop: {}}}\nservice: "+service+"\n")
			for _, args := range [][]string{{"lint", file}, {"-c", file}} {
				r := flowdtest.Run(t, dir, "", args...)
				r.Stderr += r.Stdout // lint prints problems to stdout
				r.Want(t, 2, "is not a loopback address: others could control this process")
			}
		}
	}},
	{"metrics with data in labels, without the token", func(t *testing.T) {
		dir := t.TempDir()
		certificate(t, dir, time.Now().Add(time.Hour))
		p := flowdtest.Start(t, dir, "-c", flowdtest.Write(t, dir, "p.yaml", `
inputs: {in: {http_server: {listen: "127.0.0.1:0"}}}
processors: [{metric: {counter: seen_total, labels: {who: user}}}]
outputs: {out: {drop: {}}}
service: {listen: "0.0.0.0:0", token_file: token, tls: {cert: here.pem, key: here.key}}
`))
		_, port, _ := net.SplitHostPort(adminAddress(p))
		web := regexp.MustCompile(`http://[^\s"]+`).FindString(p.Says("listening on "))
		if res, err := http.Post(web, "application/json", strings.NewReader(`{"user":"somebody"}`)); err != nil ||
			res.StatusCode != 200 {
			t.Fatal(res, err)
		} else {
			res.Body.Close()
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: trustTLS(t, dir)}}
		token := strings.TrimSpace(flowdtest.Read(t, dir, "token"))
		for auth, want := range map[string]int{"": 401, "Bearer wrong": 401, "Bearer " + token: 200} {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1:"+port+"/metrics", nil)
			req.Header.Set("Authorization", auth)
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != want || strings.Contains(string(text), "somebody") != (want == 200) {
				t.Errorf("with %q: got %s, want %d\n%s", auth, res.Status, want, text)
			}
		}
	}},
}

// startAdmin starts a flowd with an admin API, and returns its address and token.
func startAdmin(t *testing.T) (at, token string) {
	t.Helper()
	dir := t.TempDir()
	p := flowdtest.Start(t, dir, "-c", flowdtest.Write(t, dir, "p.yaml", `
inputs: {in: {http_server: {listen: "127.0.0.1:0"}}}
outputs: {out: {drop: {}}}
service: {listen: "127.0.0.1:0", token_file: token}
`))
	at = adminAddress(p)
	p.Says("listening on http://")
	return at, strings.TrimSpace(flowdtest.Read(t, dir, "token"))
}

// request sends a request to the admin API, with headers and a body. The response must have
// the status, and must not allow other sites to read it. "+token" adds the token.
func request(status int, method, path string, with ...string) func(*testing.T) {
	return func(t *testing.T) {
		at, token := startAdmin(t)
		body := ""
		header := http.Header{}
		for _, w := range with {
			name, value, _ := strings.Cut(w, ": ")
			switch {
			case w == "+token":
				header.Set("Authorization", "Bearer "+token)
			case w[0] == '{' || w[0] == '[':
				body = w
			default:
				header.Set(name, value)
			}
		}
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+at+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Host, req.Header = header.Get("Host"), header
		if body != "" && header.Get("Content-Type") == "" {
			header.Set("Content-Type", "application/json")
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != status {
			t.Errorf("got %s, want %d", res.Status, status)
		}
		for name := range res.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("another site may read the response: it has the header %s", name)
			}
		}
		if live, err := http.Get("http://" + at + "/live"); err != nil || live.StatusCode != http.StatusOK {
			t.Errorf("/live fails afterwards: %v, %v", live, err)
		}
	}
}

// crowdAdmin opens many connections to the admin API and keeps them. The API must still answer.
func crowdAdmin(t *testing.T, n int, do func(net.Conn)) {
	t.Helper()
	at, _ := startAdmin(t)
	for range n {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		do(c)
	}
	// The timeout is less than flowd's own for silent clients.
	client := &http.Client{Timeout: 4 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for _, path := range []string{"/live", "/ready", "/metrics"} {
		res, err := client.Get("http://" + at + path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
}

// certificate writes a self-signed certificate for 127.0.0.1 and its key.
func certificate(t *testing.T, dir string, until time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(until.UnixNano()), NotBefore: until.Add(-2 * time.Hour), NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:        true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth,
			x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"here.pem": {Type: "CERTIFICATE", Bytes: der},
		"here.key": {Type: "PRIVATE KEY", Bytes: private}} {
		flowdtest.Write(t, dir, name+".new", string(pem.EncodeToMemory(block)))
		if err := os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// trustTLS trusts only the certificate in dir.
func trustTLS(t *testing.T, dir string) *tls.Config {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(flowdtest.Read(t, dir, "here.pem")))
	return &tls.Config{RootCAs: pool}
}

var transport = []attack{
	{"a renewed certificate, and an expired one", func(t *testing.T) {
		dir := t.TempDir()
		certificate(t, dir, time.Now().Add(time.Hour))
		p := flowdtest.Start(t, dir, "-c", flowdtest.Write(t, dir, "p.yaml", `
inputs: {in: {http_server: {listen: "127.0.0.1:0", tls: {cert: here.pem, key: here.key}}}}
outputs: {out: {drop: {}}}
service: {listen: "127.0.0.1:0", token_file: token, tls: {cert: here.pem, key: here.key}}
`))
		operators := adminAddress(p)
		_, web, _ := strings.Cut(p.Says("listening on https://"), "https://")
		web, _, _ = strings.Cut(web, "/")
		// Listeners read the files once a second, and use the old certificate until then.
		until := func(what string, ok func(err error, listener int) bool) {
			t.Helper()
			for i, at := range []string{operators, web} {
				for end := time.Now().Add(30 * time.Second); ; {
					c, err := tls.Dial("tcp", at, trustTLS(t, dir))
					if err == nil {
						c.Close()
					}
					if ok(err, i) {
						break
					}
					if time.Now().After(end) {
						t.Fatalf("%s: %v\n%s", what, err, p.Stderr.Text())
					}
				}
			}
		}
		until("the first certificate", func(err error, _ int) bool { return err == nil })
		certificate(t, dir, time.Now().Add(2*time.Hour))
		until("the renewed certificate", func(err error, _ int) bool { return err == nil })
		good := trustTLS(t, dir)
		certificate(t, dir, time.Now().Add(-time.Hour))              // has expired
		until("the expired certificate", func(_ error, i int) bool { // each listener logs this once
			return strings.Count(p.Stderr.Text(), "the certificate has expired at") == i+1
		})
		for _, at := range []string{operators, web} {
			c, err := tls.Dial("tcp", at, good)
			if err != nil {
				t.Fatalf("the last valid certificate is not in use any more: %v", err)
			}
			c.Close()
		}
	}},
	{"a client without a certificate", func(t *testing.T) {
		dir := t.TempDir()
		certificate(t, dir, time.Now().Add(time.Hour))
		p := flowdtest.Start(t, dir, "-c", flowdtest.Write(t, dir, "p.yaml", `
inputs: {in: {http_server: {listen: "127.0.0.1:0", tls: {cert: here.pem, key: here.key, client_ca: here.pem}}}}
outputs: {out: {drop: {}}}
service: {listen: "127.0.0.1:0", token_file: token, tls: {cert: here.pem, key: here.key, client_ca: here.pem}}
`))
		operators := adminAddress(p)
		_, web, _ := strings.Cut(p.Says("listening on https://"), "https://")
		web, _, _ = strings.Cut(web, "/")
		for _, at := range []string{operators, web} {
			for shown, want := range map[string]bool{"": false, "here": true} {
				conf := trustTLS(t, dir)
				if shown != "" {
					pair, err := tls.LoadX509KeyPair(filepath.Join(dir, shown+".pem"), filepath.Join(dir, shown+".key"))
					if err != nil {
						t.Fatal(err)
					}
					conf.Certificates = []tls.Certificate{pair}
				}
				client := &http.Client{Transport: &http.Transport{TLSClientConfig: conf}}
				res, err := client.Post("https://"+at+"/", "text/plain", strings.NewReader("1"))
				if err == nil {
					res.Body.Close()
				}
				if (err == nil) != want {
					t.Errorf("with %q: got %v", shown, err)
				}
			}
		}
		ctl := []string{"ctl", "ready", "--addr", "https://" + operators, "--token-file", "token", "--ca", "here.pem"}
		flowdtest.Run(t, dir, "", ctl...).Want(t, 1)
		flowdtest.Run(t, dir, "", append(ctl, "--cert", "here.pem", "--key", "here.key")...).Want(t, 0)
	}},
	{"servers with another name, an expired certificate, an old TLS version, or a redirect", func(t *testing.T) {
		dir := t.TempDir()
		certificate(t, dir, time.Now().Add(time.Hour))
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "here.pem"), filepath.Join(dir, "here.key"))
		if err != nil {
			t.Fatal(err)
		}
		certificate(t, dir, time.Now().Add(-time.Hour))
		old, err := tls.LoadX509KeyPair(filepath.Join(dir, "here.pem"), filepath.Join(dir, "here.key"))
		if err != nil {
			t.Fatal(err)
		}
		flowdtest.Write(t, dir, "ca.pem",
			string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}))+flowdtest.Read(t,
				dir, "here.pem"))
		var leaked atomic.Bool
		thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			leaked.Store(r.Header.Get("Authorization") != "")
		}))
		defer thief.Close()
		for _, tt := range []struct {
			host string
			conf *tls.Config
			want string
		}{
			{"localhost", &tls.Config{Certificates: []tls.Certificate{pair}}, "certificate is not valid for any names"},
			{"127.0.0.1", &tls.Config{Certificates: []tls.Certificate{old}}, "certificate has expired"},
			{"127.0.0.1", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS10,
				MaxVersion: tls.VersionTLS11}, "protocol version"},
			{"127.0.0.1", &tls.Config{Certificates: []tls.Certificate{pair}}, "which is not followed"},
		} {
			s := httptest.NewUnstartedServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
			s.TLS, s.Config.ErrorLog = tt.conf, log.New(io.Discard, "", 0)
			s.StartTLS()
			defer s.Close()
			_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
			flowdtest.Run(t, dir, "", "-c", flowdtest.Write(t, dir, "p.yaml", fmt.Sprintf(`
inputs: {in: {generate: {count: 1, body: '{"id": 1}'}}}
processors: [{http: {url: "https://%s:%s/", tls: {ca: ca.pem}, auth: {bearer: the-token-itself}}, retry: {max_attempts: 1}}]
outputs: {out: {drop: {}}}
engine: {on_failure: {retry: {max_attempts: 1, max_age: 1s}}}
`, tt.host, port))).Want(t, 1, tt.want)
		}
		if leaked.Load() {
			t.Error("the credentials were sent to the target of a redirect")
		}
	}},
}

// echoes makes a server echo a password with characters that URLs, JSON and HTML escape.
func echoes(request, userinfo string) func(*testing.T) {
	return tryEcho(`s3 cr"et/ü&%41\`, request, userinfo)
}

// tryEcho sends messages with credentials to a server that rejects them and quotes the
// credentials, in another form for each message. The errors must be in the log, the dead
// letters, the summary and the admin API, without the password.
func tryEcho(secret, request, userinfo string) func(*testing.T) {
	return func(t *testing.T) {
		dir, at := t.TempDir(), echoServer(t)
		if request != "" {
			request = ", " + request
		}
		file := flowdtest.Write(t, dir, "p.yaml", fmt.Sprintf(`
inputs: {in: {stdin: {}}}
batchers: {all: {output: [out, held]}}
outputs:
  out: {http: {url: "http://%s%s/$(id)"%s}}
  held: {http: {url: "http://%[1]s%[2]s/auth/$(id)"%[3]s}}
  dead: {file: {path: dead, framing: messages}}
engine: {on_failure: {dead_letter: dead}, drain: {timeout: 1s}}
service: {listen: "127.0.0.1:0", token_file: token}
`, userinfo, at, request))
		p := flowdtest.StartAs(t, dir, "env", "X="+secret, "XE="+url.PathEscape(secret), flowdtest.Binary, "-c", file)
		for id := range forms {
			p.Send(fmt.Sprintf("{\"id\": %d}\n", id))
		}
		operators := adminAddress(p)
		p.Says("output is down")
		var state flowdtest.Result
		for told := fmt.Sprintf(`"rejected": %d`, len(forms)); !strings.Contains(state.Stdout, told); {
			state = flowdtest.Run(t, dir, "", "ctl", "state", "--json", "--addr", operators, "--token-file", "token")
			state.Want(t, 0)
		}
		ready := flowdtest.Run(t, dir, "", "ctl", "ready", "--addr", operators, "--token-file", "token")
		p.Signal(syscall.SIGTERM)
		r := p.Wait()
		dead := flowdtest.Read(t, dir, "dead")
		// The copies for the other output are held, and become dead letters at the end.
		n := strings.Count(dead, "400 Bad Request") - strings.Count(dead, "before this message was finished")
		if n != len(forms) || !strings.Contains(dead, "***") {
			t.Errorf("%d dead letters have the server's error, want %d, and masked:\n%s", n, len(forms), dead)
		}
		if !strings.Contains(ready.Stdout, "401 Unauthorized") {
			t.Errorf("ctl ready lacks the server's error:\n%s", ready.Stdout)
		}
		expectHidden(t, state.Stdout+ready.Stdout+dead+r.Stdout+r.Stderr, secret)
	}
}

// forms are ways in which a server may quote credentials.
var forms = []func(text string) string{
	func(text string) string { return "you sent: " + text },
	strconv.Quote,
	url.QueryEscape,
	func(text string) string { return strings.ToLower(url.PathEscape(text)) },
	html.EscapeString,
	func(text string) string { return htmlReferences(text, "&#%d;") },
	func(text string) string { return htmlReferences(text, "&#x%x;") },
	func(text string) string { return strings.ReplaceAll(html.EscapeString(text), "&#34;", "&quot;") },
	func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) },
	func(text string) string { return base64.URLEncoding.EncodeToString([]byte("x" + text + "y")) },
	func(text string) string {
		quoted, _ := json.Marshal(map[string]string{"authorization": text})
		return string(quoted)
	},
	func(text string) string { return strings.Repeat("x ", 140) + text }, // at the length where errors are cut
}

// echoServer starts a server that rejects all requests and quotes their credentials, and
// returns its address.
func echoServer(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		form := forms[0]
		w.Header().Set("Content-Type", "text/plain")
		if id, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/")); err == nil && id < len(forms) {
			form = forms[id]
			w.WriteHeader(http.StatusBadRequest)
		} else {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, password, _ := r.BasicAuth()
		if password != "" {
			password = "password=" + password
		}
		for _, text := range []string{r.Header.Get("Authorization"), password, r.Header.Get("X-Route")} {
			if text != "" {
				fmt.Fprintln(w, form(text))
			}
		}
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// adminAddress returns the address of a process's admin API.
func adminAddress(p *flowdtest.Process) string {
	_, at, _ := strings.Cut(p.Says("admin API listening"), "address=")
	at, _, _ = strings.Cut(at, " ")
	return at
}

// withEnv runs the binary with additional environment variables.
func withEnv(t *testing.T, dir string, env []string, args ...string) flowdtest.Result {
	t.Helper()
	return flowdtest.Command(t, dir, "", "env", slices.Concat(env, []string{flowdtest.Binary}, args)...)
}

// htmlReferences replaces special and non-ASCII characters with HTML character references.
func htmlReferences(text, form string) string {
	var b strings.Builder
	for _, r := range text {
		if r < 0x80 && !strings.ContainsRune("\"'&<>\\/%", r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, form, r)
		}
	}
	return b.String()
}

// expectHidden fails the test if a text contains a secret, in any encoding from which it can
// be recovered.
func expectHidden(t *testing.T, text, secret string) {
	t.Helper()
	for at, line := range strings.Split(text, "\n") {
		if pair := base64.StdEncoding.EncodeToString([]byte("ada:" + secret)); strings.Contains(line, pair) {
			t.Errorf("line %d contains the credentials of basic authentication:\n%s", at+1, line)
		}
		for _, form := range []string{
			secret, url.QueryEscape(secret), url.PathEscape(secret), strings.ToLower(url.PathEscape(secret)),
			html.EscapeString(secret),
			htmlReferences(secret, "&#%d;"), htmlReferences(secret, "&#x%x;"), htmlReferences(secret, "&#X%04X;"), strings.NewReplacer(`"`, "&quot;",
				"'", "&apos;", "&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(secret),
			strings.Trim(strconv.Quote(secret), `"`),
		} {
			if len(form) >= 4 && strings.Contains(line, form) || len(form) < 4 && strings.Contains(line, "="+form) {
				t.Errorf("line %d contains the secret as %s:\n%s", at+1, form, line)
			}
		}
		for word := range strings.FieldsFuncSeq(line, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
				strings.ContainsRune("+/-_", r))
		}) {
			for from := range min(4, len(word)) { // the encoded text may begin at any offset
				for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
					plain, _ := e.DecodeString(word[from:])
					if len(secret) >= 4 && strings.Contains(string(plain), secret) {
						t.Errorf("line %d contains the secret in base64, %s:\n%s", at+1, word, line)
					}
				}
			}
		}
	}
}
