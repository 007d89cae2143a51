package test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/flowd-io/flowd/internal/testing/oteltest"
)

// TestMetricsAndLogsByOTLP runs a pipeline whose metrics and log the collector's receiver gets.
func TestMetricsAndLogsByOTLP(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"grpc", "http"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			r := oteltest.New(t, nil)
			to := fmt.Sprintf("{endpoint: %q, protocol: %s, attributes: {team: a}}",
				map[string]string{"grpc": r.GRPC, "http": r.HTTP}[protocol], protocol)
			dir := t.TempDir()
			file := write(t, dir, "orders.yaml", `
inputs:
  in: {generate: {count: 5, body: "{n: counter()}"}}
processors:
  - log: {message: "got $(n)", fields: {n: n}}
outputs:
  out: {drop: {}}
service:
  metrics: {otlp: `+to+`}
  log: {otlp: `+to+`}
`)
			flowd(t, dir, "", "-c", file).Want(t, 0, "5 received: 5 delivered")
			values := map[string]float64{}
			for _, request := range r.Metrics() {
				for _, resource := range request.ResourceMetrics().All() {
					for _, scope := range resource.ScopeMetrics().All() {
						for _, m := range scope.Metrics().All() {
							if m.Name() == "flowd_messages_received_total" {
								at := m.Sum().DataPoints().At(0)
								name, _ := at.Attributes().Get("pipeline")
								values[name.Str()] = at.DoubleValue()
							}
						}
					}
				}
			}
			if fmt.Sprint(values) != "map[orders:5]" {
				t.Errorf("messages received are %v", values)
			}
			var lines []string
			for _, request := range r.Logs() {
				for _, resource := range request.ResourceLogs().All() {
					if v, _ := resource.Resource().Attributes().Get("team"); v.Str() != "a" {
						t.Errorf("the resource has the attributes %v", resource.Resource().Attributes().AsRaw())
					}
					for _, scope := range resource.ScopeLogs().All() {
						for _, record := range scope.LogRecords().All() {
							lines = append(lines, fmt.Sprint(record.Body().Str(), " ", record.Attributes().AsRaw()))
						}
					}
				}
			}
			if slices.Sort(lines); len(lines) != 5 || lines[0] != "got 1 map[n:1 name:log pipeline:orders]" {
				t.Errorf("the lines are %q", lines)
			}
		})
	}
}

// TestAReceiverOfOTLPThatIsDown logs far more than may wait for a receiver that does not take it. The pipeline must neither wait nor
// fail, and the problem is logged once for each of metrics and logs.
func TestAReceiverOfOTLPThatIsDown(t *testing.T) {
	t.Parallel()
	refusing := oteltest.New(t, nil)
	refusing.Refuse(io.ErrUnexpectedEOF)
	hushed, err := net.Listen("tcp", "127.0.0.1:0") // it never accepts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hushed.Close() })
	for name, endpoint := range map[string]string{"refuses requests": refusing.GRPC, "never answers": "http://" + hushed.Addr().String(),
		"is not there": "http://127.0.0.1:1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := write(t, dir, "p.yaml", fmt.Sprintf(`
inputs:
  in: {generate: {count: 30000, body: "{n: counter()}"}}
processors:
  - log: got $(n)
outputs:
  out: {drop: {}}
service:
  metrics: {otlp: {endpoint: %q, interval: 1s, timeout: 1s}}
  log: {otlp: {endpoint: %[1]q, timeout: 1s}}
`, endpoint))
			began := time.Now()
			got := flowd(t, dir, "", "-c", file)
			took := time.Since(began)
			got.Want(t, 0, "30,000 received: 30,000 delivered", "logs can't be sent by OTLP", "metrics can't be sent by OTLP")
			if n := strings.Count(got.Stderr, "can't be sent by OTLP"); n != 2 {
				t.Errorf("the problem is logged %d times", n)
			}
			if n := strings.Count(got.Stderr, `msg="got `); n != 30000 {
				t.Errorf("the log has %d lines", n)
			}
			if took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestAReloadChangesTheReceiver begins with a receiver that is down, which the variables of OpenTelemetry name, and continues with one
// that works.
func TestAReloadChangesTheReceiver(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "100")
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "200")
	t.Setenv("OTEL_SERVICE_NAME", "orders")
	r, dir := oteltest.New(t, nil), t.TempDir()
	const file = `
inputs:
  in: {stdin: {}}
processors:
  - log: $(raw())
outputs:
  out: {drop: {}}
service:
  listen: 127.0.0.1:0
  metrics: {otlp: %[1]s}
  log: {otlp: %[1]s}
`
	p := start(t, dir, "-c", write(t, dir, "p.yaml", fmt.Sprintf(file, "{}")))
	at := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(p.Says("admin API listening"))[1]
	p.Says("metrics can't be sent by OTLP")
	p.Send("lost\n")
	p.Says("logs can't be sent by OTLP")
	answer, err := http.Get("http://" + at + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || !regexp.MustCompile(`(?m)^flowd_telemetry_dropped_total{signal="logs"} [1-9]`).Match(text) ||
		!regexp.MustCompile(`(?m)^flowd_telemetry_dropped_total{signal="metrics"} [1-9]`).Match(text) {
		t.Errorf("nothing is counted as dropped (%v)", err)
	}

	write(t, dir, "p.yaml", fmt.Sprintf(file, fmt.Sprintf("{endpoint: %q, timeout: 10s}", r.GRPC)))
	p.Signal(syscall.SIGHUP)
	p.Says("reloaded")
	p.Send("found\n")
	r.Wait(t, func() bool {
		return len(r.Metrics()) > 0 && slices.ContainsFunc(r.Logs(), func(request plog.Logs) bool {
			resource := request.ResourceLogs().At(0)
			name, _ := resource.Resource().Attributes().Get("service.name")
			for _, line := range resource.ScopeLogs().At(0).LogRecords().All() {
				if line.Body().Str() == "found" && name.Str() == "orders" {
					return true
				}
			}
			return false
		})
	})
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0)
}

