package http

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/testing/daemon"
	"github.com/flowd-io/flowd/internal/testing/debian"
)

const nginxConfig = `
daemon off;
master_process off;
pid HOME/pid;
error_log stderr;
events {}
http {
	access_log HOME/access.log;
	client_body_temp_path HOME/b; proxy_temp_path HOME/p; fastcgi_temp_path HOME/f; uwsgi_temp_path HOME/u; scgi_temp_path HOME/s;
	types { application/json json; text/html html; }
	gzip on; gzip_types application/json; gzip_min_length 1;
	limit_req_zone $uri zone=one:1m rate=1r/m;
	limit_req_status 429;
	server {
		listen 127.0.0.1:PORT;
		root HOME;
		location /modified/ { alias HOME/; etag off; }
		location /limited/ { alias HOME/; limit_req zone=one; }
		location /gone/ { proxy_pass http://127.0.0.1:1; }
	}
}
`

// nginx starts a server for the files of a directory.
func nginx(t *testing.T) (url, home string, stop func()) {
	t.Helper()
	const program = "/usr/sbin/nginx"
	if err := debian.Install("nginx-light", program); err != nil {
		why := fmt.Sprintf("no nginx to test with: %v (install nginx-light)", err)
		fmt.Fprintf(os.Stderr, "SKIPPED %s: %s\n", t.Name(), why)
		t.Skip(why)
	}
	home, err := daemon.Home("nginx", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(home, 0o755); err != nil { //nolint:gosec // its worker may run as another user
		t.Fatal(err)
	}
	ports, err := daemon.Ports(1)
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(home, "nginx.conf")
	put(t, conf, strings.NewReplacer("HOME", home, "PORT", ports[0]).Replace(nginxConfig), time.Now())
	address := "127.0.0.1:" + ports[0]
	p, err := daemon.Start(daemon.Server{Command: []string{program, "-p", home, "-c", conf}, Home: home, Address: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.End)
	return "http://" + address, home, p.End
}

// put replaces a file atomically: a server that reads it meanwhile sees the old file or the new one.
func put(t *testing.T, path, text string, at time.Time) {
	t.Helper()
	half := path + ".half"
	err := errors.Join(os.WriteFile(half, []byte(text), 0o600), os.Chtimes(half, at, at), os.Rename(half, path))
	if err != nil {
		t.Fatal(err)
	}
}

// A foreign server that compresses its responses: it sends a response again only if it has changed.
func TestNginx(t *testing.T) {
	url, home, stop := nginx(t)
	file := filepath.Join(home, "a.json")
	long := strings.Repeat(" ", 10_000)
	put(t, file, `[{"id":1},`+long+`{"id":2}]`, time.Now().Add(-time.Hour))
	log := func() string {
		text, err := os.ReadFile(filepath.Join(home, "access.log"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for i, path := range []string{"/a.json", "/modified/a.json"} {
		config := `"interval": "1ms", "checkpoint": "` + filepath.Join(t.TempDir(), "c") + `"`
		in := opened(t, url+path, config)
		got, refs := next(t, in, 2)
		equal(t, got, []string{fmt.Sprintf(`{"id":%d}`, 1+10*i), fmt.Sprintf(`{"id":%d}`, 2+10*i)})
		settle(t, in, refs...)
		waits(t, in, func() bool { return strings.Count(log(), "GET "+path+` HTTP/1.1" 304 `) >= 2 })
		closed(t, in)

		in = opened(t, url+path, config)
		waits(t, in, func() bool { return strings.Count(log(), "GET "+path+` HTTP/1.1" 304 `) >= 4 })
		put(t, file, fmt.Sprintf(`[{"id":%d},%s{"id":%d}]`, 11+10*i, long, 12+10*i), time.Now().Add(-time.Hour+time.Duration(i+1)*time.Minute))
		got, _ = next(t, in, 2)
		equal(t, got, ids(11+10*i, 12+10*i))
		closed(t, in)
	}
	if n := strings.Count(log(), `json HTTP/1.1" 200 `); n != 4 {
		t.Errorf("%d answers were sent, want 4:\n%s", n, log())
	}

	_, err := rest(t, opened(t, url+"/none.json", `"interval": "1s"`))
	fails(t, err, engine.Rejected, "404 Not Found: <html>")
	_, err = rest(t, opened(t, url+"/gone/a.json", `"interval": "1s"`))
	fails(t, err, engine.Transient, "502 Bad Gateway")
	in := opened(t, url+"/limited/a.json", `"interval": "1ms"`)
	next(t, in, 2)
	_, _, err = read(t, in, 1)
	fails(t, err, engine.Transient, "429 Too Many Requests")

	in = opened(t, url+"/a.json", "")
	next(t, in, 2)
	stop()
	if _, _, err := read(t, in, 1); err != engine.ErrEnd { // the input has read everything
		t.Errorf("got %v", err)
	}
	_, err = rest(t, opened(t, url+"/a.json", ""))
	fails(t, err, engine.Transient, "connection refused")
}
