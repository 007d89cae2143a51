package httpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/components/reply"
	"github.com/flowd-io/flowd/internal/formats/compression"
	"go.uber.org/goleak"
)

// running is an input that listens, with a simulated pipeline that ends each message as its payload says: "decode" fails with that
// class, and so on.
type running struct {
	*input
	url string

	mu   sync.Mutex
	got  []string // payloads
	meta map[string]any
}

// start opens the input. No Read is running yet.
func start(t *testing.T, config string) *running {
	t.Helper()
	var said bytes.Buffer
	in := enginetest.New(t, engine.Inputs, `{"http_server": `+config+`}`).(*input)
	in.log = slog.New(slog.NewTextHandler(&said, nil))
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, at, ok := strings.Cut(said.String(), "listening on ")
	if !ok {
		t.Fatalf("the log has no address: %s", said.String())
	}
	r := &running{input: in, url: strings.TrimRight(strings.TrimSpace(at), `"`)}
	return r
}

// run reads until the input has stopped.
func (r *running) run(ctx context.Context) {
	for {
		b := engine.NewBatch(3)
		acker, err := r.Read(ctx, b)
		var results []engine.Result
		r.mu.Lock()
		for m := range b.All() {
			r.got = append(r.got, string(m.Bytes()))
			r.meta = m.Meta.Map()
			results = append(results, resultOf(m.Ref, string(m.Bytes())))
		}
		for m := range b.Ended() {
			results = append(results, engine.Result{Ref: m.Ref, Fate: engine.Returned, Err: m.Err()})
		}
		r.mu.Unlock()
		if len(results) > 0 {
			_, _ = acker.Ack(ctx, results)
		}
		if err != nil {
			return
		}
	}
}

func resultOf(ref uint64, body string) engine.Result {
	switch body {
	case "filtered":
		return engine.Result{Ref: ref, Fate: engine.Filtered}
	case "dead-lettered":
		return engine.Result{Ref: ref, Fate: engine.DeadLettered, Err: engine.Errorf(engine.Rejected, "no")}
	case "dropped":
		return engine.Result{Ref: ref, Fate: engine.Dropped}
	case "returned":
		return engine.Result{Ref: ref, Fate: engine.Returned}
	case "decode", "rejected", "expression", "transient", "auth", "timeout", "panic", "unrouted":
		return engine.Result{Ref: ref, Fate: engine.Returned, Err: engine.Errorf(engine.Class(body), "because"),
			Delay: 2500 * time.Millisecond}
	}
	return engine.Result{Ref: ref, Fate: engine.Delivered}
}

