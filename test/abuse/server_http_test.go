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

// webServers speak HTTP.
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

// httpForm is what a body looks like that a client reads as a whole.
type httpForm struct {
	kind          string
	begin, middle string // of a text without end
	values        string // of many values, which are to follow each other
	nested        string
}

var (
	inJSON = httpForm{"application/json", `{"a": "`, "xxxxxxxx", "{},", `{"a":[`}
	inXML  = httpForm{"application/xml", `<?xml version="1.0"?><a>`, "xxxxxxxx", "<Contents/>", "<a>"}
)

const (
	okChunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: "
	noChunks = "HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\nContent-Type: "
)

// chunk is text, many times, as a chunk of HTTP.
func chunk(text string) string {
	text = strings.Repeat(text, 32<<10/len(text))
	return fmt.Sprintf("%x\r\n%s\r\n", len(text), text)
}

// httpBomb is an answer that is small until it is decompressed.
var httpBomb = sync.OnceValue(func() string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
	_ = w.Close()
	all := strings.Repeat(b.String(), 128) // members follow each other
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s",
		len(all), all)
})

// httpFrames are answers that are wrong or without end before their body is looked at.
func httpFrames(word string) []ill {
	return []ill{
		uponFloods(word, "a header without end", "HTTP/1.1 200 OK\r\nX-A: ", "x"),
		uponFloods(word, "headers without end", "HTTP/1.1 200 OK\r\n", "X-A: b\r\n"),
		uponFloods(word, "a status without end", "HTTP/1.1 200 ", "x"),
		uponFloods(word, "answers to come without end", "", "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"),
		uponFloods(word, "trailers without end", okChunks+"text/plain\r\n\r\n0\r\n", "X-A: b\r\n"),
		uponFloods(word, "what a chunk says of itself, without end", okChunks+"text/plain\r\n\r\n1;", "x"),
		uponSays(word, "a chunk of more than there is", okChunks+"text/plain\r\n\r\nFFFFFFFFFFFFFFF0\r\nx"),
		uponSays(word, "a length of more than there is", "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\nx"),
		uponSays(word, "a length below nothing", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nx"),
		uponSays(word, "half an answer", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"a"),
		uponSays(word, "a status that is none", "HTTP/1.1 -1 OK\r\nContent-Length: 0\r\n\r\n"),
		uponSays(word, "another protocol", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
	}
}

// httpBodies are answers that are too large, in what a client reads as a whole.
func httpBodies(word string, f httpForm) []ill {
	ok, no := okChunks+f.kind+"\r\n\r\n", noChunks+f.kind+"\r\n\r\n"
	begin := fmt.Sprintf("%x\r\n%s\r\n", len(f.begin), f.begin)
	return []ill{
		uponFloods(word, "a text without end", ok+begin, chunk(f.middle)),
		uponFloods(word, "values without end", ok, chunk(f.values)),
		uponFloods(word, "nesting without end", ok, chunk(f.nested)),
		uponFloods(word, "an error without end", no+begin, chunk(f.middle)),
		uponFloods(word, "a body without end", "HTTP/1.1 200 OK\r\nContent-Type: "+f.kind+"\r\n\r\n"+f.begin, f.middle),
		{name: "a bomb, upon " + word, does: func(c net.Conn, s *standin, nth int) {
			uponSays(word, "", httpBomb()).does(c, s, nth)
		}},
	}
}

// goodWeb answers each request, and keeps bodies.
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

func printsID(p *flowdtest.Process, id string) {
	p.T.Helper()
	prints(p, fmt.Sprintf(`{"id": %q}`, id))
}

// sends sends an id as a document.
func sends(p *flowdtest.Process, id string) { p.Send(fmt.Sprintf("{\"id\": %q}\n", id)) }

func httpStep(t *testing.T) {
	w := startWeb(t, func(*http.Request, string) string { return "{}" })
	survives(t, uses{
		config: `
inputs: {in: {stdin: {}}}
processors:
  - {http: {url: "http://ADDR/step", into: got, max_response: 1MiB}, timeout: 1s, on_error: continue, ` + tryAgain + `}
  - {keep: [id]}
outputs: {out: {stdout: {}}}
`,
		good:    w.host(),
		send:    sends,
		arrives: printsID,
	}, slices.Concat(anything(), httpFrames("/step"), httpBodies("/step", inJSON))...)
}

func httpOutput(t *testing.T) {
	w := startWeb(t, func(*http.Request, string) string { return "" })
	survives(t, uses{
		config: `
inputs: {in: {stdin: {}}}
outputs: {out: {http: {url: "http://ADDR/write"}, timeout: 1s, ` + writes + `}}
`,
		good:    w.host(),
		send:    sends,
		arrives: w.arrives,
	}, append(httpFrames("/write")[:4], httpBodies("/write", inJSON)[3])...) // a success would be a lie that nobody can see
}

// arrives waits for a body.
func (w *goodWeb) arrives(p *flowdtest.Process, id string) {
	until(p, id, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return strings.Contains(strings.Join(w.got, "\n"), fmt.Sprintf("%q", id))
	})
}

func httpInput(t *testing.T) {
	var now atomic.Value
	w := startWeb(t, func(*http.Request, string) string { return fmt.Sprintf(`[{"id": %q}]`, now.Load()) })
	survives(t, uses{
		config: `
inputs: {in: {http: {url: "http://ADDR/poll", interval: 20ms, timeout: 1s, max_body: 1MiB}}}
outputs: {out: {stdout: {}}}
`,
		good:    w.host(),
		send:    func(_ *flowdtest.Process, id string) { now.Store(id) },
		arrives: printsID,
	}, slices.Concat(httpFrames("/poll"), httpBodies("/poll", inJSON))...)
}

func httpTable(t *testing.T) {
	var now atomic.Value
	w := startWeb(t, func(*http.Request, string) string { return fmt.Sprintf(`[{"k": 1, "v": %q}]`, now.Load()) })
	survives(t, uses{
		config: `
inputs: {in: {generate: {interval: 20ms, body: '{k: 1}'}}}
resources: {tables: {t: {url: "http://ADDR/table.json", key: k, interval: 1s, timeout: 1s, max_size: 1MiB}}}
processors: [{map: 'lookup("t", 1).v'}]
outputs: {out: {stdout: {}}}
`,
		good:    w.host(),
		send:    func(_ *flowdtest.Process, id string) { now.Store(id) },
		arrives: func(p *flowdtest.Process, id string) { prints(p, fmt.Sprintf("%q", id)) },
	}, httpBodies("/table.json", inJSON)[:2]...)
}

// writes are of objects, whose content the key repeats.
func store(kind, fields string, good func() string, keys func() []string, put func(key, body string)) (in, out uses) {
	in = uses{
		config: `
inputs: {in: {` + kind + `: {` + fields + `, prefix: in/, interval: 20ms}}}
outputs: {out: {stdout: {}}}
`,
		good:    good(),
		send:    func(_ *flowdtest.Process, id string) { put("in/"+id, id) },
		arrives: prints,
	}
	out = uses{
		config: `
inputs: {in: {stdin: {}}}
outputs: {out: {` + kind + `: {` + fields + `, key: 'out/$(id)'}, timeout: 10s, ` + writes + `}}
`,
		good: good(),
		send: sends,
		arrives: func(p *flowdtest.Process, id string) {
			until(p, id, func() bool { return slices.Contains(keys(), "out/"+id) })
		},
	}
	return in, out
}

func s3Store(t *testing.T) (in, out uses) {
	s := fakes3.Start(t)
	return store("s3", strings.ReplaceAll(s.Fields(), s.URL, "http://ADDR"), func() string { return hostOf(s.URL) },
		func() []string { return s.Keys(t) }, func(key, body string) { s.Put(t, key, body) })
}

func s3Input(t *testing.T) {
	in, _ := s3Store(t)
	survives(t, in, slices.Concat(httpFrames("list-type=2")[:4], httpBodies("list-type=2", inXML))...)
}

func s3Output(t *testing.T) {
	_, out := s3Store(t)
	survives(t, out, httpBodies("put /", inXML)[3])
}

func gcsInput(t *testing.T) {
	s := fakegcs.Start(t)
	in, _ := store("gcs", `bucket: bucket, endpoint: "http://ADDR", anonymous: true`, func() string { return hostOf(s.URL) },
		s.Keys, s.Put)
	survives(t, in, httpBodies("/o?", inJSON)...)
}

func azureInput(t *testing.T) {
	s := fakeazure.Start(t)
	in, _ := store("azure_blob", `account: account, container: container, endpoint: "http://ADDR/account", account_key: a2V5`,
		func() string { return hostOf(s.URL) }, s.Keys, s.Put)
	survives(t, in, httpBodies("comp=list", inXML)...)
}

func sqsInput(t *testing.T) {
	s := fakesqs.New()
	t.Cleanup(s.Close)
	s.Create("q", fakesqs.Queue{Visibility: time.Second})
	survives(t, uses{
		config: `
inputs:
  in:
    sqs: {queue: q, endpoint: "http://ADDR", region: us-east-1, wait: 1s, credentials: {access_key_id: a, secret_access_key: b}}
outputs: {out: {stdout: {}}}
`,
		good:    hostOf(s.Listen()),
		send:    func(_ *flowdtest.Process, id string) { s.Put("q", id) },
		arrives: prints,
	}, httpBodies("amazonsqs.receivemessage", inJSON)...)
}

func clickHouse(t *testing.T) {
	w := startWeb(t, func(_ *http.Request, body string) string {
		if strings.Contains(body, "system.settings") {
			return "wait_end_of_query\n"
		}
		return "{\"n\":1}\n"
	})
	survives(t, uses{
		config: `
inputs: {in: {stdin: {}}}
processors:
  - {sql: {driver: clickhouse, dsn: "http://u:p@ADDR/d", query: SELECT 1 AS n, into: got, max_row: 1MiB}, timeout: 1s, on_error: continue, ` + tryAgain + `}
  - {keep: [id]}
outputs: {out: {stdout: {}}}
`,
		good:    w.host(),
		send:    sends,
		arrives: printsID,
	}, slices.Concat(httpBodies("select 1 as n", inJSON), httpBodies("system.settings", inJSON)[3:4])...)
}

func httpTokens(t *testing.T) {
	step := startWeb(t, func(*http.Request, string) string { return "{}" })
	w := startWeb(t, func(*http.Request, string) string {
		return `{"access_token": "t", "token_type": "bearer", "expires_in": 1}` // for one request
	})
	survives(t, uses{
		config: `
inputs: {in: {stdin: {}}}
processors:
  - http: {url: "http://` + step.host() + `/", into: got, auth: {oauth2: {token_url: "http://ADDR/token", client_id: c, client_secret: s}}}
    timeout: 1s
    on_error: continue
    ` + tryAgain + `
  - {keep: [id]}
outputs: {out: {stdout: {}}}
`,
		good:    w.host(),
		send:    sends,
		arrives: printsID,
	}, once(append(httpFrames("/token")[:4], httpBodies("/token", inJSON)[0]))...) // the last is not tried again
}

func schemaRegistry(t *testing.T) {
	w := startWeb(t, func(*http.Request, string) string { return `{"schema": "{}", "schemaType": "JSON"}` })
	n := uint32(0)
	survives(t, uses{
		config: `
inputs: {in: {stdin: {}}}
resources: {registries: {main: {url: "http://ADDR", timeout: 1s}}}
processors:
  - {decode: {json_schema: {registry: main}, from: p, into: got}, on_error: continue, ` + tryAgain + `}
  - {keep: [id]}
outputs: {out: {stdout: {}}}
`,
		good: w.host(),
		send: func(p *flowdtest.Process, id string) { // each of a schema that is not known yet
			n++
			payload := append(binary.BigEndian.AppendUint32([]byte{0}, n), "{}"...)
			p.Send(fmt.Sprintf("{\"id\": %q, \"p\": %q}\n", id, base64.StdEncoding.EncodeToString(payload)))
		},
		arrives: printsID,
	}, once(slices.Concat(httpFrames("/schemas/ids/")[:4], httpBodies("/schemas/ids/", inJSON)))...)
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
	survives(t, uses{
		config: `
inputs: {in: {http: {url: "http://ADDR/events", stream: sse, timeout: 1s, max_record: 1MiB}}}
outputs: {out: {stdout: {}}}
`,
		good:    w.Listener.Addr().String(),
		send:    func(_ *flowdtest.Process, id string) { now.Store(id) },
		arrives: printsID,
	},
		uponFloods("/events", "lines of an event without end", ok, "data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"),
		uponSays("/events", "a wait of years", ok+"retry: 99999999999999999999\n\n"),
	)
}

// once is the same attacks, each of one connection: what it meets is not tried again.
func once(all []ill) []ill {
	for i := range all {
		all[i].times = 1
	}
	return all
}
