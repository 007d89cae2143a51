package abuse

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/testing/fakeazure"
	"github.com/flowd-io/flowd/internal/testing/fakegcs"
	"github.com/flowd-io/flowd/internal/testing/fakes3"
	"github.com/flowd-io/flowd/internal/testing/fakesqs"
	"github.com/flowd-io/flowd/test/flowdtest"
)

// webServers are hostile HTTP servers.
var webServers = []attack{
	{"http: the step", httpStep},
	{"http: the output", httpOutput},
	{"http: the input", httpInput},
	{"http: tables", httpTable},
	{"http: tokens", httpTokens},
	{"http: events", httpEvents},
	{"schema registry", schemaRegistry},
	{"s3: the input", s3Input},
	{"s3: the output", s3Output},
	{"gcs: the input", gcsInput},
	{"azure_blob: the input", azureInput},
	{"sqs: the input", sqsInput},
	{"clickhouse", clickHouse},
}

// httpForm has the parts for large bodies in a format that a client reads as a whole.
type httpForm struct {
	kind          string // Content-Type
	begin, middle string // of a document with an endless string
	values        string // one of many values
	nested        string // a level of nesting
}

var (
	inJSON = httpForm{"application/json", `{"a": "`, "xxxxxxxx", "{},", `{"a":[`}
	inXML  = httpForm{"application/xml", `<?xml version="1.0"?><a>`, "xxxxxxxx", "<Contents/>", "<a>"}
)

const (
	okChunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: "
	noChunks = "HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\nContent-Type: "
)

// chunk encodes text, repeated up to 32 KiB, as a chunk of HTTP.
func chunk(text string) string {
	text = strings.Repeat(text, 32<<10/len(text))
	return fmt.Sprintf("%x\r\n%s\r\n", len(text), text)
}

// httpBomb is a small response that is large when decompressed.
var httpBomb = sync.OnceValue(func() string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
	_ = w.Close()
	all := strings.Repeat(b.String(), 128) // gzip members can be concatenated
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s",
		len(all), all)
})

// httpFrames are responses with invalid or endless headers or framing.
func httpFrames(word string) []serverAttack {
	return []serverAttack{
		onRequestFlood(word, "an endless header", "HTTP/1.1 200 OK\r\nX-A: ", "x"),
		onRequestFlood(word, "endless headers", "HTTP/1.1 200 OK\r\n", "X-A: b\r\n"),
		onRequestFlood(word, "an endless status", "HTTP/1.1 200 ", "x"),
		onRequestFlood(word, "endless interim responses", "", "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"),
		onRequestFlood(word, "endless trailers", okChunks+"text/plain\r\n\r\n0\r\n", "X-A: b\r\n"),
		onRequestFlood(word, "an endless chunk extension", okChunks+"text/plain\r\n\r\n1;", "x"),
		onRequestSend(word, "a chunk of 2^64 bytes", okChunks+"text/plain\r\n\r\nFFFFFFFFFFFFFFF0\r\nx"),
		onRequestSend(word, "a length of 2^63 bytes", "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\nx"),
		onRequestSend(word, "a negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nx"),
		onRequestSend(word, "half a response", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"a"),
		onRequestSend(word, "a negative status", "HTTP/1.1 -1 OK\r\nContent-Length: 0\r\n\r\n"),
		onRequestSend(word, "another protocol", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
	}
}

// httpBodies are responses with bodies that are too large.
func httpBodies(word string, f httpForm) []serverAttack {
	ok, no := okChunks+f.kind+"\r\n\r\n", noChunks+f.kind+"\r\n\r\n"
	begin := fmt.Sprintf("%x\r\n%s\r\n", len(f.begin), f.begin)
	return []serverAttack{
		onRequestFlood(word, "an endless string", ok+begin, chunk(f.middle)),
		onRequestFlood(word, "endless values", ok, chunk(f.values)),
		onRequestFlood(word, "endless nesting", ok, chunk(f.nested)),
		onRequestFlood(word, "an endless error", no+begin, chunk(f.middle)),
		onRequestFlood(word, "an endless body", "HTTP/1.1 200 OK\r\nContent-Type: "+f.kind+"\r\n\r\n"+f.begin, f.middle),
		{name: "a gzip bomb, in response to " + word, run: func(c net.Conn, s *standin, nth int) {
			onRequestSend(word, "", httpBomb()).run(c, s, nth)
		}},
	}
}

// goodWeb is a server that answers each request and records its body.
type goodWeb struct {
	*httptest.Server
	mu  sync.Mutex
	got []string
}

func startWeb(t *testing.T, answer func(r *http.Request, body string) string) *goodWeb {
	t.Helper()
	w := &goodWeb{}
	w.Server = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.mu.Lock()
		w.got = append(w.got, string(body))
		w.mu.Unlock()
		out.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(out, answer(r, string(body)))
	}))
	t.Cleanup(w.Close)
	return w
}

