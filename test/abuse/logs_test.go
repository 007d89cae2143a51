package abuse

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flowd-io/flowd/test/flowdtest"
)

var logs = []attack{
	{"a flood of messages that fail", func(t *testing.T) { failsAll(t, "fail: 'no $(n)'", 50_000) }},
	{"a flood of messages that can't be decoded", func(t *testing.T) {
		failsAll(t, "decode: {json: {}, from: t}", 50_000)
	}},
	{"a flood of programs that fail", func(t *testing.T) {
		failsAll(t, "exec: {command: [sh, -c, 'cat >&2; exit 1']}", 300)
	}},
	{"a flood of refused and of invalid requests", refusedRequests},
	{"a server that sends unsolicited responses with the client's credentials", unsolicited},
}

// failsAll makes all messages fail, each with another error, and limits the size of the log.
func failsAll(t *testing.T, step string, n int) {
	dir := t.TempDir()
	file := flowdtest.Write(t, dir, "p.yaml", fmt.Sprintf(`
inputs: {in: {generate: {count: %d, body: '{n: counter(), t: "{" + string(counter()) + repeat("x", 1000)}'}}}
processors: [{%s, retry: {max_attempts: 1}}]
outputs: {out: {drop: {}}, dead: {drop: {}}}
engine: {on_failure: {dead_letter: dead}}
`, n, step))
	r := flowdtest.Run(t, dir, "", "-c", file)
	if r.Code != 0 || !strings.Contains(r.Stderr, "dead-lettered") {
		t.Errorf("exit code %d, want 0 and dead letters:\n%.4000s", r.Code, r.Stderr)
	}
	if size := len(r.Stderr); size > 200_000 {
		t.Errorf("the log has %d bytes:\n%.4000s", size, r.Stderr)
	}
}

// refusedRequests limits the size of the log at the level debug.
func refusedRequests(t *testing.T) {
	dir := t.TempDir()
	file := flowdtest.Write(t, dir, "p.yaml", `
inputs: {in: {http_server: {listen: "127.0.0.1:0", path: /, auth: {bearer: "${TOKEN:-of-the-server}"}}}}
outputs: {out: {drop: {}}}
service: {log: {level: debug}}
`)
	p := flowdtest.Start(t, dir, "-c", file)
	_, url, _ := strings.Cut(p.Says("listening on"), "listening on ")
	url, _, _ = strings.Cut(url, `"`)
	addr := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/")
	for range 2000 {
		res, err := http.Post("http://"+addr+"/", "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized {
			t.Fatal(res.Status)
		}
	}
	for i := range 500 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "\x16\x03\x01 %d\r\n\r\n", i) // looks like TLS
		_, _ = io.Copy(io.Discard, c)
		c.Close()
	}
	p.Signal(syscall.SIGTERM)
	r := p.Wait()
	r.Want(t, 0)
	if size := len(r.Stderr); size > 100_000 {
		t.Errorf("the log has %d bytes:\n%.4000s", size, r.Stderr)
	}
}

// unsolicited makes Go's HTTP client quote a server in the standard log, at each poll.
func unsolicited(t *testing.T) {
	const secret = "t0ken of/the poll"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	polled := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if n == 200 {
				close(polled)
			}
			r, err := http.ReadRequest(bufio.NewReader(c))
			if err == nil {
				_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 %d %s\r\n", n,
					r.Header.Get("Authorization"))
				_, _ = io.Copy(io.Discard, c) // until the client closes it
			}
			c.Close()
		}
	}()
	dir, began := t.TempDir(), time.Now()
	p := flowdtest.StartAs(t, dir, "env", "X="+secret, flowdtest.Binary, "-c", flowdtest.Write(t, dir, "p.yaml", `
inputs: {in: {http: {url: "http://`+l.Addr().String()+`/", auth: {bearer: "${X}"}, interval: 1ms}}}
outputs: {out: {drop: {}}}
`))
	p.Says("Unsolicited response")
	<-polled
	p.Signal(syscall.SIGTERM)
	r := p.Wait()
	expectHidden(t, r.Stderr, secret)
	most := 50 * (1 + int(time.Since(began)/(10*time.Second))) // 32 lines of a kind in ten seconds, and reports
	if lines := strings.Count(r.Stderr, "Unsolicited response"); lines > most || !strings.Contains(r.Stderr, "level=WARN") ||
		!strings.Contains(r.Stderr, "***") {
		t.Errorf("%d lines are logged, want at most %d, as warnings with the secret masked:\n%.4000s", lines, most, r.Stderr)
	}
}
