package otlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/metric"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/formats/otlpdocs"
	netotlp "github.com/flowd-io/flowd/internal/network/otlp"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/internal/testing/mqtttest"
	"github.com/flowd-io/flowd/internal/testing/oteltest"
	_ "github.com/flowd-io/flowd/outputs/otlp"
	"github.com/flowd-io/flowd/schema"
)

// relay runs a pipeline from an input to a receiver until the test ends. It returns the URLs of the input.
func relay(t *testing.T, config, output string) (grpc, http string) {
	t.Helper()
	in := enginetest.New(t, engine.Inputs, `{"otlp": `+config+`}`).(*input)
	said := make(chan string, 10)
	in.log = slog.New(slog.NewTextHandler(writer(said), nil))
	p := &engine.Pipeline{
		Inputs: enginetest.Named("in", engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return in, nil })}),
		Outputs: enginetest.Named("out", engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) {
			return enginetest.New(t, engine.Outputs, `{"otlp": `+output+`}`), nil
		})}),
	}
	plan, problems := runtime.Build(p, runtime.Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if plan == nil {
		t.Fatal(problems)
	}
	stop, end := context.WithCancel(context.Background())
	ran := make(chan runtime.Report, 1)
	go func() { ran <- plan.Run(stop, context.Background()) }()
	t.Cleanup(func() {
		end()
		if rep := <-ran; rep.Err != nil || rep.Code() != 0 {
			t.Errorf("the pipeline ended with %d, %v", rep.Code(), rep.Err)
		}
	})
	for grpc == "" || http == "" {
		line := <-said
		_, at, _ := strings.Cut(line, "listening on ")
		switch scheme, at, _ := strings.Cut(strings.Trim(at, "\"\n"), "://"); scheme {
		case "grpc":
			grpc = "http://" + at
		case "grpcs":
			grpc = "https://" + at
		case "http", "https":
			http = scheme + "://" + at
		}
	}
	return grpc, http
}

type writer chan string

func (w writer) Write(line []byte) (int, error) {
	w <- string(line)
	return len(line), nil
}

// documents returns what a receiver has, a document for each record, sorted.
func documents(t *testing.T, r *oteltest.Receiver) (all []string) {
	t.Helper()
	add := func(s otlpdocs.Signal, raw []byte, err error) {
		if err != nil {
			t.Fatal(err)
		}
		d, err := otlpdocs.Split(s, raw, false,
			otlpdocs.Limits{Documents: math.MaxInt, Bytes: math.MaxInt, Take: func(int64) bool { return true }})
		if err != nil {
			t.Fatal(err)
		}
		for i := range d.Len() {
			all = append(all, string(d.Text(i)))
		}
	}
	for _, x := range r.Logs() {
		raw, err := plogotlp.NewExportRequestFromLogs(x).MarshalProto()
		add(otlpdocs.Logs, raw, err)
	}
	for _, x := range r.Metrics() {
		raw, err := pmetricotlp.NewExportRequestFromMetrics(x).MarshalProto()
		add(otlpdocs.Metrics, raw, err)
	}
	for _, x := range r.Traces() {
		raw, err := ptraceotlp.NewExportRequestFromTraces(x).MarshalProto()
		add(otlpdocs.Traces, raw, err)
	}
	slices.Sort(all)
	return all
}

// exporters are those of the official SDK.
type exporters struct {
	traces  sdktrace.SpanExporter
	metrics sdkmetric.Exporter
	logs    sdklog.Exporter
}

func exportersTo(t *testing.T, grpc, url string) (e exporters) {
	t.Helper()
	var errs [3]error
	ctx := t.Context()
	if grpc != "" {
		e.traces, errs[0] = otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(grpc), otlptracegrpc.WithCompressor("gzip"))
		e.metrics, errs[1] = otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpointURL(grpc))
		e.logs, errs[2] = otlploggrpc.New(ctx, otlploggrpc.WithEndpointURL(grpc))
	} else {
		e.traces, errs[0] = otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(url+"/v1/traces"),
			otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
		e.metrics, errs[1] = otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(url+"/v1/metrics"))
		e.logs, errs[2] = otlploghttp.New(ctx, otlploghttp.WithEndpointURL(url+"/v1/logs"))
	}
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.metrics.Shutdown(context.Background()); err != nil { // the providers shut the others down
			t.Error(err)
		}
	})
	return e
}

