// Package oteltest runs the OpenTelemetry collector's OTLP receiver inside a test: see [New].
package oteltest

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configtls"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	mnoop "go.opentelemetry.io/otel/metric/noop"
	tnoop "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// Receiver is a running receiver, and what it has received.
type Receiver struct {
	GRPC, HTTP string // URLs

	mu      sync.Mutex // guards the fields below
	refusal error
	traces  []ptrace.Traces
	metrics []pmetric.Metrics
	logs    []plog.Logs
	arrived chan struct{} // closed and replaced at each arrival
}

// TLS are the files with the certificate and the key of a receiver.
type TLS struct{ Cert, Key string }

// New starts a receiver on free ports, with TLS if files is not nil. It runs until the end of the test.
func New(t *testing.T, files *TLS) *Receiver {
	t.Helper()
	factory := otlpreceiver.NewFactory()
	conf := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	scheme := "http://"
	var tls configoptional.Optional[configtls.ServerConfig]
	if files != nil {
		scheme = "https://"
		tls = configoptional.Some(configtls.ServerConfig{Config: configtls.Config{CertFile: files.Cert, KeyFile: files.Key}})
	}
	grpc, http := conf.Protocols.GRPC.GetOrInsertDefault(), conf.Protocols.HTTP.GetOrInsertDefault()
	grpc.NetAddr.Endpoint, grpc.TLS = "127.0.0.1:0", tls
	http.ServerConfig.NetAddr.Endpoint, http.ServerConfig.TLS = "127.0.0.1:0", tls

	r := &Receiver{arrived: make(chan struct{})}
	core, lines := observer.New(zap.InfoLevel)
	settings := receiver.Settings{ID: component.NewID(factory.Type()), TelemetrySettings: component.TelemetrySettings{
		Logger: zap.New(core), TracerProvider: tnoop.NewTracerProvider(), MeterProvider: mnoop.NewMeterProvider()}}
	var parts [3]component.Component
	traces, err := consumer.NewTraces(func(_ context.Context, got ptrace.Traces) error { return keep(r, &r.traces, got) })
	if err == nil {
		parts[0], err = factory.CreateTraces(t.Context(), settings, conf, traces)
	}
	check(t, err)
	metrics, err := consumer.NewMetrics(func(_ context.Context, got pmetric.Metrics) error { return keep(r, &r.metrics, got) })
	if err == nil {
		parts[1], err = factory.CreateMetrics(t.Context(), settings, conf, metrics)
	}
	check(t, err)
	logs, err := consumer.NewLogs(func(_ context.Context, got plog.Logs) error { return keep(r, &r.logs, got) })
	if err == nil {
		parts[2], err = factory.CreateLogs(t.Context(), settings, conf, logs)
	}
	check(t, err)
	for _, p := range parts {
		check(t, p.Start(t.Context(), noHost{}))
		t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	}
	// The ports are only in the receiver's log.
	address := func(line string) string {
		return scheme + lines.FilterMessage(line).All()[0].ContextMap()["endpoint"].(string)
	}
	r.GRPC, r.HTTP = address("Starting GRPC server"), address("Starting HTTP server")
	return r
}

// Refuse makes the receiver answer with an error from now on, or with nil no more. See consumererror for errors that are final.
func (r *Receiver) Refuse(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusal = err
}

// Spans returns the spans that have arrived.
func (r *Receiver) Spans() []ptrace.Span {
	var all []ptrace.Span
	for _, got := range r.Traces() {
		for _, resource := range got.ResourceSpans().All() {
			for _, scope := range resource.ScopeSpans().All() {
				for _, span := range scope.Spans().All() {
					all = append(all, span)
				}
			}
		}
	}
	return all
}

// Traces returns the requests with spans.
func (r *Receiver) Traces() []ptrace.Traces { return kept(r, &r.traces) }

// Metrics returns the requests with metrics.
func (r *Receiver) Metrics() []pmetric.Metrics { return kept(r, &r.metrics) }

// Logs returns the requests with log records.
func (r *Receiver) Logs() []plog.Logs { return kept(r, &r.logs) }

// Wait waits until enough has arrived. Otherwise it fails the test after a minute.
func (r *Receiver) Wait(t *testing.T, enough func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		r.mu.Lock()
		arrived := r.arrived
		r.mu.Unlock()
		if enough() {
			return
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			t.Fatal("too little has arrived")
		}
	}
}

func keep[T any](r *Receiver, all *[]T, got T) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refusal != nil {
		return r.refusal
	}
	*all = append(*all, got)
	close(r.arrived)
	r.arrived = make(chan struct{})
	return nil
}

func kept[T any](r *Receiver, all *[]T) []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]T(nil), *all...)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// noHost has no extensions.
type noHost struct{}

func (noHost) GetExtensions() map[component.ID]component.Component { return nil }
