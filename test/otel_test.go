package test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/flowd-io/flowd/internal/testing/brokertest"
	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/flowd-io/flowd/internal/testing/oteltest"
)

// TestTraces compares the spans that the collector's receiver gets, over both protocols.
func TestTraces(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"grpc", "http"} {
		t.Run(protocol, func(t *testing.T) {
			for _, tt := range traceTests {
				t.Run(tt.name, func(t *testing.T) {
					t.Parallel()
					r := oteltest.New(t, nil)
					endpoint := r.GRPC
					if protocol == "http" {
						endpoint = r.HTTP
					}
					dir := t.TempDir()
					service := fmt.Sprintf("service: {tracing: {endpoint: %q, protocol: %s, error_texts: true, attributes: {id: id}}}\n",
						endpoint, protocol)
					url := flaky(t)
					write(t, dir, "p.yaml", strings.ReplaceAll(tt.pipeline, "FLAKY", url)+service)
					got := flowd(t, dir, tt.stdin, "-c", "p.yaml")
					got.Want(t, tt.code)
					spans := oteltest.Tree(t, r.Spans(), "flowd.pipeline", "flowd.type")
					if want := strings.TrimLeft(strings.ReplaceAll(tt.want, "FLAKY", url), "\n"); spans != want {
						t.Errorf("got:\n%s\nwant:\n%s", spans, want)
					}
				})
			}
		})
	}
}

