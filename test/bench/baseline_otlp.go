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
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	mnoop "go.opentelemetry.io/otel/metric/noop"
	tnoop "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
)

// otlpReceiver runs the collector's receiver for OTLP over gRPC on args[0], with a consumer that counts log records, until the process
// is interrupted. It prints how many have come.
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
	<-ctx.Done()
	err = r.Shutdown(context.Background())
	fmt.Fprint(os.Stderr, n.Load())
	return errors.Join(err)
}

type noExtensions struct{}

func (noExtensions) GetExtensions() map[component.ID]component.Component { return nil }
