package abuse

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/flowd-io/flowd/test/flowdtest"
)

var httpClients = []attack{
	{"small gzip bodies of millions of lines", millionsOfLines},
	{"many bodies, each within its limits", manyWithinLimits},
	{"CSV rows that become large objects", longRows},
	{"metadata with very many names", manyNames},
	{"gzip bombs, and bombs in bombs", gzipBombs},
	{"silent and slow bodies on all request slots", silentBodies},
	{"declared lengths far above the body", declaredLengths},
	{"endless chunked bodies", endlessChunks},
	{"two requests in one, and headers in headers", smuggling},
	{"paths that a proxy reads differently", otherPaths},
	{"errors that reveal internals", internalErrors},
	{"errors that fill the log", manyErrors},
	{"forged, replayed and postdated webhooks", forgedWebhooks},
	{"9,000 idle connections", idleConnections},
}

// web is a running flowd with an input http_server.
type web struct {
	*flowdtest.Process
	dir, url, address string
}

// serveHTTP starts a pipeline with an http_server. fields are more fields of that input, rest
// the other sections of the file.
func serveHTTP(t *testing.T, fields, rest string) *web {
	t.Helper()
	dir := t.TempDir()
	flowdtest.Write(t, dir, "p.yaml", "inputs: {web: {http_server: {listen: \"127.0.0.1:0\", "+fields+"}}}\n"+rest)
	p := flowdtest.Start(t, dir, "-c", "p.yaml")
	url := regexp.MustCompile(`http://[^\s"]+`).FindString(p.Says("listening on "))
	return &web{p, dir, url, strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/")}
}

const dropOutput = "outputs: {out: {drop: {}}}\n"

// answer is an HTTP response.
type answer struct {
	status int
	body   string
	header http.Header
}

// post sends a body; headers are "Name: value".
func (w *web) post(body []byte, headers ...string) answer {
	w.T.Helper()
	req, err := http.NewRequestWithContext(w.T.Context(), http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		w.T.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: flowdtest.Deadline}
	res, err := client.Do(req)
	if err != nil {
		w.T.Error(err)
		return answer{}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		w.T.Error(err)
	}
	return answer{res.StatusCode, strings.TrimSpace(string(text)), res.Header}
}

// dial connects and writes first.
func (w *web) dial(first string) net.Conn {
	w.T.Helper()
	c, err := net.Dial("tcp", w.address)
	if err == nil {
		w.T.Cleanup(func() { c.Close() })
		err = c.SetDeadline(time.Now().Add(flowdtest.Deadline))
	}
	if err == nil {
		_, err = io.WriteString(c, first)
	}
	if err != nil {
		w.T.Fatal(err)
	}
	return c
}

// serves sends a valid request, and fails the test unless it succeeds.
func (w *web) serves() {
	w.T.Helper()
	if a := w.post([]byte(`{"good": 1}`)); a.status != http.StatusOK {
		w.T.Errorf("a valid request gets %d %s\n%s", a.status, a.body, w.Stderr.Text())
	}
}

// usedAtMost fails the test if the peak memory of the process exceeds most, in MiB.
func (w *web) usedAtMost(most int) {
	w.T.Helper()
	if runtime.GOOS != "linux" {
		w.T.Log("NOT CHECKED: memory of a running process is read from /proc")
		return
	}
	mib, known := w.Peak()
	if !known {
		w.T.Fatalf("flowd has exited\n%s", w.Stderr.Text())
	}
	w.T.Logf("%d MiB", mib)
	if mib > most {
		w.T.Errorf("used %d MiB of memory, want at most %d", mib, most)
	}
}

// stop stops the process and returns its result.
func (w *web) stop() flowdtest.Result {
	w.Signal(syscall.SIGTERM)
	return w.Wait()
}

func packed(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const (
	isLines = "Content-Type: application/x-ndjson"
	isGzip  = "Content-Encoding: gzip"
)

func millionsOfLines(t *testing.T) {
	w := serveHTTP(t, "", dropOutput)
	body := packed(t, bytes.Repeat([]byte("1\n"), 5_200_000))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			a := w.post(body, isLines, isGzip)
			if want := `{"error":"the body has more than 10000 messages (max_messages)","status":413}`; a.status != 413 || a.body != want {
				t.Errorf("got %d and %d bytes: %.200s", a.status, len(a.body), a.body)
			}
		})
	}
	all.Wait()
	w.serves()
	w.usedAtMost(160)
}

