package otlp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/formats/otlpdocs"
	"github.com/flowd-io/flowd/internal/network/grpcx"
	"github.com/flowd-io/flowd/internal/testing/oteltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// record is a document with one log record.
func record(service, scope, body string) string {
	return fmt.Sprintf(`{"resourceLogs":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":%q}}]},`+
		`"scopeLogs":[{"scope":{"name":%q},"logRecords":[{"body":{"stringValue":%q}}]}]}]}`, service, scope, body)
}

const span = `{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"GET /","traceId":"01000000000000000000000000000000"}]}]}]}`

func open(t *testing.T, config string) engine.Output {
	t.Helper()
	o := enginetest.New(t, engine.Outputs, `{"otlp": `+config+`}`)
	if err := o.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.(engine.Closer).Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return o
}

// over are outputs to a receiver over both protocols.
func over(r *oteltest.Receiver) map[string]string {
	return map[string]string{"grpc": `"` + r.GRPC + `"`, "http": `{"endpoint": "` + r.HTTP + `", "protocol": "http"}`,
		"grpc, plain": `{"endpoint": "` + r.GRPC + `", "compression": "none"}`,
		"http, plain": `{"endpoint": "` + r.HTTP + `", "protocol": "http", "compression": "none"}`}
}

func TestOutput(t *testing.T) {
	for protocol, config := range over(oteltest.New(t, nil)) {
		t.Run(protocol, func(t *testing.T) {
			enginetest.Output(t, func(t *testing.T) engine.Output {
				return enginetest.New(t, engine.Outputs, `{"otlp": `+config+`}`)
			}, record("shop", "lib", "a"), span)
		})
	}
}

// fake is a receiver that answers as it is told, over both protocols.
type fake struct {
	grpc, http string // URLs

	mu     sync.Mutex
	bodies []string // of log records that have arrived
	serve  http.HandlerFunc
}

func newFake(t *testing.T, serve http.HandlerFunc) *fake {
	f := &fake{serve: serve}
	start := func(h2 bool) string {
		s := httptest.NewUnstartedServer(http.HandlerFunc(f.answer))
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetHTTP1(!h2)
		s.Config.Protocols.SetUnencryptedHTTP2(h2)
		s.Start()
		t.Cleanup(s.Close)
		return s.URL
	}
	f.grpc, f.http = start(true), start(false)
	return f
}

func (f *fake) answer(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	if grpcx.IsCall(r) {
		raw, _, _ = grpcx.Message(raw)
	}
	request := plogotlp.NewExportRequest()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := request.UnmarshalProto(raw); err == nil {
		for _, r := range request.Logs().ResourceLogs().All() {
			for _, s := range r.ScopeLogs().All() {
				for _, l := range s.LogRecords().All() {
					f.bodies = append(f.bodies, l.Body().Str())
				}
			}
		}
	}
	f.serve(w, r)
}

func succeed(w http.ResponseWriter, r *http.Request) { partly(otlpdocs.PartialSuccess{})(w, r) }

func partly(p otlpdocs.PartialSuccess) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if grpcx.IsCall(r) {
			grpcx.Answer(w, p.Proto())
			return
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(p.Proto())
	}
}

func TestRemote(t *testing.T) {
	var payloads []string
	for i := range 5 {
		payloads = append(payloads, record("shop", "lib", fmt.Sprint(i)))
	}
	for _, protocol := range []string{"grpc", "http"} {
		t.Run(protocol, func(t *testing.T) {
			var f *fake
			enginetest.Remote{
				Reach: func(t *testing.T, wire *enginetest.Wire) func() engine.Output {
					f = newFake(t, succeed)
					url := map[string]string{"grpc": f.grpc, "http": f.http}[protocol]
					return func() engine.Output {
						return enginetest.New(t, engine.Outputs,
							`{"otlp": {"endpoint": "`+wire.Over(url)+`", "protocol": "`+protocol+`", "compression": "none"}}`)
					}
				},
				Arrived: func(*testing.T) (all []string) {
					f.mu.Lock()
					defer f.mu.Unlock()
					for _, b := range f.bodies {
						all = append(all, record("shop", "lib", b))
					}
					return all
				},
				Payloads: payloads,
			}.Run(t)
		})
	}
}

