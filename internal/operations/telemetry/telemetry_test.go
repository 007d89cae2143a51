//go:build !no_otel && (!slim || otel)

package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/otel/trace"

	"github.com/flowd-io/flowd/internal/network/otlp"
	"github.com/flowd-io/flowd/internal/testing/oteltest"
	"github.com/flowd-io/flowd/schema"
)

// senders are settings for both protocols of a receiver.
func senders(r *oteltest.Receiver) map[string]otlp.Sender {
	team := schema.MapOf(schema.Entry[string]{Key: "team", Value: "a"})
	return map[string]otlp.Sender{"grpc": {Client: otlp.Client{Endpoint: r.GRPC}, Attributes: team},
		"http": {Client: otlp.Client{Endpoint: r.HTTP, Protocol: otlp.HTTP}, Attributes: team}}
}

var span = trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1, 15: 2}, SpanID: trace.SpanID{3, 7: 4}})

func TestLogRecordsArriveAsTheyWereLogged(t *testing.T) {
	for name := range senders(&oteltest.Receiver{}) {
		t.Run(name, func(t *testing.T) {
			r := oteltest.New(t, nil)
			logs := &Logs{}
			log := slog.New(logs.Handler()).With("pipeline", "orders")
			log.Info("before there is a receiver")
			if err := logs.Send(senders(r)[name], "1.2.3", slog.New(slog.DiscardHandler)); err != nil {
				t.Fatal(err)
			}
			log.WarnContext(trace.ContextWithSpanContext(t.Context(), span), "it fails", "err", errors.New("no"), "n", 7, "f", 1.5,
				"ok", true, "in", 90*time.Second, "at", time.Unix(0, 0).UTC(), slog.Group("g", "a", "b"))
			log.WithGroup("h").Debug("next", "a", "b")
			logs.Close()
			log.Info("after the end")
			var got []string
			for _, request := range r.Logs() {
				for _, resource := range request.ResourceLogs().All() {
					if v, _ := resource.Resource().Attributes().Get("team"); v.Str() != "a" {
						t.Errorf("the resource has the attributes %v", resource.Resource().Attributes().AsRaw())
					}
					for _, scope := range resource.ScopeLogs().All() {
						for _, record := range scope.LogRecords().All() {
							got = append(got, text(record))
						}
					}
				}
			}
			want := []string{
				"Warn WARN it fails map[at:1970-01-01T00:00:00Z err:no f:1.5 g.a:b in:1m30s n:7 ok:true pipeline:orders] " +
					"01000000000000000000000000000002 0300000000000004",
				"Debug DEBUG next map[h.a:b pipeline:orders]  ",
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

func text(r plog.LogRecord) string {
	return fmt.Sprint(r.SeverityNumber(), " ", r.SeverityText(), " ", r.Body().Str(), " ", r.Attributes().AsRaw(), " ", r.TraceID(), " ",
		r.SpanID())
}

func TestMetricsHaveTheNamesAndBucketsOfPrometheus(t *testing.T) {
	for name := range senders(&oteltest.Receiver{}) {
		t.Run(name, func(t *testing.T) {
			r, own := oteltest.New(t, nil), prometheus.NewRegistry()
			counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "flowd_x_total", Help: "Xs."}, []string{"pipeline"})
			histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "flowd_y_seconds", Help: "Ys.", Buckets: []float64{1, 2}})
			own.MustRegister(counter, histogram)
			counter.WithLabelValues("orders").Add(3)
			histogram.(prometheus.ExemplarObserver).ObserveWithExemplar(1.5,
				prometheus.Labels{"trace_id": span.TraceID().String(), "span_id": span.SpanID().String()})
			m, err := NewMetrics(senders(r)[name], time.Hour, "1.2.3", own, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			m.Close()
			all := map[string]pmetric.Metric{}
			var resource pcommon.Resource
			for _, request := range r.Metrics() {
				for _, of := range request.ResourceMetrics().All() {
					resource = of.Resource()
					for _, scope := range of.ScopeMetrics().All() {
						for _, metric := range scope.Metrics().All() {
							all[metric.Name()] = metric
						}
					}
				}
			}
			if len(all) != 2 {
				t.Fatalf("the metrics are %v", all)
			}
			if v, _ := resource.Attributes().Get("service.version"); v.Str() != "1.2.3" {
				t.Errorf("the resource has the attributes %v", resource.Attributes().AsRaw())
			}
			sum := all["flowd_x_total"].Sum()
			point := sum.DataPoints().At(0)
			if label, _ := point.Attributes().Get("pipeline"); point.DoubleValue() != 3 || label.Str() != "orders" || !sum.IsMonotonic() ||
				sum.AggregationTemporality() != pmetric.AggregationTemporalityCumulative || all["flowd_x_total"].Description() != "Xs." {
				t.Errorf("the counter is %v of %v", point.DoubleValue(), point.Attributes().AsRaw())
			}
			y := all["flowd_y_seconds"].Histogram().DataPoints().At(0)
			if fmt.Sprint(y.ExplicitBounds().AsRaw(), y.BucketCounts().AsRaw()) != "[1 2] [0 1 0]" {
				t.Errorf("the buckets are %v %v", y.ExplicitBounds().AsRaw(), y.BucketCounts().AsRaw())
			}
			if e := y.Exemplars(); e.Len() != 1 || e.At(0).TraceID().String() != span.TraceID().String() ||
				e.At(0).SpanID().String() != span.SpanID().String() {
				t.Errorf("%d exemplars", e.Len())
			}
		})
	}
}

// A receiver that refuses everything costs one line of the log, and nothing waits for it.
func TestAReceiverThatIsDown(t *testing.T) {
	r := oteltest.New(t, nil)
	r.Refuse(errors.New("no"))
	var own bytes.Buffer
	logs := &Logs{}
	before := dropped("logs")
	to := senders(r)["http"]
	to.Timeout = 50 * time.Millisecond
	if err := logs.Send(to, "1", slog.New(slog.NewTextHandler(&own, nil))); err != nil {
		t.Fatal(err)
	}
	log := slog.New(logs.Handler())
	const n = 10 * mostQueued
	for range n {
		log.Info("line")
	}
	logs.Close()
	if got := dropped("logs") - before; got != n {
		t.Errorf("%v of %d records are counted as dropped", got, n)
	}
	if got := own.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "logs can't be sent by OTLP") {
		t.Errorf("the log is\n%s", got)
	}
}

func dropped(signal string) float64 { return testutil.ToFloat64(Dropped().WithLabelValues(signal)) }

func TestHealthIsLoggedWhenItChanges(t *testing.T) {
	var log bytes.Buffer
	before := dropped("test")
	h := NewHealth("test", "things", slog.New(slog.NewTextHandler(&log, nil)))
	for _, err := range []error{nil, errors.New("down"), errors.New("down"), nil, nil, context.Canceled} {
		h.Sent(5, err)
	}
	got := log.String()
	if strings.Count(got, "can't be sent") != 2 || strings.Count(got, "sent by OTLP again") != 1 || dropped("test")-before != 15 {
		t.Errorf("%v dropped, and the log is\n%s", dropped("test")-before, got)
	}
}

func TestLinesOfATraceNameIt(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(Traced(slog.NewTextHandler(&out, nil))).With("a", 1)
	log.InfoContext(trace.ContextWithSpanContext(t.Context(), span), "in")
	log.Info("out")
	lines := strings.Split(out.String(), "\n")
	if !strings.HasSuffix(lines[0], " msg=in a=1 trace_id=01000000000000000000000000000002 span_id=0300000000000004") ||
		!strings.HasSuffix(lines[1], " msg=out a=1") {
		t.Errorf("got %q", lines)
	}
}