func (w *goodWeb) host() string { return w.Listener.Addr().String() }

func waitForDocument(p *flowdtest.Process, id string) {
	p.T.Helper()
	waitForLine(p, fmt.Sprintf(`{"id": %q}`, id))
}

// sendDocument sends a document with an id to stdin.
func sendDocument(p *flowdtest.Process, id string) { p.Send(fmt.Sprintf("{\"id\": %q}\n", id)) }

func httpStep(t *testing.T) {
	w := startWeb(t, func(*http.Request, string) string { return "{}" })
	survivesAttacks(t, client{
		config: `
inputs: {in: {stdin: {}}}
processors:
  - {http: {url: "http://ADDR/step", into: got, max_response: 1MiB}, timeout: 1s, on_error: continue, ` + retryForever + `}
  - {keep: [id]}
outputs: {out: {stdout: {}}}
`,
		good:    w.host(),
		send:    sendDocument,
		arrives: waitForDocument,
	}, slices.Concat(genericAttacks(), httpFrames("/step"), httpBodies("/step", inJSON))...)
}

func httpOutput(t *testing.T) {
	w := startWeb(t, func(*http.Request, string) string { return "" })
	survivesAttacks(t, client{
		config: `
inputs: {in: {stdin: {}}}
outputs: {out: {http: {url: "http://ADDR/write"}, timeout: 1s, ` + retryWrites + `}}
`,
		good:    w.host(),
		send:    sendDocument,
		arrives: w.arrives,
	}, append(httpFrames("/write")[:4], httpBodies("/write", inJSON)[3])...) // status 200 would mean success
}

// arrives waits until the server has received a body with the id.
func (w *goodWeb) arrives(p *flowdtest.Process, id string) {
	waitFor(p, id, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return strings.Contains(strings.Join(w.got, "\n"), fmt.Sprintf("%q", id))
	})
}

func httpInput(t *testing.T) {
	var now atomic.Value
	w := startWeb(t, func(*http.Request, string) string { return fmt.Sprintf(`[{"id": %q}]`, now.Load()) })
	survivesAttacks(t, client{
		config: `
inputs: {in: {http: {url: "http://ADDR/poll", interval: 20ms, timeout: 1s, max_body: 1MiB}}}
outputs: {out: {stdout: {}}}
`,
		good:    w.host(),
		send:    func(_ *flowdtest.Process, id string) { now.Store(id) },
		arrives: waitForDocument,
	}, slices.Concat(httpFrames("/poll"), httpBodies("/poll", inJSON))...)
}

