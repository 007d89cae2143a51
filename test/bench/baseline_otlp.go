package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	mnoop "go.opentelemetry.io/otel/metric/noop"
	tnoop "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
)

// otlpReceiver runs the collector's receiver for OTLP over gRPC on args[0], with a consumer that counts log records, and
// one for spans, until the process is interrupted. It prints how many log records have come.
func otlpReceiver(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	factory := otlpreceiver.NewFactory()
	conf := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	conf.Protocols.GRPC.GetOrInsertDefault().NetAddr.Endpoint = args[0]
	var n atomic.Int64
	count, err := consumer.NewLogs(func(_ context.Context, d plog.Logs) error {
		n.Add(int64(d.LogRecordCount()))
		return nil
	})
	if err != nil {
		return err
	}
	settings := receiver.Settings{ID: component.NewID(factory.Type()), TelemetrySettings: component.TelemetrySettings{
		Logger: zap.NewNop(), TracerProvider: tnoop.NewTracerProvider(), MeterProvider: mnoop.NewMeterProvider()}}
	r, err := factory.CreateLogs(ctx, settings, conf, count)
	if err == nil {
		err = r.Start(ctx, noExtensions{})
	}
	if err != nil {
		return err
	}
	spans, err := consumer.NewTraces(func(context.Context, ptrace.Traces) error { return nil })
	if err != nil {
		return err
	}
	t, err := factory.CreateTraces(ctx, settings, conf, spans) // it shares the listener
	if err == nil {
		err = t.Start(ctx, noExtensions{})
	}
	if err != nil {
		return err
	}
	<-ctx.Done()
	err = errors.Join(r.Shutdown(context.Background()), t.Shutdown(context.Background()))
	fmt.Fprint(os.Stderr, n.Load())
	return err
}

type noExtensions struct{}

func (noExtensions) GetExtensions() map[component.ID]component.Component { return nil }