// flaky starts a server that refuses its first request, and returns its URL.
func flaky(t *testing.T) string {
	t.Helper()
	var n atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// out is an output, and one for dead letters.
const out = `
outputs: {out: {file: {path: out}}, dead: {file: {path: dead, framing: messages}}}
engine: {on_failure: {dead_letter: dead}}
`

var traceTests = []struct {
	name, pipeline, stdin string
	code                  int
	want                  string
}{
	{name: "success", stdin: `{"id":1}`, pipeline: `
inputs: {in: {stdin: {}}}
processors: [{name: first, set: {x: id}}]
` + out, want: `
process in {flowd.fate=delivered id=1}
  step first
  send out CLIENT
`},
	{name: "retry, then success", stdin: `{"id":1}`, pipeline: `
inputs: {in: {stdin: {}}}
processors: [{name: call, http: FLAKY, retry: {backoff: 1ms}}]
` + out, want: `
process in {flowd.fate=delivered id=1}
  step call {error.type=transient flowd.passage=failed} ERROR FLAKY: 503 Service Unavailable (exception)
  step call
  send out CLIENT
`},
	{name: "dead letter", stdin: `{"id":1}`, pipeline: `
inputs: {in: {stdin: {}}}
processors: [{name: never, fail: "not today"}]
` + out, want: `
process in {error.type=permanent flowd.fate=dead_lettered id=1} ERROR not today
  step never {error.type=permanent flowd.passage=failed} ERROR not today (exception)
  send dead CLIENT
`},
	{name: "filter", stdin: `{"id":1}`, pipeline: `
inputs: {in: {stdin: {}}}
processors: [{name: even, filter: id % 2 == 0}]
` + out, want: `
process in {flowd.fate=filtered id=1}
  step even {flowd.passage=filtered}
`},
	{name: "split", stdin: `{"id":1,"parts":[{"n":1},{"n":2}]}`, pipeline: `
inputs: {in: {stdin: {}}}
processors: [{name: apart, split: parts}, {name: odd, filter: n == 1}]
` + out, want: `
process in {flowd.fate=delivered id=1}
  step apart {flowd.passage=split}
  step odd {flowd.part=1}
  step odd {flowd.part=2 flowd.passage=filtered}
  send out CLIENT {flowd.part=1}
`},
	{name: "batch", stdin: "{\"id\":1}\n{\"id\":2}\n", pipeline: `
inputs: {in: {stdin: {}}}
batchers: {pairs: {batch: {size: 2, timeout: 10s}, output: out, processors: [{name: together, archive: json_array}]}}
` + out, want: `
batcher pairs {flowd.trigger=size messaging.batch.message_count=2} → process in → process in
process in {flowd.fate=delivered id=1}
  step together {flowd.of=batcher pairs flowd.passage=merged}
  send out CLIENT → batcher pairs → process in
process in {flowd.fate=delivered id=2}
  step together {flowd.of=batcher pairs flowd.passage=merged}
`},
	{name: "write of several", stdin: "{\"id\":1}\n{\"id\":2}\n", pipeline: `
inputs: {in: {stdin: {}}}
batchers: {pairs: {batch: {size: 2, timeout: 10s}, output: out}}
` + out, want: `
batcher pairs {flowd.trigger=size messaging.batch.message_count=2} → process in → process in
  send out CLIENT {messaging.batch.message_count=2} → process in → process in
process in {flowd.fate=delivered id=1}
  send out → send out
process in {flowd.fate=delivered id=2}
  send out → send out
`},
	{name: "fallback", stdin: `{"id":1}`, pipeline: `
inputs: {in: {stdin: {}}}
batchers: {all: {output: either}}
outputs:
  either: {fallback: [first, second]}
  first: {http: {url: "FLAKY"}, retry: {max_attempts: 1}}
  second: {file: {path: out}}
`, want: `
process in {flowd.fate=delivered id=1}
  send first CLIENT {error.type=transient flowd.passage=failed} ERROR FLAKY: 503 Service Unavailable (exception)
  send second CLIENT
`},
	{name: "steps inside steps", stdin: `{"id":1,"items":[{"n":1},{"n":2}]}`, pipeline: `
inputs: {in: {stdin: {}}}
processors: [{name: all, each: {in: items, do: [{name: double, set: {n: n * 2}}]}}]
` + out, want: `
process in {flowd.fate=delivered id=1}
  step all
    step double {flowd.of=step all}
    step double {flowd.of=step all}
  send out CLIENT
`},
}

// TestTracesInOtherProcesses runs a program, and the same one on a worker of a pool. Both get the message's place in its trace.
func TestTracesInOtherProcesses(t *testing.T) {
	t.Parallel()
	needsInterpreter(t, "python")
	r := oteltest.New(t, nil)
	f := newFleet(t, onLoopback)
	write(t, f.dir, "parent.py", `
import flowd

@flowd.step
def parent(msg):
    msg.doc = msg.doc + [msg.meta["traceparent"]]
`)
	step := python("parent.py", "")
	f.serveWithWorkers(1, pipeline{do: step, behind: "{name: near, " + strings.TrimPrefix(step, "{"),
		service: fmt.Sprintf("tracing: {endpoint: %q}", r.GRPC)})
	f.hub.Send("[]\n")
	got := strings.TrimSpace(f.hub.Line())
	f.hub.Signal(syscall.SIGTERM)
	f.hub.Wait()
	want := `
process in {flowd.fate=delivered}
  step far
  step near
  send out CLIENT → batcher all
`
	var parent string
	for _, s := range r.Spans() {
		if s.Name() == "process in" {
			parent = "00-" + s.TraceID().String() + "-" + s.SpanID().String() + "-01"
		}
	}
	if seen := fmt.Sprintf("[%q,%q]", parent, parent); got != seen {
		t.Errorf("the programs have seen %s, want %s", got, seen)
	}
	tree := oteltest.Tree(t, r.Spans(), "flowd.pipeline", "flowd.type", "flowd.trigger", "messaging.batch.message_count")
	if _, tree, _ = strings.Cut(tree, "\n"); "\n"+tree != want { // the first line is that of the batch
		t.Errorf("got:\n%s\nwant:%s", tree, want)
	}
}

// TestATraceOfReturnedMessages stops a pipeline whose output accepts nothing.
func TestATraceOfReturnedMessages(t *testing.T) {
	t.Parallel()
	r := oteltest.New(t, nil)
	dir := t.TempDir()
	write(t, dir, "p.yaml", fmt.Sprintf(`
inputs: {in: {http_server: {listen: "127.0.0.1:0"}}}
outputs: {out: {http: {url: "http://127.0.0.1:1"}, breaker: {failures: 1}}}
engine: {drain: {timeout: 100ms}}
service: {tracing: {endpoint: %q}}
`, r.GRPC))
	p := start(t, dir, "-c", "p.yaml")
	_, at, _ := strings.Cut(p.Says("listening on "), "listening on ")
	at, _, _ = strings.Cut(at, `"`)
	answered := make(chan int, 1)
	go func() {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, at, strings.NewReader(`{"id":1}`))
		req.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			answered <- 0
			return
		}
		res.Body.Close()
		answered <- res.StatusCode
	}()
	p.Says("output is down")
	p.Signal(syscall.SIGTERM)
	if status := <-answered; status != http.StatusServiceUnavailable {
		t.Errorf("the request is answered with %d", status)
	}
	p.Wait()
	root := ""
	for _, s := range r.Spans() {
		if s.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("span %s is in trace %s", s.Name(), s.TraceID())
		}
		if s.ParentSpanID().String() == "b7ad6b7169203331" {
			fate, _ := s.Attributes().Get("flowd.fate")
			root += s.Name() + " " + s.Kind().String() + " " + fate.AsString() + " " + s.Status().Code().String()
		}
	}
	if want := "process in Server returned Error"; root != want {
		t.Errorf("the span of the message is %q, want %q", root, want)
	}
}

// TestATraceSurvivesAReload reloads while a message waits for its output. It stays in its trace.
func TestATraceSurvivesAReload(t *testing.T) {
	t.Parallel()
	r := oteltest.New(t, nil)
	var works atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !works.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(s.Close)
	dir := t.TempDir()
	text := fmt.Sprintf(`
inputs: {in: {stdin: {}}}
processors: [{name: before, set: {x: id}}]
outputs: {out: {http: %s, retry: {max_attempts: 10000, backoff: 10ms, max_backoff: 50ms}, breaker: {failures: 1, backoff: 10ms}}}
service: {tracing: {endpoint: %q}}
`, s.URL, r.GRPC)
	write(t, dir, "p.yaml", text)
	p := start(t, dir, "-c", "p.yaml")
	p.Send(`{"id":1}` + "\n")
	p.Says("output is down")
	write(t, dir, "p.yaml", strings.Replace(text, "name: before", "name: after", 1))
	p.Signal(syscall.SIGHUP)
	p.Says("reloaded")
	works.Store(true)
	r.Wait(t, func() bool { return len(r.Spans()) > 0 })
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0)
	var names []string
	traces := map[string]bool{}
	for _, s := range r.Spans() {
		traces[s.TraceID().String()] = true
		if !slices.Contains(names, s.Name()) || s.Name() == "process in" {
			names = append(names, s.Name())
		}
	}
	slices.Sort(names)
	if want := []string{"process in", "send out", "step after", "step before"}; !slices.Equal(names, want) || len(traces) != 1 {
		t.Errorf("%d traces have the spans %q, want one with %q", len(traces), names, want)
	}
}

