package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.uber.org/goleak"
	rpc "google.golang.org/genproto/googleapis/rpc/status"
	grpclib "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip"
	grpcmeta "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/components/push"
	"github.com/flowd-io/flowd/internal/network/grpcx"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is an input that listens, with a simulated pipeline that ends each message as the body of its log record says: "decode"
// fails with that class, and so on.
type running struct {
	*input
	grpc, http string // addresses

	mu   sync.Mutex
	got  []string // payloads
	meta []map[string]any
}

// start opens the input. No Read is running yet.
func start(t *testing.T, config string) *running {
	t.Helper()
	var said bytes.Buffer
	in := enginetest.New(t, engine.Inputs, `{"otlp": `+config+`}`).(*input)
	in.log = slog.New(slog.NewTextHandler(&said, nil))
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := &running{input: in}
	for line := range strings.Lines(said.String()) {
		if _, at, ok := strings.Cut(line, "listening on grpc://"); ok {
			r.grpc = strings.Trim(at, "\"\n")
		}
		if _, at, ok := strings.Cut(line, "listening on http://"); ok {
			r.http = "http://" + strings.Trim(at, "\"\n")
		}
	}
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
			r.meta = append(r.meta, m.Meta.Map())
			results = append(results, resultOf(m.Ref, string(m.Bytes())))
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
	for fate, word := range map[engine.Fate]string{engine.Filtered: "filtered", engine.DeadLettered: "dead-lettered"} {
		if strings.Contains(body, `"`+word+`"`) {
			return engine.Result{Ref: ref, Fate: fate, Err: engine.Errorf(engine.Rejected, "no")}
		}
	}
	if strings.Contains(body, `"dropped"`) {
		return engine.Result{Ref: ref, Fate: engine.Dropped, Err: engine.Errorf(engine.Rejected, "no")}
	}
	for _, class := range []string{"decode", "rejected", "transient", "auth", "timeout", "panic"} {
		if strings.Contains(body, `"`+class+`"`) {
			return engine.Result{Ref: ref, Fate: engine.Returned, Err: engine.Errorf(engine.Class(class), "because"),
				Delay: 2500 * time.Millisecond}
		}
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
		if n := r.queue.Load(); n.Bytes != 0 || n.Queued != 0 {
			t.Errorf("at the end, the queue has %+v", n)
		}
	})
	return r
}

func (r *running) payloads() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got
}

const both = `{"listen": "127.0.0.1:0", "listen_http": "127.0.0.1:0"}`

// with adds fields to the configuration both.
func with(fields string) string { return both[:len(both)-1] + ", " + fields + "}" }

// client is a client over gRPC.
func (r *running) client(t *testing.T) plogotlp.GRPCClient {
	return plogotlp.NewGRPCClient(r.connection(t))
}

