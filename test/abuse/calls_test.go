package abuse

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/flowd-io/flowd/test/flowdtest"
)

var callingOut = []attack{
	{"a refused address, in several notations", refusedAddresses},
	{"a refused address behind a proxy", refusedBehindAProxy},
	{"a redirect to another origin", redirectElsewhere},
	{"an input that is redirected to another origin", pollElsewhere},
	{"a grandchild in its own session, after flowd kills the program",
		func(t *testing.T) { grandchild(t, "; sleep 600") }},
	{"a grandchild in its own session, after the program exits", func(t *testing.T) { grandchild(t, "; cat") }},
}

// countingServer starts a server that counts all requests, and requests with credentials.
func countingServer(t *testing.T, answer http.HandlerFunc) (port string, reached, credentials *atomic.Int64) {
	t.Helper()
	reached, credentials = new(atomic.Int64), new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		if r.Header.Get("Authorization") != "" || r.Header.Get("X-Key") != "" {
			credentials.Add(1)
		}
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port, reached, credentials
}

// callHTTP runs a message through a step http, and returns the dead letters.
func callHTTP(t *testing.T, url, more string, env ...string) (flowdtest.Result, string) {
	t.Helper()
	dir := t.TempDir()
	file := flowdtest.Write(t, dir, "p.yaml", `
inputs: {in: {stdin: {}}}
processors: [{http: {url: "`+url+`", into: got`+more+`}, timeout: 10s, retry: {max_attempts: 1}}]
outputs: {out: {stdout: {}}, dead: {file: {path: dead.ndjson, framing: messages}}}
engine: {on_failure: {dead_letter: dead}}
`)
	r := flowdtest.Command(t, dir, "{\"a\":1}\n", "env", append(env, flowdtest.Binary, "-c", file)...)
	dead, err := os.ReadFile(dir + "/dead.ndjson")
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return r, string(dead)
}

func refusedAddresses(t *testing.T) {
	port, reached, _ := countingServer(t, func(http.ResponseWriter, *http.Request) {})
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "0.0.0.0"} {
		r, dead := callHTTP(t, "http://"+host+":"+port+"/$(a)", `, refuse_addresses: [loopback, metadata, link_local]`)
		if !strings.Contains(r.Stderr, "1 received: 1 dead-lettered") {
			t.Errorf("%s: %s", host, r.Stderr)
		}
		if !strings.Contains(dead, "refuse_addresses") || !strings.Contains(dead, "loopback") {
			t.Errorf("%s: %s", host, dead)
		}
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("%d requests reached a refused address", n)
	}
	if r, dead := callHTTP(t, "http://localhost:"+port+"/$(a)", `, refuse_addresses: [169.254.0.0/16]`); r.Code != 0 ||
		reached.Load() != 1 {
		t.Errorf("an allowed address was refused: %s%s", r.Stderr, dead)
	}
	dir := t.TempDir()
	file := flowdtest.Write(t, dir, "p.yaml", `
inputs: {in: {stdin: {}}}
outputs: {out: {http: {url: "http://a/", refuse_addresses: [metadata, nonsense, 10.0.0.0/99]}}}
`)
	if r := flowdtest.Run(t, dir, "", "lint", file); r.Code != 2 ||
		strings.Count(r.Stdout+r.Stderr, "neither a group of addresses nor an address") != 2 {
		t.Errorf("lint exits with %d, want 2 and two errors\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}

func refusedBehindAProxy(t *testing.T) {
	port, reached, _ := countingServer(t, func(http.ResponseWriter, *http.Request) {})
	proxy := "HTTP_PROXY=http://127.0.0.1:" + port
	r, _ := callHTTP(t, "http://169.254.169.254/$(a)", `, refuse_addresses: [metadata, loopback]`, proxy)
	if r.Code == 0 || !strings.Contains(r.Stderr, "refuse_addresses") || reached.Load() != 0 {
		t.Errorf("the address was not refused, %d requests: %s", reached.Load(), r.Stderr)
	}
	if r, dead := callHTTP(t, "http://name.invalid/$(a)", `, refuse_addresses: [metadata, loopback]`,
		proxy); r.Code != 0 || reached.Load() != 1 {
		t.Errorf("the address of the proxy was refused: %s%s", r.Stderr, dead)
	}
}

func pollElsewhere(t *testing.T) {
	elsewhere, reached, _ := countingServer(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[2]") })
	to := "http://localhost:" + elsewhere + "/"
	port, _, credentials := countingServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/redirect" {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
			return
		}
		w.Header().Set("Link", "<"+to+">; rel=next")
		fmt.Fprintf(w, `[{"next": %q}]`, to)
	})
	for path, more := range map[string]string{"redirect": "", "link": ", pages: link", "next": ", next: 'this[0].next'"} {
		dir := t.TempDir()
		file := flowdtest.Write(t, dir, "p.yaml", `
inputs: {in: {http: {url: "http://localhost:`+port+`/`+path+`", headers: {X-Key: "${KEY}"}, auth: {bearer: "${KEY}"}`+more+`}}}
outputs: {out: {stdout: {}}}
`)
		r := flowdtest.Command(t, dir, "", "env", "KEY=a-key-of-the-api", flowdtest.Binary, "-c", file)
		if r.Code != 1 || !strings.Contains(r.Stderr, "is not followed") || strings.Contains(r.Stdout+r.Stderr, "a-key") {
			t.Errorf("%s: %d\n%s%s", path, r.Code, r.Stdout, r.Stderr)
		}
	}
	if reached.Load() != 0 || credentials.Load() != 3 {
		t.Errorf("%d requests went to the other origin, want 0; %d with credentials to the API, want 3", reached.Load(),
			credentials.Load())
	}
}