// manyWithinLimits sends more requests at once than may wait or be in flight, each with the
// maximum number of messages.
func manyWithinLimits(t *testing.T) {
	w := serveHTTP(t, "max_waiting: 16MiB", "processors: [{filter: raw() != \"2\" and this != nil}]\n"+dropOutput)
	body := packed(t, bytes.Repeat([]byte("1\n2\n{\n"), 3333))
	var all sync.WaitGroup
	var taken atomic.Int64
	for range 60 {
		all.Go(func() {
			a := w.post(body, isLines, isGzip)
			switch a.status {
			case http.StatusBadRequest: // one line of three is not JSON
				taken.Add(1)
				if !strings.Contains(a.body, `"count":9999`) || !strings.Contains(a.body, `"fate":"filtered"`) ||
					len(a.body) > 4<<10 {
					t.Errorf("the answer has %d bytes: %.300s", len(a.body), a.body)
				}
			case http.StatusServiceUnavailable:
			default:
				t.Errorf("got %d %.200s", a.status, a.body)
			}
		})
	}
	all.Wait()
	if taken.Load() == 0 {
		t.Error("no request was accepted")
	}
	w.serves()
	w.usedAtMost(210)
}

// longRows sends CSV rows of commas, which become objects with all names of the header.
func longRows(t *testing.T) {
	w := serveHTTP(t, "framing: csv", dropOutput)
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("%0500d", i))
	}
	row := strings.Repeat(",", len(names)-1) + "\n"
	body := []byte(strings.Join(names, ",") + "\n" + strings.Repeat(row, 5000))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if a := w.post(packed(t, body), isGzip); a.status != 413 {
				t.Errorf("got %d %.200s", a.status, a.body)
			}
		})
	}
	all.Wait()
	w.usedAtMost(210)
}

// manyNames sends messages with as much metadata as fits into a message.
func manyNames(t *testing.T) {
	w := serveHTTP(t, "framing: messages, reply: raw()", dropOutput)
	var meta strings.Builder
	for i := range 80_000 {
		fmt.Fprintf(&meta, `"a%d":1,`, i)
	}
	line := `{"payload":{},"meta":{` + strings.TrimSuffix(meta.String(), ",") + "}}\n"
	if a := w.post([]byte(strings.Repeat(line, 8))); a.status != 200 {
		t.Errorf("got %d %.200s", a.status, a.body)
	}
	w.usedAtMost(210)
}

// gzipBombs sends a body that expands to a thousand times its size, once compressed and twice.
// A step decompresses the second time.
func gzipBombs(t *testing.T) {
	w := serveHTTP(t, "timeout: 1m", "processors: [{decompress: gzip, when: 'meta(\"unpack\") != nil'}]\n"+dropOutput)
	outer, inner := packed(t, make([]byte, 9<<20)), packed(t, packed(t, make([]byte, 100<<20)))
	beyond := packed(t, make([]byte, 11<<20))
	if a := w.post(beyond, isGzip); a.status != 413 {
		t.Errorf("a bomb: got %d %s", a.status, a.body)
	}
	if a := w.post(outer, "Content-Encoding: gzip, gzip"); a.status != 415 {
		t.Errorf("a body that is compressed twice: got %d %s", a.status, a.body)
	}
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			if a := w.post(outer, isGzip); a.status != 200 && a.status != 503 {
				t.Errorf("got %d %s", a.status, a.body)
			}
		})
	}
	all.Go(func() { w.post(inner, isGzip, "unpack: 1") })
	all.Wait()
	if a := w.post(inner, isGzip, "unpack: 1"); a.status != 400 || !strings.Contains(a.body, `"class":"decode"`) {
		t.Errorf("a bomb in a bomb: got %d %s", a.status, a.body)
	}
	w.serves()
	w.usedAtMost(360)
}

const silentHead = "POST / HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"