// TestTheExampleOfTraces runs the commands in the example's README.md, with the collector's receiver instead of Jaeger.
func TestTheExampleOfTraces(t *testing.T) {
	readme := blocks(read(t, repo, "examples", "otel", "README.md"))
	flowd(t, repo, "", words(t, readme[4].text)...).Want(t, 0, "0 errors, 0 warnings")
	r := oteltest.New(t, nil)
	orders, shipping := freeAddress(t), freeAddress(t)
	dir := t.TempDir()
	for name, value := range map[string]string{"ORDERS": orders, "SHIPPING": shipping, "OTEL_EXPORTER_OTLP_ENDPOINT": r.GRPC,
		"OUT": filepath.Join(dir, "parcels"), "REFUSED": filepath.Join(dir, "refused")} {
		t.Setenv(name, value)
	}
	p := start(t, repo, words(t, readme[1].text)...)
	p.Says("listening on http://" + orders)
	p.Says("listening on http://" + shipping)
	_, order, _ := strings.Cut(readme[2].text, "-d '")
	order, _, _ = strings.Cut(order, "'")
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+orders, strings.NewReader(order))
	req.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	p.Signal(syscall.SIGTERM)
	p.Wait()
	var names []string
	for _, s := range r.Spans() {
		if s.TraceID().String() == "0af7651916cd43dd8448eb211c80319c" {
			names = append(names, s.Name())
		}
	}
	slices.Sort(names)
	want := []string{"process web", "process web", "send parcels", "send refused", "send shipping", "step only paid", "step parcels",
		"step too heavy"}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("the trace has %q, want %q", names, want)
	}
}

// TestOneTraceThroughBrokers sends a message over HTTP through flowd to RabbitMQ, and from there through another flowd to Kafka.
func TestOneTraceThroughBrokers(t *testing.T) {
	t.Parallel()
	b := brokertest.RabbitMQ(t)
	queue := b.Queue(t, nil)
	k := kafkatest.Start(t)
	topic := k.Topic(t, 1)
	r := oteltest.New(t, nil)
	dir := t.TempDir()
	write(t, dir, "first.yaml", fmt.Sprintf(`
inputs: {in: {http_server: {listen: "127.0.0.1:0"}}}
outputs: {out: {rabbitmq: {url: %q, routing_key: %q}}}
service: {tracing: {endpoint: %q, sample: 0}}
`, b.URL, queue, r.GRPC))
	write(t, dir, "second.yaml", fmt.Sprintf(`
inputs: {in: {rabbitmq: {url: %q, queue: %q}}}
outputs: {out: {kafka: {brokers: %q, topic: %q}}}
service: {tracing: {endpoint: %q, protocol: http, sample: 0}}
`, b.URL, queue, k.Brokers, topic, r.HTTP))
	first, second := start(t, dir, "-c", "first.yaml"), start(t, dir, "-c", "second.yaml")
	_, at, _ := strings.Cut(first.Says("listening on "), "listening on ")
	at, _, _ = strings.Cut(at, `"`)
	const id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, at, strings.NewReader(`{"id":1}`))
	req.Header.Set("Traceparent", "00-"+id+"-"+parent+"-01")
	req.Header.Set("Tracestate", "shop=1")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	r.Wait(t, func() bool { return len(r.Spans()) == 4 })
	for _, p := range []*process{first, second} {
		p.Signal(syscall.SIGTERM)
		p.Wait().Want(t, 0)
	}
	last, above := "", parent
	for range 2 { // from parent to child
		for _, s := range r.Spans() {
			if s.TraceID().String() != id || s.TraceState().AsRaw() != "shop=1" {
				t.Errorf("span %s is in trace %s, with state %q", s.Name(), s.TraceID(), s.TraceState().AsRaw())
			}
			if s.Name() == "process in" && s.ParentSpanID().String() == above {
				last, above = s.Kind().String(), s.SpanID().String()
				break
			}
		}
	}
	if last != "Consumer" {
		t.Errorf("the message of the second process is no child of the first's: %s", above)
	}
	records := k.Read(t, topic)
	headers := ""
	for _, h := range records[0].Headers {
		if h.Key == "traceparent" {
			headers = string(h.Value)
		}
	}
	if want := "00-" + id + "-" + above + "-01"; headers != want {
		t.Errorf("the record has traceparent %q, want %q", headers, want)
	}
}