// emit sends telemetry of all kinds to all exporters.
func emit(t *testing.T, all ...exporters) {
	t.Helper()
	ctx := context.Background()
	about := resource.NewWithAttributes("https://opentelemetry.io/schemas/1.26.0",
		attribute.String("service.name", "shop"), attribute.StringSlice("list", []string{"a", "b"}))
	traces, logs := []sdktrace.TracerProviderOption{sdktrace.WithResource(about)}, []sdklog.LoggerProviderOption{sdklog.WithResource(about)}
	for _, e := range all {
		traces = append(traces, sdktrace.WithBatcher(e.traces))
		logs = append(logs, sdklog.WithProcessor(sdklog.NewSimpleProcessor(e.logs)))
	}
	tp, lp := sdktrace.NewTracerProvider(traces...), sdklog.NewLoggerProvider(logs...)
	for range 20 {
		outer, root := tp.Tracer("checkout", trace.WithInstrumentationVersion("v2")).Start(ctx, "order", trace.WithSpanKind(trace.SpanKindServer))
		_, child := tp.Tracer("db").Start(outer, "insert", trace.WithLinks(trace.Link{SpanContext: root.SpanContext()}),
			trace.WithAttributes(attribute.Int64("rows", math.MaxInt64), attribute.Float64("cost", 0.1), attribute.Bool("ok", false)))
		child.AddEvent("retry", trace.WithAttributes(attribute.String("why", "\"busy\"\n")))
		child.RecordError(errors.New("no"))
		var r log.Record
		r.SetTimestamp(time.Now())
		r.SetSeverity(log.SeverityWarn)
		r.SetBody(attribute.MapValue(attribute.String("text", "low stock"),
			attribute.KeyValue{Key: "raw", Value: attribute.ByteSliceValue([]byte{0, 255})}))
		r.AddAttributes(attribute.Int64("left", -1))
		lp.Logger("stock").Emit(outer, r)
		child.End()
		root.End()
	}
	reader := sdkmetric.NewManualReader()
	mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(about))
	meter := mp.Meter("shop")
	orders, err1 := meter.Int64Counter("orders", metric.WithUnit("1"), metric.WithDescription("Orders."))
	times, err2 := meter.Float64Histogram("seconds")
	level, err3 := meter.Float64Gauge("level")
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		orders.Add(ctx, 2, metric.WithAttributes(attribute.Int("shop", i)))
		times.Record(ctx, float64(i)/8)
		level.Record(ctx, -0.5)
	}
	var data metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &data); err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if err := e.metrics.Export(ctx, &data); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(tp.Shutdown(ctx), lp.Shutdown(ctx), mp.Shutdown(ctx)); err != nil {
		t.Error(err)
	}
}

// TestWhatTheSDKSendsArrives sends the same from the official SDK to a receiver of the collector, and through a pipeline to another.
// Since answers come after delivery, everything has arrived when the SDK has its answers.
func TestWhatTheSDKSendsArrives(t *testing.T) {
	for _, protocol := range []string{"grpc", "http"} {
		for _, split := range []string{"true", "false"} {
			t.Run(protocol+", split "+split, func(t *testing.T) {
				direct, behind := oteltest.New(t, nil), oteltest.New(t, nil)
				output := `{"endpoint": "` + behind.HTTP + `", "protocol": "http"}`
				if protocol == "grpc" {
					output = `"` + behind.GRPC + `"`
				}
				grpc, http := relay(t, with(`"split": `+split), output)
				to := [2]exporters{}
				if protocol == "grpc" {
					to = [2]exporters{exportersTo(t, direct.GRPC, ""), exportersTo(t, grpc, "")}
				} else {
					to = [2]exporters{exportersTo(t, "", direct.HTTP), exportersTo(t, "", http)}
				}
				emit(t, to[:]...)
				want, got := documents(t, direct), documents(t, behind)
				if len(want) != 40+20+3 || !slices.Equal(got, want) {
					t.Errorf("got %d documents\n%s\nwant %d\n%s", len(got), strings.Join(got, "\n"), len(want), strings.Join(want, "\n"))
				}
			})
		}
	}
}

// TestARefusalTravelsBack checks that a client learns what the receiver behind the pipeline has rejected.
func TestARefusalTravelsBack(t *testing.T) {
	behind := oteltest.New(t, nil)
	grpc, _ := relay(t, with(`"expose_errors": true`), `"`+behind.GRPC+`"`)
	behind.Refuse(consumererror.NewPermanent(errors.New("unknown tenant")))
	client := (&running{grpc: strings.TrimPrefix(grpc, "http://")}).client(t)
	answer, err := client.Export(t.Context(), logs("a", "b"))
	if p := answer.PartialSuccess(); err != nil || p.RejectedLogRecords() != 2 || !strings.Contains(p.ErrorMessage(), "unknown tenant") {
		t.Errorf("got %d %q, %v", p.RejectedLogRecords(), p.ErrorMessage(), err)
	}
}

// TestTLS sends through a pipeline that asks clients for certificates, to a receiver with TLS.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	for name, text := range mqtttest.Certificates(t) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	behind := oteltest.New(t, &oteltest.TLS{Cert: in("server.pem"), Key: in("server.key")})
	server := fmt.Sprintf(`"tls": {"cert": %q, "key": %q, "client_ca": %q}`, in("server.pem"), in("server.key"), in("ca.pem"))
	for _, protocol := range []netotlp.Protocol{netotlp.GRPC, netotlp.HTTP} {
		to := map[netotlp.Protocol]string{netotlp.GRPC: behind.GRPC, netotlp.HTTP: behind.HTTP}[protocol]
		grpc, http := relay(t, with(server), fmt.Sprintf(`{"endpoint": %q, "protocol": %q, "tls": {"ca": %q}}`, to, protocol, in("ca.pem")))
		c := netotlp.Client{Endpoint: grpc, Protocol: protocol, TLS: tlsconf.Client{CA: in("ca.pem")}, Timeout: 3 * time.Second}
		if protocol == netotlp.HTTP {
			c.Endpoint = http
		}
		export := func() error {
			client, err := c.TraceClient()
			if err != nil {
				t.Fatal(err)
			}
			e, err := otlptrace.New(t.Context(), client)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Shutdown(t.Context())
			return e.ExportSpans(t.Context(), tracetest.SpanStubs{{Name: "a"}}.Snapshots())
		}
		if err := export(); err == nil {
			t.Errorf("%s: a client without a certificate was accepted", protocol)
		}
		before := len(behind.Spans())
		c.TLS.Cert, c.TLS.Key = in("client.pem"), schema.NewSecret(in("client.key"))
		if err := export(); err != nil || len(behind.Spans()) != before+1 {
			t.Errorf("%s: got %v, %d spans", protocol, err, len(behind.Spans())-before)
		}
	}
}