// silentBodies opens requests that send no body, or a byte every 100 ms, to a server that
// handles one request at a time.
func silentBodies(t *testing.T) {
	w := serveHTTP(t, "max_requests: 1, max_waiting: 1KiB, max_body: 1KiB", dropOutput)
	var conns []net.Conn
	for range 200 {
		conns = append(conns, w.dial(silentHead+"Content-Length: 1000\r\n\r\n"))
	}
	slow := w.dial(silentHead + "Content-Length: 1000\r\n\r\n")
	var drips sync.WaitGroup
	drips.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for n := 0; n < 999; n++ {
			if _, err := io.WriteString(slow, "1"); err != nil {
				return
			}
			<-tick.C
		}
	})
	for range 5 {
		w.serves()
	}
	for _, c := range append(conns, slow) {
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("a silent client gets no response: %v", err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusRequestTimeout || !res.Close {
			t.Fatalf("a silent client gets %s, close %t, want 408 and close", res.Status, res.Close)
		}
		c.Close()
	}
	drips.Wait()
	w.serves()
}

func declaredLengths(t *testing.T) {
	w := serveHTTP(t, "", dropOutput)
	for range connections(t, 2000) {
		w.dial(silentHead + "Content-Length: 10485760\r\n\r\n1")
	}
	w.serves()
	w.usedAtMost(95)
	if a := w.post(nil); a.status != 200 {
		t.Errorf("an empty body: got %d %s", a.status, a.body)
	}
	c := w.dial(silentHead + "Content-Length: 10485761\r\n\r\n1")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 413 || !res.Close {
		t.Errorf("a length above max_body: got %s, close %t", res.Status, res.Close)
	}
}

func endlessChunks(t *testing.T) {
	w := serveHTTP(t, "", dropOutput)
	c := w.dial(silentHead + "Transfer-Encoding: chunked\r\n\r\n")
	var sender sync.WaitGroup
	sender.Go(func() {
		chunk := "10000\r\n" + strings.Repeat("x", 1<<16) + "\r\n"
		for range 1000 {
			if _, err := io.WriteString(c, chunk); err != nil {
				return // the server has closed the connection
			}
		}
		t.Error("the server accepted 64 MiB")
	})
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	switch {
	case errors.Is(err, syscall.ECONNRESET): // the server reset the connection during the upload
	case err != nil:
		t.Error(err)
	default:
		res.Body.Close()
		if res.StatusCode != 413 || !res.Close {
			t.Errorf("got %s, close %t", res.Status, res.Close)
		}
	}
	c.Close()
	sender.Wait()
	w.serves()
	w.usedAtMost(110)
}