func httpTable(t *testing.T) {
	var now atomic.Value
	w := startWeb(t, func(*http.Request, string) string { return fmt.Sprintf(`[{"k": 1, "v": %q}]`, now.Load()) })
	survivesAttacks(t, client{
		config: `
inputs: {in: {generate: {interval: 20ms, body: '{k: 1}'}}}
resources: {tables: {t: {url: "http://ADDR/table.json", key: k, interval: 1s, timeout: 1s, max_size: 1MiB}}}
processors: [{map: 'lookup("t", 1).v'}]
outputs: {out: {stdout: {}}}
`,
		good:    w.host(),
		send:    func(_ *flowdtest.Process, id string) { now.Store(id) },
		arrives: func(p *flowdtest.Process, id string) { waitForLine(p, fmt.Sprintf("%q", id)) },
	}, httpBodies("/table.json", inJSON)[:2]...)
}

// store returns an input and an output of an object store. The name of each object is its content, too.
func store(kind, fields string, good func() string, keys func() []string, put func(key, body string)) (in, out client) {
	in = client{
		config: `
inputs: {in: {` + kind + `: {` + fields + `, prefix: in/, interval: 20ms}}}
outputs: {out: {stdout: {}}}
`,
		good:    good(),
		send:    func(_ *flowdtest.Process, id string) { put("in/"+id, id) },
		arrives: waitForLine,
	}
	out = client{
		config: `
inputs: {in: {stdin: {}}}
outputs: {out: {` + kind + `: {` + fields + `, key: 'out/$(id)'}, timeout: 10s, ` + retryWrites + `}}
`,
		good: good(),
		send: sendDocument,
		arrives: func(p *flowdtest.Process, id string) {
			waitFor(p, id, func() bool { return slices.Contains(keys(), "out/"+id) })
		},
	}
	return in, out
}

func s3Store(t *testing.T) (in, out client) {
	s := fakes3.Start(t)
	return store("s3", strings.ReplaceAll(s.Fields(), s.URL, "http://ADDR"), func() string { return hostOf(s.URL) },
		func() []string { return s.Keys(t) }, func(key, body string) { s.Put(t, key, body) })
}

func s3Input(t *testing.T) {
	in, _ := s3Store(t)
	survivesAttacks(t, in, slices.Concat(httpFrames("list-type=2")[:4], httpBodies("list-type=2", inXML))...)
}

func s3Output(t *testing.T) {
	_, out := s3Store(t)
	survivesAttacks(t, out, httpBodies("put /", inXML)[3])
}

func gcsInput(t *testing.T) {
	s := fakegcs.Start(t)
	in, _ := store("gcs", `bucket: bucket, endpoint: "http://ADDR", anonymous: true`, func() string { return hostOf(s.URL) },
		s.Keys, s.Put)
	survivesAttacks(t, in, httpBodies("/o?", inJSON)...)
}

func azureInput(t *testing.T) {
	s := fakeazure.Start(t)
	in, _ := store("azure_blob", `account: account, container: container, endpoint: "http://ADDR/account", account_key: a2V5`,
		func() string { return hostOf(s.URL) }, s.Keys, s.Put)
	survivesAttacks(t, in, httpBodies("comp=list", inXML)...)
}

func sqsInput(t *testing.T) {
	s := fakesqs.New()
	t.Cleanup(s.Close)
	s.Create("q", fakesqs.Queue{Visibility: time.Second})
	survivesAttacks(t, client{
		config: `
inputs:
  in:
    sqs: {queue: q, endpoint: "http://ADDR", region: us-east-1, wait: 1s, credentials: {access_key_id: a, secret_access_key: b}}
outputs: {out: {stdout: {}}}
`,
		good:    hostOf(s.Listen()),
		send:    func(_ *flowdtest.Process, id string) { s.Put("q", id) },
		arrives: waitForLine,
	}, httpBodies("amazonsqs.receivemessage", inJSON)...)
}