// TestAWriteIsOneRequestPerSignal checks that equal resources and scopes are joined.
func TestAWriteIsOneRequestPerSignal(t *testing.T) {
	r := oteltest.New(t, nil)
	o := open(t, `"`+r.GRPC+`"`)
	fates, err := enginetest.Written(t, o, record("shop", "a", "1"), `{"a":1}`, span, record("bank", "a", "2"), record("shop", "a", "3"),
		record("shop", "b", "4"), `{"resourceLogs":[]}`)
	if want := "safe failed safe safe safe safe safe"; err != nil || strings.Join(fates, " ") != want {
		t.Errorf("got %v, %v, want %s", fates, err, want)
	}
	if len(r.Logs()) != 1 || len(r.Traces()) != 1 {
		t.Fatalf("%d requests with logs, %d with traces", len(r.Logs()), len(r.Traces()))
	}
	var got []string
	for _, resource := range r.Logs()[0].ResourceLogs().All() {
		service, _ := resource.Resource().Attributes().Get("service.name")
		got = append(got, service.Str()+":")
		for _, scope := range resource.ScopeLogs().All() {
			got = append(got, scope.Scope().Name())
			for _, l := range scope.LogRecords().All() {
				got = append(got, l.Body().Str())
			}
		}
	}
	if want := "shop: a 1 3 b 4 bank: a 2"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestALargeBatchIsSeveralRequests(t *testing.T) {
	r := oteltest.New(t, nil)
	o := open(t, `{"endpoint": "`+r.GRPC+`", "max_request": "10KiB"}`)
	var payloads []string
	for range 5 {
		payloads = append(payloads, record("shop", "a", strings.Repeat("x", 4000)))
	}
	payloads = append(payloads, record("shop", "a", strings.Repeat("x", 40_000)))
	if failed := enginetest.Failures(t, o, payloads...); len(failed) > 0 || len(r.Logs()) != 4 {
		t.Errorf("%v, %d requests", failed, len(r.Logs()))
	}
}

// TestWhatAnswersMean checks the class and the delay of each answer.
func TestWhatAnswersMean(t *testing.T) {
	call := func(code codes.Code, retry time.Duration) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			grpcx.Refuse(w, grpcx.NewStatus(code, "said ünïcode", retry))
		}
	}
	status := func(code int, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for _, h := range headers {
				name, value, _ := strings.Cut(h, ": ")
				w.Header().Set(name, value)
			}
			w.WriteHeader(code)
			_, _ = io.WriteString(w, "said")
		}
	}
	for _, tt := range []struct {
		name  string
		grpc  bool
		serve http.HandlerFunc
		class engine.Class
		delay time.Duration
		text  string
	}{
		{"unavailable", true, call(codes.Unavailable, 3*time.Second), engine.Transient, 3 * time.Second, "Unavailable: said ünïcode"},
		{"a day", true, call(codes.Unavailable, 24*time.Hour), engine.Transient, time.Hour, "Unavailable"},
		{"exhausted", true, call(codes.ResourceExhausted, 0), engine.Rejected, 0, "ResourceExhausted: said"},
		{"exhausted for now", true, call(codes.ResourceExhausted, time.Second), engine.Transient, time.Second, "ResourceExhausted: said"},
		{"invalid", true, call(codes.InvalidArgument, 0), engine.Rejected, 0, "InvalidArgument: said"},
		{"unauthenticated", true, call(codes.Unauthenticated, 0), engine.Auth, 0, "Unauthenticated: said"},
		{"an unknown code", true, call(99, 0), engine.Rejected, 0, "Code(99): said"},
		{"not gRPC", true, status(200), engine.Permanent, 0, "this is not a gRPC server"},
		{"a proxy's", true, status(503), engine.Transient, 0, "503 Service Unavailable: said"},
		{"not a message", true, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
			_, _ = io.WriteString(w, "said")
		}, engine.Transient, 0, "not one message of gRPC"},
		{"no status", true, status(200, "Content-Type: application/grpc"), engine.Transient, 0, "no grpc-status"},
		{"503", false, status(503, "Retry-After: 7"), engine.Transient, 7 * time.Second, "503 Service Unavailable: said"},
		{"429", false, status(429, "Retry-After: 7"), engine.Transient, 7 * time.Second, "429 Too Many Requests"},
		{"500", false, status(500), engine.Rejected, 0, "500 Internal Server Error: said"},
		{"400", false, status(400), engine.Rejected, 0, "400 Bad Request"},
		{"401", false, status(401), engine.Auth, 0, "401 Unauthorized"},
		{"a redirect", false, status(302, "Location: http://elsewhere"), engine.Rejected, 0, "302 Found"},
		{"another form", false, status(200, "Content-Type: text/plain"), "", 0, ""},
		{"not a message, by HTTP", false, status(200, "Content-Type: application/x-protobuf"), engine.Transient, 0, "the answer is not OTLP"},
		{"in part", false, partly(otlpdocs.PartialSuccess{Rejected: 2, Message: "why"}), engine.Rejected, 0,
			"has rejected 2 log records of a request with 2 messages: why"},
		{"in part, by gRPC", true, partly(otlpdocs.PartialSuccess{Rejected: 1, Message: "why"}), engine.Rejected, 0, "rejected 1 log records"},
		{"with a warning", true, partly(otlpdocs.PartialSuccess{Message: "old"}), "", 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, tt.serve)
			config := `{"endpoint": "` + f.http + `", "protocol": "http"}`
			if tt.grpc {
				config = `"` + f.grpc + `"`
			}
			failed := enginetest.Failures(t, open(t, config), record("shop", "a", "1"), record("shop", "a", "2"))
			if tt.class == "" {
				if len(failed) > 0 {
					t.Errorf("got %v", failed)
				}
				return
			}
			if len(failed) != 2 {
				t.Fatalf("got %v", failed)
			}
			if e := failed[0]; e.Class != tt.class || e.Delay != tt.delay || !strings.Contains(e.Error(), tt.text) {
				t.Errorf("got %s, %v, %v; want %s, %v, %s", e.Class, e.Delay, e, tt.class, tt.delay, tt.text)
			}
		})
	}
}