// serve starts an input and a pipeline after it, until the test ends.
func serve(t *testing.T, config string) *running {
	t.Helper()
	r := start(t, config)
	var wg sync.WaitGroup
	wg.Go(func() { r.run(context.Background()) })
	t.Cleanup(func() {
		if err := r.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *running) payloads() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// do sends a request; headers are "Name: value".
func do(t *testing.T, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header[name] = append(req.Header[name], value)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, strings.TrimSpace(string(answer))
}

func TestTheStatusIsTheFate(t *testing.T) {
	r := serve(t, `{"listen": "127.0.0.1:0", "expose_errors": true}`)
	tests := []struct {
		body, answer string
		status       int
	}{
		{"fine", "", 200},
		{"filtered", "", 200},
		{"dropped", "", 200},
		{"dead-lettered", `{"status":202,"fate":"dead_lettered","class":"rejected","error":"no"}`, 202},
		{"decode", `{"status":400,"fate":"returned","class":"decode","error":"because"}`, 400},
		{"rejected", `{"status":422,"fate":"returned","class":"rejected","error":"because"}`, 422},
		{"expression", `{"status":422,"fate":"returned","class":"expression","error":"because"}`, 422},
		{"unrouted", `{"status":422,"fate":"returned","class":"unrouted","error":"because"}`, 422},
		{"transient", `{"status":503,"fate":"returned","class":"transient","error":"because"}`, 503},
		{"auth", `{"status":503,"fate":"returned","class":"auth","error":"because"}`, 503},
		{"panic", `{"status":503,"fate":"returned","class":"panic","error":"because"}`, 503},
		{"timeout", `{"status":504,"fate":"returned","class":"timeout","error":"because"}`, 504},
		{"returned", `{"status":503,"fate":"returned"}`, 503},
	}
	for _, tt := range tests {
		t.Run(tt.body, func(t *testing.T) {
			res, answer := do(t, "POST", r.url, tt.body)
			if res.StatusCode != tt.status || answer != tt.answer {
				t.Errorf("got %d %s, want %d %s", res.StatusCode, answer, tt.status, tt.answer)
			}
			if retry := res.Header.Get("Retry-After"); (retry != "") != (tt.status == 503) {
				t.Errorf("Retry-After is %q", retry)
			}
		})
	}
}

func TestSeveralMessagesGetTheWorstStatusAndAList(t *testing.T) {
	r := serve(t, `{"listen": "127.0.0.1:0", "expose_errors": true}`)
	res, answer := do(t, "POST", r.url, "a\ndead-lettered\ndecode\nfiltered\nb\n",
		"Content-Type: application/x-ndjson; charset=utf-8")
	want := `{"messages":[{"status":200,"fate":"delivered"},{"status":202,"fate":"dead_lettered","class":"rejected","error":"no"},` +
		`{"status":400,"fate":"returned","class":"decode","error":"because"},{"status":200,"fate":"filtered"},{"status":200,` +
		`"fate":"delivered"}],"status":400}`
	if res.StatusCode != 400 || answer != want {
		t.Errorf("got  %d %s\nwant %s", res.StatusCode, answer, want)
	}
	if got := r.payloads(); !slices.Equal(got, []string{"a", "dead-lettered", "decode", "filtered", "b"}) {
		t.Errorf("got %q", got)
	}
}

func TestFramings(t *testing.T) {
	tests := []struct {
		name, framing, body string
		want                []string
		status              int
	}{
		{"an array of documents", `"json"`, `[{"a":1}, 2]`, []string{`{"a":1}`, "2"}, 200},
		{"lines", `"lines"`, "a\nb", []string{"a", "b"}, 200},
		{"nothing at all", `"lines"`, "", nil, 200},
		{"an array that is cut off", `"json"`, `[1, {"a"`, []string{"1"}, 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := serve(t, `{"listen": "127.0.0.1:0", "framing": `+tt.framing+`}`)
			res, answer := do(t, "POST", r.url, tt.body)
			if got := r.payloads(); res.StatusCode != tt.status || !slices.Equal(got, tt.want) {
				t.Errorf("got %d %s, %q, want %d, %q", res.StatusCode, answer, got, tt.status, tt.want)
			}
		})
	}
}

func TestTheContentTypeSaysHowABodyIsCut(t *testing.T) {
	const array = " [{\"a\":1},\n2]"
	tests := []struct {
		name, config, contentType, body string
		want                            []string
		status                          int
	}{
		{"a JSON array is several messages", "", "application/json", array, []string{`{"a":1}`, "2"}, 200},
		{"with parameters too", "", "application/json; charset=utf-8", array, []string{`{"a":1}`, "2"}, 200},
		{"a document is one", "", "application/json", `{"a":[1]}`, []string{`{"a":[1]}`}, 200},
		{"an empty array is none", "", "application/json", `[]`, nil, 200},
		{"an array that is cut off", "", "application/json", `[1, {"a"`, []string{"1"}, 400},
		{"lines are several messages", "", "application/x-ndjson", "1\n2", []string{"1", "2"}, 200},
		{"an array among them is one of them", "", "application/x-ndjson", "[1]\n[2]", []string{"[1]", "[2]"}, 200},
		{"all else is one", "", "text/plain", array, []string{array}, 200},
		{"a framing comes first", `, "framing": "whole"`, "application/json", array, []string{array}, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := serve(t, `{"listen": "127.0.0.1:0"`+tt.config+`}`)
			res, answer := do(t, "POST", r.url, tt.body, "Content-Type: "+tt.contentType)
			if got := r.payloads(); res.StatusCode != tt.status || !slices.Equal(got, tt.want) {
				t.Errorf("got %d %s, %q, want %d, %q", res.StatusCode, answer, got, tt.status, tt.want)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	zeros, err := compression.Compress(compression.Gzip, make([]byte, 1<<20), 0)
	if err != nil {
		t.Fatal(err)
	}
	r := serve(t,
		`{"listen": "127.0.0.1:0", "path": "/in", "methods": ["POST"], "max_body": 1000, "auth": {"bearer": "tok"}}`)
	base := strings.TrimSuffix(r.url, "/in")
	auth := "Authorization: Bearer tok"
	tests := []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		header                   string
	}{
		{"another path", "POST", "/inn", "x", []string{auth}, 404, ""},
		{"another method", "GET", "/in", "", []string{auth}, 405, "Allow: POST"},
		{"no credentials", "POST", "/in", "x", nil, 401, "Www-Authenticate: Bearer"},
		{"wrong credentials", "POST", "/in", "x", []string{"Authorization: Bearer tok2"}, 401,
			"Www-Authenticate: Bearer"},
		{"another scheme", "POST", "/in", "x", []string{"Authorization: Basic tok"}, 401, "Www-Authenticate: Bearer"},
		{"too long a body", "POST", "/in", strings.Repeat("x", 1001), []string{auth}, 413, ""},
		{"a bomb", "POST", "/in", string(zeros[:900]), []string{auth, "Content-Encoding: gzip"}, 413, ""},
		{"no gzip", "POST", "/in", "plain", []string{auth, "Content-Encoding: gzip"}, 400, ""},
		{"another encoding", "POST", "/in", "x", []string{auth, "Content-Encoding: gzip, gzip"}, 415, ""},
		{"all right", "POST", "/in?q=1", "x", []string{auth}, 200, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, answer := do(t, tt.method, base+tt.path, tt.body, tt.headers...)
			name, value, _ := strings.Cut(tt.header, ": ")
			if res.StatusCode != tt.status || res.Header.Get(name) != value {
				t.Errorf("got %d %v %s, want %d %s", res.StatusCode, res.Header, answer, tt.status, tt.header)
			}
			if tt.status != 200 && !json.Valid([]byte(answer)) {
				t.Errorf("the answer is no JSON: %s", answer)
			}
		})
	}
	if got := r.payloads(); !slices.Equal(got, []string{"x"}) {
		t.Errorf("got %q", got)
	}
}

func TestABodyWithoutALengthHasALimit(t *testing.T) {
	r := serve(t, `{"listen": "127.0.0.1:0", "max_body": 1000}`)
	req, _ := http.NewRequestWithContext(t.Context(), "POST", r.url,
		io.MultiReader(strings.NewReader(strings.Repeat("x", 5000))))
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if res.StatusCode != 413 {
		t.Errorf("got %d, want 413", res.StatusCode)
	}
}

func TestGzipAndZstdBodies(t *testing.T) {
	r := serve(t, `"127.0.0.1:0"`)
	for _, f := range []compression.Format{compression.Gzip, compression.Zstd} {
		packed, err := compression.Compress(f, []byte("packed by "+string(f)), 0)
		if err != nil {
			t.Fatal(err)
		}
		if res, answer := do(t, "POST", r.url, string(packed), "Content-Encoding: "+string(f)); res.StatusCode != 200 {
			t.Errorf("%s: got %d %s", f, res.StatusCode, answer)
		}
	}
	if got := r.payloads(); !slices.Equal(got, []string{"packed by gzip", "packed by zstd"}) {
		t.Errorf("got %q", got)
	}
}

func TestMetadata(t *testing.T) {
	r := serve(t, `{"listen": "127.0.0.1:0", "path": "/a/"}`)
	do(t, "PUT", r.url+"b?x=1", "body", "X-Two: 1", "X-Two: 2", "Authorization: secret", "Cookie: secret",
		"http_method: EVIL", "X-Bad: \xff")
	want := map[string]any{"http_method": "PUT", "http_path": "/a/b", "http_query": "x=1", "x-two": "1, 2",
		"x-bad": "\xff"}
	r.mu.Lock()
	defer r.mu.Unlock()
	if remote, _ := r.meta["http_remote"].(string); !strings.HasPrefix(remote, "127.0.0.1:") {
		t.Errorf("http_remote is %v", r.meta["http_remote"])
	}
	for _, name := range []string{"http_remote", "user-agent"} {
		delete(r.meta, name)
	}
	if !maps.Equal(r.meta, want) {
		t.Errorf("got  %v\nwant %v", r.meta, want)
	}
}

func TestAPipelineThatDoesNotReadTakesNothing(t *testing.T) {
	r := start(t, `"127.0.0.1:0"`)
	defer r.Close(t.Context())
	res, answer := do(t, "POST", r.url, "x")
	if res.StatusCode != 503 || answer != `{"error":"the pipeline takes no messages at present","status":503}` ||
		res.Header.Get("Retry-After") != "1" {
		t.Errorf("got %d %s", res.StatusCode, answer)
	}
}

func TestTooManyRequestsAtOnce(t *testing.T) {
	r := start(t, `{"listen": "127.0.0.1:0", "max_requests": 1}`)
	defer r.Close(t.Context())
	if !r.queue.Enter() {
		t.Fatal("the queue is full")
	}
	res, answer := do(t, "POST", r.url, "x")
	r.queue.Exit()
	if res.StatusCode != 503 || answer != `{"error":"too many requests are in flight","status":503}` {
		t.Errorf("got %d %s", res.StatusCode, answer)
	}
}

func TestTooManyBytesWait(t *testing.T) {
	r := start(t, `{"listen": "127.0.0.1:0", "max_body": 15, "max_waiting": 15}`)
	defer r.Close(t.Context())
	other := r.queue.Hold()
	other.Take(10)
	res, answer := do(t, "POST", r.url, "eleven bytes")
	if res.StatusCode != 503 || answer != `{"error":"too many bytes wait for the pipeline","status":503}` {
		t.Errorf("got %d %s", res.StatusCode, answer)
	}
	other.Give(10)
	if n := r.queue.Load().Bytes; n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// TestReadsTakeAllThatWait checks that a Read returns all waiting requests, as many as there is room for, the oldest first.
func TestReadsTakeAllThatWait(t *testing.T) {
	r := start(t, `"127.0.0.1:0"`)
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			if res, answer := do(t, "POST", r.url, fmt.Sprint(i)); res.StatusCode != 200 {
				t.Errorf("got %d %s", res.StatusCode, answer)
			}
		})
		for waits := 0; waits <= i; {
			goruntime.Gosched()
			waits = r.queue.Load().Queued
		}
	}
	for _, want := range []string{"012", "34"} {
		b := engine.NewBatch(3)
		acker, err := r.Read(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		var results []engine.Result
		for m := range b.All() {
			got += string(m.Bytes())
			results = append(results, engine.Result{Ref: m.Ref})
		}
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if _, err := acker.Ack(t.Context(), results); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAClientThatLeavesIsNotReadAnyMore checks that the request of a client that has disconnected leaves the queue, and is not read.
func TestAClientThatLeavesIsNotReadAnyMore(t *testing.T) {
	r := start(t, `"127.0.0.1:0"`)
	c, err := net.Dial("tcp", r.door.Listeners[0].Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 0} {
		for waits := -1; waits != want; {
			goruntime.Gosched()
			waits = r.queue.Load().Queued
		}
		c.Close()
	}
	if n := r.queue.Load().Bytes; n > 1 { // the handler of the disconnected client may still be running
		t.Errorf("%d bytes are counted", n)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := r.queue.Load().Bytes; n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

func TestAFateThatDoesNotComeIsTooSlow(t *testing.T) {
	r := start(t, `{"listen": "127.0.0.1:0", "timeout": "20ms"}`)
	defer r.Close(t.Context())
	b := engine.NewBatch(1)
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = r.Read(context.Background(), b) })
	res, answer := do(t, "POST", r.url, "x")
	wg.Wait()
	if res.StatusCode != 504 {
		t.Errorf("got %d %s", res.StatusCode, answer)
	}
	for m := range b.All() { // its Ack comes too late, and has no effect
		if _, err := r.Ack(t.Context(), []engine.Result{{Ref: m.Ref, Fate: engine.Delivered}}); err != nil {
			t.Error(err)
		}
	}
}

// TestNoSlipStays checks that the reply slip of a request is removed, whatever happens to the request.
func TestNoSlipStays(t *testing.T) {
	defer goleak.VerifyNone(t)
	r := start(t, `{"listen": "127.0.0.1:0", "timeout": "20ms", "reply": "raw()"}`)
	r.desk.Want()
	// Nobody reads.
	if res, _ := do(t, "POST", r.url, "x"); res.StatusCode != 503 {
		t.Errorf("got %d", res.StatusCode)
	}
	if n := r.desk.Waiting(); n != 0 {
		t.Errorf("%d slips stay of what was never read", n)
	}
	// The fate arrives too late.
	b := engine.NewBatch(1)
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = r.Read(context.Background(), b) })
	if res, _ := do(t, "POST", r.url, "x"); res.StatusCode != 504 {
		t.Errorf("got %d", res.StatusCode)
	}
	wg.Wait()
	if n := r.desk.Waiting(); n != 1 {
		t.Errorf("%d slips, want that of the message under way", n)
	}
	for m := range b.All() {
		if err := r.desk.Answer(m, reply.Reply{Body: []byte("late")}); err != nil {
			t.Errorf("a late reply fails: %v", err)
		}
		if _, err := r.Ack(t.Context(), []engine.Result{{Ref: m.Ref, Fate: engine.Delivered}}); err != nil {
			t.Error(err)
		}
	}
	if n := r.desk.Waiting(); n != 0 {
		t.Errorf("%d slips stay of what was too slow", n)
	}
	// The client goes away; the message never ends.
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "POST", r.url, strings.NewReader("x"))
	wg.Go(func() {
		if _, err := r.Read(context.Background(), engine.NewBatch(1)); err != nil {
			t.Error(err)
		}
		cancel()
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if res, err := client.Do(req); err == nil {
		res.Body.Close()
	}
	wg.Wait()
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := r.desk.Waiting(); n != 0 {
		t.Errorf("%d slips stay of what was cut off", n)
	}
}

func TestMessagesAreTiedOnlyWhereSomethingReplies(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		for _, early := range []bool{false, true} {
			r := serve(t, fmt.Sprintf(`{"listen": "127.0.0.1:0", "early_ack": %t, "reply": "raw()"}`, early))
			if wanted {
				r.desk.Want()
			}
			if res, answer := do(t, "POST", r.url, "x"); answer != "x" || (res.StatusCode == 202) != early {
				t.Errorf("got %d %s", res.StatusCode, answer)
			}
			r.mu.Lock()
			if _, tied := r.meta["http_request"]; tied != (wanted && !early) {
				t.Errorf("wanted %t, early %t: metadata %v", wanted, early, r.meta)
			}
			r.mu.Unlock()
		}
	}
}

func TestADrainAnswersWhatWasReadAndRefusesTheRest(t *testing.T) {
	defer goleak.VerifyNone(t)
	r := start(t, `"127.0.0.1:0"`)
	var wg sync.WaitGroup
	answers := make([]string, 2)
	post := func(i int, body string) {
		wg.Go(func() {
			res, _ := do(t, "POST", r.url, body, "Content-Type: application/x-ndjson")
			answers[i] = fmt.Sprint(res.StatusCode)
		})
	}
	// The first request is read in part when the input stops.
	post(0, "a\nb\nc")
	b := engine.NewBatch(2)
	if _, err := r.Read(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	// The second is not read at all.
	post(1, "d")
	for r.queue.Load().InFlight < 2 {
		goruntime.Gosched()
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	var results []engine.Result
	for m := range b.All() {
		results = append(results, engine.Result{Ref: m.Ref, Fate: engine.Delivered})
	}
	if _, err := r.Ack(t.Context(), results); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if !slices.Equal(answers, []string{"503", "503"}) {
		t.Errorf("got %v, want both requests to be sent again", answers)
	}
	if _, err := r.Read(t.Context(), engine.NewBatch(1)); err != engine.ErrEnd {
		t.Errorf("got %v, want the end", err)
	}
}

func TestASlowClientIsCutOff(t *testing.T) {
	r := start(t, `"127.0.0.1:0"`)
	defer r.Close(t.Context())
	s := r.door.Servers[0]
	if s.ReadHeaderTimeout == 0 || s.ReadTimeout == 0 || s.WriteTimeout == 0 || s.IdleTimeout == 0 ||
		s.MaxHeaderBytes == 0 {
		t.Errorf("a limit is missing: %+v", s)
	}
}

func TestOpenSaysWhyItCanNotListen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	in := enginetest.New(t, engine.Inputs, `{"http_server": "`+l.Addr().String()+`"}`)
	err = in.(engine.Opener).Open(t.Context())
	if err == nil || !strings.Contains(err.Error(), "address already in use") ||
		!strings.HasPrefix(err.Error(), "listen on "+l.Addr().String()) {
		t.Errorf("got %v", err)
	}
}

func TestConfiguration(t *testing.T) {
	for config, want := range map[string]string{
		`{}`:                                   "required",
		`"8080"`:                               `write "127.0.0.1:8080"`,
		`{"listen": ":1", "max_body": "1GiB"}`: "raise max_waiting",
		`{"listen": ":1", "path": "in"}`:       `write "/in"`,
		`{"listen": ":1", "methods": ["get"]}`: "write GET",
		`{"listen": ":1", "auth": {"bearer": "a", "basic": {"user": "u", "password": "p"}}}`: "exclude each other",
	} {
		got := strings.Join(enginetest.Problems(t, engine.Inputs, `{"http_server": `+config+`}`), "\n")
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q in it", config, got, want)
		}
	}
}

// TestInAPipeline carries many requests through the real engine.
func TestInAPipeline(t *testing.T) {
	defer goleak.VerifyNone(t)
	in := enginetest.New(t, engine.Inputs, `{"http_server": "127.0.0.1:0"}`).(*input)
	var said lockedBuffer
	in.log = slog.New(slog.NewTextHandler(&said, nil))
	dst := &enginetest.Sink{}
	plan, problems := runtime.Build(&engine.Pipeline{
		Inputs: enginetest.Named("in",
			engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return in, nil })}),
		Outputs: enginetest.Named("out", dst.Output()),
		Engine:  engine.EngineSpec{Workers: 2},
	}, runtime.Options{Log: slog.New(slog.DiscardHandler)})
	for _, p := range problems {
		t.Fatal(p)
	}
	stop, drain := context.WithCancel(context.Background())
	var report runtime.Report
	var wg sync.WaitGroup
	wg.Go(func() { report = plan.Run(stop, context.Background()) })
	url := said.address(t)

	client := &http.Client{}
	var posts sync.WaitGroup
	for range 8 {
		posts.Go(func() {
			for range 50 {
				res, err := client.Post(url, "application/x-ndjson", strings.NewReader("{}\n{}\n{}"))
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if res.StatusCode != 200 {
					t.Errorf("got %d", res.StatusCode)
				}
			}
		})
	}
	posts.Wait()
	client.CloseIdleConnections()
	drain()
	wg.Wait()
	if n := len(dst.Bodies()); n != 8*50*3 || report.Err != nil {
		t.Errorf("%d messages were delivered, %v", n, report.Err)
	}
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// address waits for the log line with the address, and returns it.
func (b *lockedBuffer) address(t *testing.T) string {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		b.mu.Lock()
		_, at, ok := strings.Cut(b.buf.String(), "listening on ")
		b.mu.Unlock()
		if ok {
			return strings.TrimRight(strings.TrimSpace(at), `"`)
		}
		<-time.After(time.Millisecond)
	}
	t.Fatal("it does not listen")
	return ""
}

func TestOpenedAgainItListens(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	r := start(t, `{"listen": "127.0.0.1:0"}`)
	r.cfg.Listen = strings.TrimSuffix(strings.TrimPrefix(r.url, "http://"), "/") // the same address again
	if err := r.door.Listeners[0].Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(t.Context(), engine.NewBatch(1)); err == nil ||
		!strings.Contains(err.Error(), "no longer listening on 127.0.0.1:") {
		t.Fatalf("got %v", err)
	}
	if err := errors.Join(r.Close(t.Context()), r.Open(t.Context())); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { r.run(context.Background()) })
	if res, _ := do(t, "POST", r.url, "x"); res.StatusCode != http.StatusOK {
		t.Error(res.Status)
	}
	if err := errors.Join(r.Stop(t.Context()), r.Close(t.Context()), r.Close(t.Context())); err != nil {
		t.Error(err)
	}
	wg.Wait()
}