// smuggling sends data that one server may parse as one request and another as two.
func smuggling(t *testing.T) {
	w := serveHTTP(t, "path: /in",
		"processors: [{set: {path: meta(\"http_path\"), evil: 'meta(\"evil\") ?? meta(\"http_remote_user\")'}}]\noutputs: {out: {file: {path: "+
			"out.ndjson}}}\n")
	w.address, _, _ = strings.Cut(w.address, "/")
	second := "POST /in HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n{\"bad\":1}"
	tests := []struct {
		name, head, body string
		refused          bool // otherwise the message is accepted
	}{
		{"a length, and chunks", "Content-Length: 9\r\nTransfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n" + second, false},
		{"two lengths", "Content-Length: 2\r\nContent-Length: 90\r\n", "{}" + second, true},
		{"a signed length", "Content-Length: +2\r\n", "{}" + second, true},
		{"another coding", "Transfer-Encoding: xchunked\r\n", "0\r\n\r\n" + second, true},
		{"two codings", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n" + second, true},
		{"a space in front of the colon", "Transfer-Encoding : chunked\r\nContent-Length: 2\r\n", "{}" + second, true},
		{"a chunk size without a carriage return", "Transfer-Encoding: chunked\r\n", "2\n{}\r\n0\r\n\r\n" + second, true},
		{"a carriage return in a header", "X-A: a\rEvil: b\r\nContent-Length: 2\r\n", "{}", true},
		{"a zero byte in a header", "X-A: a\x00\r\nContent-Length: 2\r\n", "{}", true},
		{"a header on two lines", "X-A: a\r\n Evil: b\r\nContent-Length: 2\r\n", "{}", false},
		{"a header with the name of flowd's metadata", "http_path: /evil\r\nhttp_remote_user: evil\r\nContent-Length: 2\r\n", "{}",
			false},
	}
	good := 0
	for _, tt := range tests {
		c := w.dial("POST /in HTTP/1.1\r\nHost: h\r\n" + tt.head + "\r\n" + tt.body)
		r := bufio.NewReader(c)
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		switch {
		case tt.refused:
			if res.StatusCode < 400 {
				t.Errorf("%s: got %s", tt.name, res.Status)
			}
		default:
			if good++; res.StatusCode != 200 {
				t.Errorf("%s: got %s", tt.name, res.Status)
			}
		}
		if strings.HasSuffix(tt.body, second) {
			if res, err := http.ReadResponse(r, nil); err == nil {
				res.Body.Close()
				t.Errorf("%s: the smuggled request gets %s", tt.name, res.Status)
			}
		}
		c.Close()
	}
	w.stop()
	got := flowdtest.Read(t, w.dir, "out.ndjson")
	if want := strings.Repeat(`{"path":"/in","evil":null}`+"\n", good); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// otherPaths sends paths that look as if they were below the path of the input.
func otherPaths(t *testing.T) {
	w := serveHTTP(t, "path: /events/", dropOutput)
	w.address, _, _ = strings.Cut(w.address, "/")
	c := w.dial("")
	r := bufio.NewReader(c)
	for path, status := range map[string]int{
		"/events/": 200, "/events/a/b": 200, "/events/a%2Fb": 200, "/events/../admin": 404, "/events/%2e%2E/admin": 404,
		"/events/..%2fadmin": 404, "/events%2fa": 404, "//events/a": 404, "/events//a": 404, "/events/..;/admin": 404,
		"/events/..%5cadmin": 404, "/events/..": 404,
	} {
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}", path)
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if res.StatusCode != status {
			t.Errorf("%s gets %s, want %d", path, res.Status, status)
		}
		if res.Close { // the server has not read the whole request
			c = w.dial("")
			r.Reset(c)
		}
	}
	w.stop()
}

// internalErrors makes steps fail with errors that clients must not see.
func internalErrors(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "password=hunter2", http.StatusBadRequest)
	}))
	defer other.Close()
	rest := `
processors:
  - exec: {command: [sh, -c, "echo password=hunter2 at /srv/secret >&2; exit 1"]}
    when: kind == "command"
  - set: {n: internal_field + 1}
    when: kind == "expression"
  - validate: {properties: {total: {type: number}}}
outputs: {out: {http: {url: "` + other.URL + `/internal"}}}
`
	inside := regexp.MustCompile(`hunter2|/srv|internal|exit status|refused`)
	ref := regexp.MustCompile(`"ref":"(\w+)"`)
	tests := []struct {
		body, told string
		status     int
	}{
		{`{"kind": "command"}`, `"class":"permanent"`, 422},
		{`{"kind": "expression", "internal_field": "x"}`, `"class":"expression"`, 422},
		{`{"kind": "write"}`, `"class":"rejected"`, 422},
		{`{"kind": "total", "total": "x"}`, `"error":"/total: `, 422},
		{`{"kind": `, `"error":"not a JSON document: unexpected end of document at byte 9"`, 400},
	}
	hides, shows := serveHTTP(t, "", rest), serveHTTP(t, "expose_errors: true", rest)
	for _, tt := range tests {
		for _, list := range []bool{false, true} {
			body, headers := tt.body, []string{}
			if list {
				body, headers = tt.body+"\n"+tt.body, []string{isLines}
			}
			a := hides.post([]byte(body), headers...)
			if !strings.Contains(a.body, tt.told) || a.status != tt.status || inside.MatchString(a.body) {
				t.Errorf("%s: got %d %s, want %d and %s", tt.body, a.status, a.body, tt.status, tt.told)
			}
			if m := ref.FindStringSubmatch(a.body); m != nil {
				if line := hides.Says("ref=" + m[1]); !inside.MatchString(line) {
					t.Errorf("%s: the log line with the reference %s lacks the details: %s", tt.body, m[1], line)
				}
			} else if !strings.Contains(a.body, `"error"`) {
				t.Errorf("%s: the response has neither an error nor a reference: %s", tt.body, a.body)
			}
			if a := shows.post([]byte(body), headers...); ref.MatchString(a.body) ||
				!strings.Contains(a.body, `"error"`) {
				t.Errorf("%s with expose_errors: got %s", tt.body, a.body)
			}
		}
	}
}