func clickHouse(t *testing.T) {
	w := startWeb(t, func(_ *http.Request, body string) string {
		if strings.Contains(body, "system.settings") {
			return "wait_end_of_query\n"
		}
		return "{\"n\":1}\n"
	})
	survivesAttacks(t, client{
		config: `
inputs: {in: {stdin: {}}}
processors:
  - {sql: {driver: clickhouse, dsn: "http://u:p@ADDR/d", query: SELECT 1 AS n, into: got, max_row: 1MiB}, timeout: 1s, on_error: continue, ` + retryForever + `}
  - {keep: [id]}
outputs: {out: {stdout: {}}}
`,
		good:    w.host(),
		send:    sendDocument,
		arrives: waitForDocument,
	}, slices.Concat(httpBodies("select 1 as n", inJSON), httpBodies("system.settings", inJSON)[3:4])...)
}

func httpTokens(t *testing.T) {
	step := startWeb(t, func(*http.Request, string) string { return "{}" })
	w := startWeb(t, func(*http.Request, string) string {
		return `{"access_token": "t", "token_type": "bearer", "expires_in": 1}` // so that each request needs a token
	})
	survivesAttacks(t, client{
		config: `
inputs: {in: {stdin: {}}}
processors:
  - http: {url: "http://` + step.host() + `/", into: got, auth: {oauth2: {token_url: "http://ADDR/token", client_id: c, client_secret: s}}}
    timeout: 1s
    on_error: continue
    ` + retryForever + `
  - {keep: [id]}
outputs: {out: {stdout: {}}}
`,
		good:    w.host(),
		send:    sendDocument,
		arrives: waitForDocument,
	}, oneConnection(append(httpFrames("/token")[:4], httpBodies("/token", inJSON)[0]))...) // the last is not retried
}

func schemaRegistry(t *testing.T) {
	w := startWeb(t, func(*http.Request, string) string { return `{"schema": "{}", "schemaType": "JSON"}` })
	n := uint32(0)
	survivesAttacks(t, client{
		config: `
inputs: {in: {stdin: {}}}
resources: {registries: {main: {url: "http://ADDR", timeout: 1s}}}
processors:
  - {decode: {json_schema: {registry: main}, from: p, into: got}, on_error: continue, ` + retryForever + `}
  - {keep: [id]}
outputs: {out: {stdout: {}}}
`,
		good: w.host(),
		send: func(p *flowdtest.Process, id string) { // each message with a new schema
			n++
			payload := append(binary.BigEndian.AppendUint32([]byte{0}, n), "{}"...)
			p.Send(fmt.Sprintf("{\"id\": %q, \"p\": %q}\n", id, base64.StdEncoding.EncodeToString(payload)))
		},
		arrives: waitForDocument,
	}, oneConnection(slices.Concat(httpFrames("/schemas/ids/")[:4], httpBodies("/schemas/ids/", inJSON)))...)
}

func httpEvents(t *testing.T) {
	var now atomic.Value
	w := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		out.Header().Set("Content-Type", "text/event-stream")
		for err := error(nil); err == nil && r.Context().Err() == nil; time.Sleep(20 * time.Millisecond) {
			_, err = fmt.Fprintf(out, "data: {\"id\": %q}\n\n", now.Load())
			out.(http.Flusher).Flush()
		}
	}))
	t.Cleanup(w.Close)
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
	survivesAttacks(t, client{
		config: `
inputs: {in: {http: {url: "http://ADDR/events", stream: sse, timeout: 1s, max_record: 1MiB}}}
outputs: {out: {stdout: {}}}
`,
		good:    w.Listener.Addr().String(),
		send:    func(_ *flowdtest.Process, id string) { now.Store(id) },
		arrives: waitForDocument,
	},
		onRequestFlood("/events", "endless lines of an event", ok, "data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"),
		onRequestSend("/events", "a retry delay of years", ok+"retry: 99999999999999999999\n\n"),
	)
}

// oneConnection limits each attack to one connection, for clients that don't retry.
func oneConnection(all []serverAttack) []serverAttack {
	for i := range all {
		all[i].connections = 1
	}
	return all
}