func (r *running) connection(t *testing.T) *grpclib.ClientConn {
	t.Helper()
	conn, err := grpclib.NewClient(r.grpc, grpclib.WithTransportCredentials(insecure.NewCredentials()),
		grpclib.WithDefaultCallOptions(grpclib.UseCompressor("gzip")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// logs makes a request with a record for each body.
func logs(bodies ...string) plogotlp.ExportRequest {
	d := plog.NewLogs()
	r := d.ResourceLogs().AppendEmpty()
	r.Resource().Attributes().PutStr("service.name", "shop")
	s := r.ScopeLogs().AppendEmpty()
	for _, b := range bodies {
		s.LogRecords().AppendEmpty().Body().SetStr(b)
	}
	return plogotlp.NewExportRequestFromLogs(d)
}

// post sends a body to /v1/logs; headers are "Name: value".
func (r *running) post(t *testing.T, path string, body []byte, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", r.http+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
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
	return res, string(answer)
}

const (
	isProto = "Content-Type: application/x-protobuf"
	isJSON  = "Content-Type: application/json"
)

func must(raw []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return raw
}

// TestTheAnswerIsTheFate sends records over gRPC, and over HTTP in both forms.
func TestTheAnswerIsTheFate(t *testing.T) {
	r := serve(t, with(`"expose_errors": true`))
	client := r.client(t)
	tests := []struct {
		bodies   string
		code     codes.Code
		status   int
		message  string
		rejected int64
	}{
		{"fine", codes.OK, 200, "", 0},
		{"fine filtered dead-lettered", codes.OK, 200, "", 0},
		{"fine rejected decode dropped", codes.OK, 200, "3 of 4 messages were rejected: because", 3},
		{"dropped", codes.OK, 200, "1 of 1 messages were rejected: no", 1},
		{"transient", codes.Unavailable, 503, "1 of 1 messages could not be delivered now: because", 0},
		{"fine rejected auth", codes.Unavailable, 503, "1 of 3 messages could not be delivered now: because", 0},
		{"timeout panic", codes.Unavailable, 503, "2 of 2 messages could not be delivered now: because", 0},
	}
	for _, tt := range tests {
		t.Run(tt.bodies, func(t *testing.T) {
			request := logs(strings.Fields(tt.bodies)...)
			answer, err := client.Export(t.Context(), request)
			s := status.Convert(err)
			if s.Code() != tt.code {
				t.Fatalf("got %v", err)
			}
			retry, retries := grpcx.RetryInfo(s)
			if tt.code != codes.OK {
				if s.Message() != tt.message || !retries || retry != 3*time.Second {
					t.Errorf("got %v, retry after %v", s, retry)
				}
			} else if p := answer.PartialSuccess(); p.RejectedLogRecords() != tt.rejected || p.ErrorMessage() != tt.message {
				t.Errorf("got %d %q", p.RejectedLogRecords(), p.ErrorMessage())
			}
			for form, body := range map[string][]byte{isProto: must(request.MarshalProto()), isJSON: must(request.MarshalJSON())} {
				res, text := r.post(t, "/v1/logs", body, form)
				if res.StatusCode != tt.status || "Content-Type: "+res.Header.Get("Content-Type") != form ||
					(res.Header.Get("Retry-After") == "3") != (tt.status == 503) {
					t.Fatalf("got %d, %v, %q", res.StatusCode, res.Header, text)
				}
				if tt.status != 200 {
					var s rpc.Status
					if form == isProto {
						if err := proto.Unmarshal([]byte(text), &s); err != nil || s.Code != int32(tt.code) || s.Message != tt.message {
							t.Errorf("got %v, %v", &s, err)
						}
					} else if !strings.Contains(text, fmt.Sprint(int(tt.code))) || !strings.Contains(text, tt.message) {
						t.Errorf("got %s", text)
					}
					continue
				}
				answer := plogotlp.NewExportResponse()
				decode := answer.UnmarshalProto
				if form == isJSON {
					decode = answer.UnmarshalJSON
				}
				if err := decode([]byte(text)); err != nil || answer.PartialSuccess().RejectedLogRecords() != tt.rejected ||
					answer.PartialSuccess().ErrorMessage() != tt.message {
					t.Errorf("%s: got %v, %q", form, err, text)
				}
			}
		})
	}
}

func TestClientsGetReferences(t *testing.T) {
	r := serve(t, both)
	answer, err := r.client(t).Export(t.Context(), logs("rejected"))
	if got := answer.PartialSuccess().ErrorMessage(); err != nil || !strings.HasPrefix(got, "1 of 1 messages were rejected: rejected (ref ") {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestWhatRejectedDataPointsAre(t *testing.T) {
	r := serve(t, both)
	d := pmetric.NewMetrics()
	all := d.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	for _, name := range []string{"fine", "rejected", "rejected"} {
		m := all.AppendEmpty()
		m.SetName(name)
		for range 2 {
			m.SetEmptyGauge().DataPoints().AppendEmpty()
		}
		m.Gauge().DataPoints().AppendEmpty()
	}
	answer, err := pmetricotlp.NewGRPCClient(r.connection(t)).Export(t.Context(), pmetricotlp.NewExportRequestFromMetrics(d))
	if got := answer.PartialSuccess().RejectedDataPoints(); err != nil || got != 4 {
		t.Errorf("got %d, %v, want the two points of each of two metrics", got, err)
	}
}

// TestMessages checks payloads and metadata.
func TestMessages(t *testing.T) {
	const trace = "01000000000000000000000000000000"
	d := ptrace.NewTraces()
	spans := d.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	spans.AppendEmpty().SetTraceID([16]byte{1})
	spans.AppendEmpty().SetName("second")
	for _, tt := range []struct {
		config string
		want   []string
	}{
		{both, []string{`{"resourceSpans":[{"resource":{},"scopeSpans":[{"scope":{},"spans":[{"status":{},"traceId":"` + trace + `"}]}]}]}`,
			`{"resourceSpans":[{"resource":{},"scopeSpans":[{"scope":{},"spans":[{"status":{},"name":"second"}]}]}]}`}},
		{with(`"split": false`), []string{`{"resourceSpans":[{"scopeSpans":[{"spans":[{"status":{},"traceId":"` + trace +
			`"},{"status":{},"name":"second"}],"scope":{}}],"resource":{}}]}`}},
	} {
		r := serve(t, tt.config)
		ctx := grpcmeta.AppendToOutgoingContext(t.Context(), "traceparent", "00-x", "other", "y")
		if _, err := ptraceotlp.NewGRPCClient(r.connection(t)).Export(ctx, ptraceotlp.NewExportRequestFromTraces(d)); err != nil {
			t.Fatal(err)
		}
		if got := r.payloads(); fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("got\n%s, want\n%s", got, tt.want)
		}
		want := map[string]any{"signal": "traces", "traceparent": "00-x", "http_remote": r.meta[0]["http_remote"]}
		if len(tt.want) == 2 {
			want["trace_id"] = trace
		}
		if fmt.Sprint(r.meta[0]) != fmt.Sprint(want) || r.meta[0]["http_remote"] == nil {
			t.Errorf("metadata is %v, want %v", r.meta[0], want)
		}
	}
	r := serve(t, both)
	if _, err := r.client(t).Export(t.Context(), logs("x")); err != nil {
		t.Fatal(err)
	}
	if m := r.meta[0]; m["service_name"] != "shop" || m["signal"] != "logs" {
		t.Errorf("metadata is %v", m)
	}
}

func TestAnEmptyRequestIsASuccess(t *testing.T) {
	r := start(t, both)
	defer r.Close(t.Context())
	if _, err := r.client(t).Export(t.Context(), plogotlp.NewExportRequest()); err != nil {
		t.Error(err)
	}
	if res, text := r.post(t, "/v1/traces", nil, isProto); res.StatusCode != 200 || text != "" {
		t.Errorf("got %d %s", res.StatusCode, text)
	}
}

func zipped(raw []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(raw)
	_ = z.Close()
	return b.Bytes()
}

// TestRefusedRequests sends what nobody should.
func TestRefusedRequests(t *testing.T) {
	r := start(t, with(`"max_body": "20KiB", "max_messages": 10, "signals": ["logs"], "auth": {"bearer": "secret"}`))
	defer r.Close(t.Context())
	fine := must(logs("x").MarshalProto())
	ten := must(logs(strings.Fields(strings.Repeat("x ", 11))...).MarshalProto())
	const token = "Authorization: Bearer secret"
	for _, tt := range []struct {
		name, path string
		body       []byte
		headers    string
		status     int
		want       string
	}{
		{"no credentials", "/v1/logs", fine, isProto, 401, "credentials are missing or wrong"},
		{"a signal that is off", "/v1/traces", fine, isProto + "\n" + token, 404, "nothing is accepted at this path"},
		{"another path", "/v1/logs/x", fine, isProto + "\n" + token, 404, "nothing is accepted at this path"},
		{"no content type", "/v1/logs", fine, token, 415, "must be application/x-protobuf or application/json"},
		{"an unknown compression", "/v1/logs", fine, isProto + "\n" + token + "\nContent-Encoding: br", 415, "must be gzip or zstd"},
		{"half a request", "/v1/logs", fine[:len(fine)-1], isProto + "\n" + token, 400, "not a valid request: "},
		{"no JSON", "/v1/logs", []byte("{"), isJSON + "\n" + token, 400, "not a JSON document"},
		{"other JSON", "/v1/logs", []byte(`{"resourceLogs":1}`), isJSON + "\n" + token, 400, "not logs in OTLP's JSON form"},
		{"half of gzip", "/v1/logs", zipped(fine)[:20], isProto + "\n" + token + "\nContent-Encoding: gzip", 400, "gzip"},
		{"a gzip bomb", "/v1/logs", zipped(make([]byte, 1<<20)), isProto + "\n" + token + "\nContent-Encoding: gzip", 413,
			"larger than max_body"},
		{"too much", "/v1/logs", make([]byte, 30<<10), isProto + "\n" + token, 413, "larger than max_body"},
		{"too many records", "/v1/logs", ten, isProto + "\n" + token, 413, "more than 10 records (max_messages)"},
		{"deep JSON", "/v1/logs", []byte(strings.Repeat(`{"resourceLogs":[`, 600)), isJSON + "\n" + token, 400, "deep"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res, text := r.post(t, tt.path, tt.body, strings.Split(tt.headers, "\n")...)
			if res.StatusCode != tt.status || !strings.Contains(text, tt.want) || res.Header.Get("Retry-After") != "" {
				t.Errorf("got %d %s, want %d %s", res.StatusCode, text, tt.status, tt.want)
			}
		})
	}
	client := r.client(t)
	call := grpcmeta.AppendToOutgoingContext(t.Context(), "authorization", "Bearer secret")
	large := logs(strings.Repeat("x", 30<<10))
	for name, tt := range map[string]struct {
		export func() error
		want   codes.Code
	}{
		"no credentials": {func() error { _, err := client.Export(t.Context(), logs("x")); return err }, codes.Unauthenticated},
		"too much": {func() error {
			_, err := client.Export(call, logs(strings.Repeat("x", 3<<20)), grpclib.UseCompressor("identity"))
			return err
		}, codes.ResourceExhausted},
		"too much, compressed": {func() error { _, err := client.Export(call, large); return err }, codes.ResourceExhausted},
		"a signal that is off": {func() error {
			_, err := ptraceotlp.NewGRPCClient(r.connection(t)).Export(call, ptraceotlp.NewExportRequest())
			return err
		}, codes.Unimplemented},
		"not a request": {func() error {
			return r.connection(t).Invoke(call, "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
				&rpc.Status{Code: 5}, &rpc.Status{})
		}, codes.InvalidArgument},
	} {
		err := tt.export()
		if _, retries := grpcx.RetryInfo(status.Convert(err)); status.Code(err) != tt.want || retries {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
	if n := r.queue.Load().Bytes; n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// TestOverload checks what clients are told while the input is full, limited, paused or draining.
func TestOverload(t *testing.T) {
	r := start(t, with(`"max_requests": 1, "max_body": 10000, "max_waiting": 10000, "timeout": "50ms"`))
	defer r.Close(t.Context())
	client := r.client(t)
	want := func(code codes.Code, message string, least time.Duration) {
		t.Helper()
		_, err := client.Export(t.Context(), logs("x"))
		s := status.Convert(err)
		if delay, _ := grpcx.RetryInfo(s); s.Code() != code || s.Message() != message || delay < least {
			t.Errorf("got %v, retry after %v; want %v %s", err, delay, code, message)
		}
	}
	if !r.queue.Enter() {
		t.Fatal("the queue is full")
	}
	want(codes.ResourceExhausted, "too many requests are in flight", time.Second)
	r.queue.Exit()

	other := r.queue.Hold()
	other.Take(9999)
	want(codes.ResourceExhausted, "too many bytes wait for the pipeline", time.Second)
	other.Give(9999)

	r.Limited(time.Now().Add(time.Hour))
	want(codes.ResourceExhausted, "the rate limit is used up", 59*time.Minute)
	r.Limited(time.Time{})

	want(codes.Unavailable, "the pipeline takes no messages at present", time.Second)

	var wg sync.WaitGroup
	wg.Go(func() { want(codes.DeadlineExceeded, "the messages were not settled in time", 0) })
	b := engine.NewBatch(1)
	if _, err := r.Read(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	for m := range b.All() { // it is delivered after all
		_, _ = r.Ack(t.Context(), []engine.Result{{Ref: m.Ref, Fate: engine.Delivered}})
	}
	if n := r.queue.Load().Bytes; n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// TestADrainAnswersWhatWasRead stops an input when one request is read, another in part, and a third waits.
func TestADrainAnswersWhatWasRead(t *testing.T) {
	r := start(t, both)
	var wg sync.WaitGroup
	var answers [3]error
	var read []engine.Result
	export := func(i int, bodies ...string) {
		client := r.client(t)
		wg.Go(func() { _, answers[i] = client.Export(t.Context(), logs(bodies...)) })
	}
	readOne := func() {
		b := engine.NewBatch(1)
		if _, err := r.Read(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		for m := range b.All() {
			read = append(read, engine.Result{Ref: m.Ref, Fate: engine.Delivered})
		}
	}
	export(0, "a")
	readOne()
	export(1, "b", "c")
	readOne()
	export(2, "d")
	for r.queue.Load().Queued < 1 {
		goruntime.Gosched()
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(t.Context(), engine.NewBatch(1)); err != engine.ErrEnd {
		t.Errorf("Read: %v", err)
	}
	_, _ = r.Ack(t.Context(), read)
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	wg.Wait()
	for i, want := range []string{"", "1 of 2 messages could not be delivered now", "the pipeline is draining"} {
		if s := status.Convert(answers[i]); s.Message() != want || want != "" && s.Code() != codes.Unavailable {
			t.Errorf("request %d: got %v, want %q", i, answers[i], want)
		}
	}
}

// TestAClientThatLeavesIsNotReadAnyMore checks that the request of a client that has given up leaves the queue.
func TestAClientThatLeavesIsNotReadAnyMore(t *testing.T) {
	r := start(t, both)
	defer r.Close(t.Context())
	ctx, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	client := r.client(t)
	wg.Go(func() { _, _ = client.Export(ctx, logs("x")) })
	for r.queue.Load().Queued < 1 {
		goruntime.Gosched()
	}
	leave()
	wg.Wait()
	for r.queue.Load() != (push.Load{}) {
		goruntime.Gosched()
	}
}

// TestHalfARequest opens a call whose body does not come, and one that breaks off.
func TestHalfARequest(t *testing.T) {
	r := start(t, both)
	defer r.Close(t.Context())
	c, err := net.Dial("tcp", strings.TrimPrefix(r.http, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	const half = "POST /v1/logs HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-protobuf\r\nContent-Length: 100\r\n\r\nx"
	if _, err := io.WriteString(c, half); err != nil {
		t.Fatal(err)
	}
	for r.queue.Load().Bytes != 1 {
		goruntime.Gosched()
	}
	c.Close()
	for r.queue.Load().Bytes != 0 {
		goruntime.Gosched()
	}
	if n := r.queue.Load().InFlight; n != 0 {
		t.Errorf("%d requests hold a slot", n)
	}
}

func TestEarlyAck(t *testing.T) {
	r := start(t, with(`"early_ack": true`))
	if r.Traits().TakesBack != engine.TakesNothing || !r.Traits().AcksEarly {
		t.Errorf("traits are %+v", r.Traits())
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	for config, want := range map[string]string{
		`{"listen": "4317"}`:                           "listen",
		`{"listen": ":1", "max_body": "1GiB"}`:         "raise max_waiting",
		`{"listen": ":1", "signals": ["spans"]}`:       "must be one of logs, metrics, traces",
		`{"listen": ":1", "signals": []}`:              "signals",
		`{"listen_http": "nowhere"}`:                   "listen_http",
		`{"listen": ":1", "tls": {"client_ca": "ca"}}`: "cert",
	} {
		if got := strings.Join(enginetest.Problems(t, engine.Inputs, `{"otlp": `+config+`}`), "\n"); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %s", config, got, want)
		}
	}
	for config, want := range map[string]bool{
		`{}`: false, `{"listen": ":1"}`: true, `{"listen_http": ":1"}`: true, `{"listen": ":1", "auth": {"bearer": "x"}}`: false,
	} {
		if in := enginetest.New(t, engine.Inputs, `{"otlp": `+config+`}`).(*input); in.Traits().Exposed != want {
			t.Errorf("%s: exposed is %v", config, !want)
		}
	}
}
