//go:build !no_otel && (!slim || otel)

package tracing

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// servePlugins lets Go plugins and libraries add spans to the traces of messages, by OpenTelemetry's API: those that they begin in
// the context of a call are a part of them, if the message is traced. flush sends what is left.
func (t *Tracer) servePlugins() (flush func(context.Context) error) {
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(otlptrace.NewUnstarted(t.Client)), sdktrace.WithResource(t.Resource),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())))
	otel.SetTracerProvider(p)
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	return p.Shutdown
}