func TestNothingIsSentIfTheSDKIsDisabled(t *testing.T) {
	t.Setenv("OTEL_SDK_DISABLED", "true")
	r, dir := oteltest.New(t, nil), t.TempDir()
	file := write(t, dir, "p.yaml", fmt.Sprintf(`
inputs:
  in: {generate: {count: 5, body: "{n: counter()}"}}
processors:
  - log: got $(n)
outputs:
  out: {drop: {}}
service:
  metrics: {otlp: %q}
  log: {otlp: %[1]q}
`, r.GRPC))
	flowd(t, dir, "", "-c", file).Want(t, 0, "5 received: 5 delivered")
	if len(r.Metrics())+len(r.Logs()) > 0 {
		t.Errorf("%d requests with metrics and %d with logs have arrived", len(r.Metrics()), len(r.Logs()))
	}
}

// TestMetricsAndLogsLinkToTraces compares the ids of a traced message in its span, in its line of the log and in an exemplar.
func TestMetricsAndLogsLinkToTraces(t *testing.T) {
	t.Parallel()
	r, dir := oteltest.New(t, nil), t.TempDir()
	p := start(t, dir, "-c", write(t, dir, "p.yaml", fmt.Sprintf(`
inputs:
  in: {stdin: {}}
processors:
  - log: $(raw())
outputs:
  out: {drop: {}}
service:
  listen: 127.0.0.1:0
  tracing: %q
  metrics: {otlp: {endpoint: %[1]q, interval: 1s}}
  log: {otlp: %[1]q}
`, r.GRPC)))
	at := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(p.Says("admin API listening"))[1]
	p.Send("hello\n")
	trace := regexp.MustCompile(`trace_id=([0-9a-f]{32}) span_id=[0-9a-f]{16}`).FindStringSubmatch(p.Says("msg=hello"))
	if trace == nil {
		t.Fatal("the line of the log names no trace")
	}
	r.Wait(t, func() bool {
		return slices.ContainsFunc(r.Spans(), func(s ptrace.Span) bool { return s.TraceID().String() == trace[1] }) &&
			slices.ContainsFunc(r.Metrics(), func(all pmetric.Metrics) bool { return hasExemplar(all, trace[1]) })
	})
	for _, request := range r.Logs() {
		for _, line := range request.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().All() {
			if line.Body().Str() == "hello" && line.TraceID().String() != trace[1] {
				t.Errorf("the record of the log has the trace %s, want %s", line.TraceID(), trace[1])
			}
		}
	}
	request, err := http.NewRequest(http.MethodGet, "http://"+at+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || !regexp.MustCompile(`(?m)^flowd_message_latency_seconds_bucket{.*} 1 # {.*trace_id="`+trace[1]).Match(text) {
		t.Errorf("no bucket at /metrics has the trace %s (%v)", trace[1], err)
	}
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0)
}

// hasExemplar reports whether a bucket of the latencies links to a trace.
func hasExemplar(all pmetric.Metrics, trace string) bool {
	for _, m := range all.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().All() {
		if m.Name() == "flowd_message_latency_seconds" {
			for _, e := range m.Histogram().DataPoints().At(0).Exemplars().All() {
				if e.TraceID().String() == trace {
					return true
				}
			}
		}
	}
	return false
}
