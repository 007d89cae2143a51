//go:build !no_otel && (!slim || otel)

package otlp_test

import (
	"os"
	"path/filepath"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	logapi "go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/flowd-io/flowd/internal/network/otlp"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/internal/testing/mqtttest"
	"github.com/flowd-io/flowd/internal/testing/oteltest"
)

func TestEverySignalReachesTheCollector(t *testing.T) {
	dir := t.TempDir()
	for name, text := range mqtttest.Certificates(t) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	plain := oteltest.New(t, nil)
	secure := oteltest.New(t, &oteltest.TLS{Cert: filepath.Join(dir, "server.pem"), Key: filepath.Join(dir, "server.key")})
	trust := tlsconf.Client{CA: filepath.Join(dir, "ca.pem")}
	for _, tt := range []struct {
		name   string
		r      *oteltest.Receiver
		client otlp.Client
	}{
		{"grpc", plain, otlp.Client{Endpoint: plain.GRPC, Compression: "none"}},
		{"http", plain, otlp.Client{Endpoint: plain.HTTP, Protocol: otlp.HTTP, Compression: "none"}},
		{"grpc with TLS", secure, otlp.Client{Endpoint: secure.GRPC, TLS: trust}},
		{"http with TLS", secure, otlp.Client{Endpoint: secure.HTTP, Protocol: otlp.HTTP, TLS: trust}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := [3]int{len(tt.r.Traces()), len(tt.r.Metrics()), len(tt.r.Logs())}
			ctx := t.Context()
			client, err := tt.client.TraceClient()
			check(t, err)
			traces, err := otlptrace.New(ctx, client)
			check(t, err)
			check(t, traces.ExportSpans(ctx, tracetest.SpanStubs{{Name: "a"}}.Snapshots()))
			check(t, traces.Shutdown(ctx))

			metrics, err := tt.client.MetricExporter(ctx)
			check(t, err)
			check(t, metrics.Export(ctx, &metricdata.ResourceMetrics{ScopeMetrics: []metricdata.ScopeMetrics{{
				Metrics: []metricdata.Metrics{{Name: "m", Data: metricdata.Gauge[int64]{DataPoints: []metricdata.DataPoint[int64]{{Value: 1}}}}},
			}}}))
			check(t, metrics.Shutdown(ctx))

			logs, err := tt.client.LogExporter(ctx)
			check(t, err)
			provider := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewSimpleProcessor(logs)))
			var record logapi.Record
			record.SetBody(attribute.StringValue("line"))
			provider.Logger("test").Emit(ctx, record)
			check(t, provider.Shutdown(ctx))

			after := [3]int{len(tt.r.Traces()), len(tt.r.Metrics()), len(tt.r.Logs())}
			if want := [3]int{before[0] + 1, before[1] + 1, before[2] + 1}; after != want {
				t.Errorf("%v requests have arrived, want %v", after, want)
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