// TestTheCollectorsRefusals checks what the collector's own receiver answers.
func TestTheCollectorsRefusals(t *testing.T) {
	r := oteltest.New(t, nil)
	for protocol, config := range over(r) {
		o := open(t, config)
		for class, refusal := range map[engine.Class]error{
			engine.Transient: errors.New("busy"), engine.Rejected: consumererror.NewPermanent(errors.New("bad")),
		} {
			r.Refuse(refusal)
			failed := enginetest.Failures(t, o, span)
			// The receiver answers final errors over HTTP with 500, which is not retryable, and over gRPC with INTERNAL.
			if len(failed) != 1 || failed[0].Class != class {
				t.Errorf("%s, %v: got %v", protocol, refusal, failed)
			}
		}
		r.Refuse(nil)
	}
}

// TestHeaders checks that headers arrive, and that errors do not quote their values.
func TestHeaders(t *testing.T) {
	for _, grpc := range []bool{true, false} {
		f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
			key := r.Header.Get("api-key")
			if key != "secret-key" {
				t.Errorf("the key is %q", key)
			}
			if grpcx.IsCall(r) {
				grpcx.Refuse(w, grpcx.NewStatus(codes.InvalidArgument, "bad key "+key, 0))
				return
			}
			http.Error(w, "bad key "+key, 400)
		})
		url, protocol := f.http, "http"
		if grpc {
			url, protocol = f.grpc, "grpc"
		}
		failed := enginetest.Failures(t,
			open(t, `{"endpoint": "`+url+`", "protocol": "`+protocol+`", "headers": {"api-key": "secret-key"}}`), span)
		if len(failed) != 1 || strings.Contains(failed[0].Error(), "secret-key") || !strings.Contains(failed[0].Error(), "bad key") {
			t.Errorf("got %v", failed)
		}
	}
}

// TestTheTimeLimit sends to a receiver that does not answer.
func TestTheTimeLimit(t *testing.T) {
	end := make(chan struct{})
	f := newFake(t, func(http.ResponseWriter, *http.Request) { <-end })
	defer close(end)
	failed := enginetest.Failures(t, open(t, `{"endpoint": "`+f.grpc+`", "timeout": "50ms"}`), span)
	if len(failed) != 1 || failed[0].Class != engine.Timeout || failed[0].Holds {
		t.Errorf("got %v", failed)
	}
}

// TestAReceiverThatIsNotThere checks that it holds the output, and that a probe finds it.
func TestAReceiverThatIsNotThere(t *testing.T) {
	wire := httptest.NewServer(http.NotFoundHandler())
	url := wire.URL
	wire.Close()
	o := open(t, `"`+url+`"`)
	if failed := enginetest.Failures(t, o, span); len(failed) != 1 || !failed[0].Holds || failed[0].Class != engine.Transient {
		t.Errorf("got %v", failed)
	}
	if err := o.(engine.Prober).Probe(t.Context()); !engine.ErrorOf(err, "").Holds {
		t.Errorf("probe: %v", err)
	}
}

func TestTheEnvironment(t *testing.T) {
	r := oteltest.New(t, nil)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.HTTP)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	if failed := enginetest.Failures(t, open(t, `{}`), span); len(failed) > 0 || len(r.Spans()) != 1 {
		t.Errorf("%v, %d spans", failed, len(r.Spans()))
	}
	if got := r.Spans()[0].TraceID(); got != ([16]byte{1}) {
		t.Errorf("trace id %v", got)
	}
}