// manyErrors sends a body that causes a thousand different errors.
func manyErrors(t *testing.T) {
	w := serveHTTP(t, "", "processors: [{fail: 'no $(raw())'}]\n"+dropOutput)
	var body strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&body, "%d\n", i)
	}
	a := w.post([]byte(body.String()), isLines)
	if a.status != 422 || !strings.Contains(a.body, `"count":1000`) || len(a.body) > 8<<10 {
		t.Errorf("got %d and %d bytes: %.300s", a.status, len(a.body), a.body)
	}
	if lines := strings.Count(w.stop().Stderr, "\n"); lines > 150 {
		t.Errorf("the log has %d lines", lines)
	}
}

// forgedWebhooks sends webhooks with Stripe's signatures, most of them invalid.
func forgedWebhooks(t *testing.T) {
	w := serveHTTP(t,
		`auth: {hmac: {header: Stripe-Signature, secret: "${SECRET:-whsec}", prefix: "v1=", timestamp: {field: t}}}`,
		"outputs: {out: {file: {path: out.ndjson}}}\n")
	now, sign := time.Now().Unix(), func(at int64, body, secret string) string {
		mac := hmac.New(sha256.New, []byte(secret))
		fmt.Fprintf(mac, "%d.%s", at, body)
		return hex.EncodeToString(mac.Sum(nil))
	}
	const body = `{"paid":1}`
	whole := func(at int64, signature string) string {
		return fmt.Sprintf("Stripe-Signature: t=%d,v1=%s", at, signature)
	}
	tests := []struct {
		name, header string
		status       int
	}{
		{"no signature", "X: y", 401},
		{"an empty header", "Stripe-Signature: ", 401},
		{"without a time", "Stripe-Signature: v1=" + sign(now, body, "whsec"), 401},
		{"without a signature", fmt.Sprintf("Stripe-Signature: t=%d", now), 401},
		{"an empty signature", whole(now, ""), 401},
		{"another secret", whole(now, sign(now, body, "other")), 401},
		{"another body", whole(now, sign(now, `{"paid":2}`, "whsec")), 401},
		{"half a signature", whole(now, sign(now, body, "whsec")[:32]), 401},
		{"replayed an hour later", whole(now-3600, sign(now-3600, body, "whsec")), 401},
		{"replayed under a new time", whole(now, sign(now-3600, body, "whsec")), 401},
		{"from the future", whole(now+3600, sign(now+3600, body, "whsec")), 401},
		{"two times", fmt.Sprintf("Stripe-Signature: t=%d,t=%d,v1=%s", now-3600, now, sign(now, body, "whsec")), 401},
		{"a valid signature", whole(now, sign(now, body, "whsec")), 200},
		{"a valid signature among others", fmt.Sprintf("Stripe-Signature: t=%d,v1=%s,v0=1,v1=%s", now, sign(now, body, "old"),
			sign(now, body, "whsec")), 200},
	}
	for _, tt := range tests {
		if a := w.post([]byte(body), tt.header); a.status != tt.status {
			t.Errorf("%s: got %d %s, want %d", tt.name, a.status, a.body, tt.status)
		}
	}
	w.stop()
	if got := flowdtest.Read(t, filepath.Join(w.dir, "out.ndjson")); got != body+"\n"+body+"\n" {
		t.Errorf("the output has %q, want two messages", got)
	}
}

// connections returns n, or less if this process can't have so many file descriptors.
func connections(t *testing.T, n int) int {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if most := (int(limit.Cur) - 500) / 2; n > most { //nolint:gosec // a number of files
		t.Logf("ONLY %d CONNECTIONS INSTEAD OF %d: there are %d file descriptors", most, n, limit.Cur)
		return most
	}
	return n
}

// idleConnections keeps as many connections open as a busy server has, and sends nothing.
func idleConnections(t *testing.T) {
	n := connections(t, 9000)
	w := serveHTTP(t, "", dropOutput)
	for range n {
		w.dial("")
	}
	w.serves()
	w.usedAtMost(95)
	w.stop()
}