func redirectElsewhere(t *testing.T) {
	elsewhere, reached, credentials := countingServer(t, func(http.ResponseWriter, *http.Request) {})
	for _, status := range []int{301, 302, 303, 307, 308} {
		home, _, shown := countingServer(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://localhost:"+elsewhere+"/", status)
		})
		r, dead := callHTTP(t, "http://127.0.0.1:"+home+"/",
			`, auth: {bearer: of-the-server}, headers: {X-Key: of-the-server}`)
		if !strings.Contains(r.Stderr, "1 dead-lettered") || !strings.Contains(dead, "not followed") {
			t.Errorf("%d: %s%s", status, r.Stderr, dead)
		}
		if shown.Load() != 1 || strings.Contains(dead, "of-the-server") {
			t.Errorf("%d: the server received credentials %d times, want once, and the dead letter must not contain them: %s", status,
				shown.Load(), dead)
		}
	}
	if reached.Load()+credentials.Load() > 0 {
		t.Errorf("%d requests went to the other origin, %d of them with credentials", reached.Load(), credentials.Load())
	}
}

// grandchild runs a program that starts another in its own session, as a grandchild. flowd
// must kill it, too.
func grandchild(t *testing.T, then string) {
	if runtime.GOOS != "linux" {
		t.Skip("PROCESSES THAT LEAVE THEIR PROCESS GROUP CAN'T BE FOUND ON " + runtime.GOOS)
	}
	setsid, err := exec.LookPath("setsid")
	if err != nil {
		t.Skip("THE PROGRAM setsid IS MISSING")
	}
	for _, mode := range []string{"per_message", "stream"} {
		dir := t.TempDir()
		// The program waits until the grandchild has reported its pid: otherwise it might end
		// before.
		script := fmt.Sprintf(
			`(%s sh -c 'echo $$ > told; mv told pid; exec sleep 600' >/dev/null 2>&1 </dev/null &); until [ -e pid ]; do sleep 0.01; done %s`,
			setsid, then)
		file := flowdtest.Write(t, dir, "p.yaml", `
inputs: {in: {stdin: {}}}
processors: [{exec: {command: [sh, -c, "`+script+`"], mode: `+mode+`}, timeout: 5s, retry: {max_attempts: 1}, on_error: drop}]
outputs: {out: {stdout: {}}}
`)
		p := flowdtest.Start(t, dir, "-c", file)
		p.Send("1\n")
		var told []byte
		for deadline := time.Now().Add(flowdtest.Deadline); told == nil; time.Sleep(10 * time.Millisecond) {
			if told, _ = os.ReadFile(dir + "/pid"); time.Now().After(deadline) {
				t.Fatalf("%s: the grandchild did not start\n%s", mode, p.Stderr.Text())
			}
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(told)))
		if err != nil {
			t.Fatal(err)
		}
		if mode == "stream" {
			p.Stdin.Close() // ends a program that has not been killed
		}
		for deadline := time.Now().Add(flowdtest.Deadline); syscall.Kill(pid,
			0) == nil; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				t.Fatalf("%s: the grandchild %d still runs", mode, pid)
			}
		}
		if mode != "stream" {
			p.Stdin.Close()
		}
		p.Wait().Want(t, 0)
	}
}
