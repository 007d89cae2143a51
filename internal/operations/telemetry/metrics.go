//go:build !no_otel && (!slim || otel)

package telemetry

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"time"

	"github.com/flowd-io/flowd/internal/network/otlp"
	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// Metrics sends metrics at an interval.
type Metrics struct {
	provider *metric.MeterProvider
	health   *Health
}

// NewMetrics starts to send what from gathers. every is the interval; 0: that of OTEL_METRIC_EXPORT_INTERVAL, else a minute.
func NewMetrics(to otlp.Sender, every time.Duration, version string, from prometheus.Gatherer, log *slog.Logger) (*Metrics, error) {
	who, err := Resource(version, to.Attributes)
	if err != nil {
		return nil, fmt.Errorf("service.metrics.otlp: %w", err)
	}
	full, err := to.For(otlp.Metrics)
	if err != nil {
		return nil, fmt.Errorf("service.metrics.otlp: %w", err)
	}
	exporter, err := to.MetricExporter(context.Background())
	if err != nil {
		return nil, fmt.Errorf("service.metrics.otlp: %w", err)
	}
	h := NewHealth("metrics", "metrics", log)
	reader := metric.NewPeriodicReader(&metricExporter{exporter, h}, metric.WithInterval(every), metric.WithTimeout(full.Timeout),
		metric.WithProducer(producer{bridge.NewMetricProducer(bridge.WithGatherer(from))}))
	return &Metrics{metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(who)), h}, nil
}

// Close sends the last values.
func (m *Metrics) Close() {
	ctx, cancel := m.health.Closing()
	defer cancel()
	if err := m.provider.Shutdown(ctx); err != nil {
		m.health.Sent(0, err)
	}
}

// metricExporter logs the errors of an exporter, once.
type metricExporter struct {
	metric.Exporter
	health *Health
}

// Export sends metrics.
func (e *metricExporter) Export(ctx context.Context, all *metricdata.ResourceMetrics) error {
	e.health.Sent(points(all), e.Exporter.Export(ctx, all))
	return nil
}

// points counts data points.
func points(all *metricdata.ResourceMetrics) (n int) {
	for i := range all.ScopeMetrics {
		for _, m := range all.ScopeMetrics[i].Metrics {
			switch data := m.Data.(type) {
			case metricdata.Gauge[float64]:
				n += len(data.DataPoints)
			case metricdata.Sum[float64]:
				n += len(data.DataPoints)
			case metricdata.Histogram[float64]:
				n += len(data.DataPoints)
			default:
				n++
			}
		}
	}
	return n
}

// producer corrects the exemplars of the bridge, which leaves the ids of traces and spans in hexadecimal.
type producer struct{ metric.Producer }

// Produce returns all metrics.
func (p producer) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	all, err := p.Producer.Produce(ctx)
	for i := range all {
		for _, m := range all[i].Metrics {
			if data, ok := m.Data.(metricdata.Histogram[float64]); ok {
				for j := range data.DataPoints {
					for k := range data.DataPoints[j].Exemplars {
						setIDs(&data.DataPoints[j].Exemplars[k])
					}
				}
			}
		}
	}
	return all, err
}

func setIDs(e *metricdata.Exemplar[float64]) {
	for _, id := range []*[]byte{&e.TraceID, &e.SpanID} {
		if b, err := hex.DecodeString(string(*id)); err == nil {
			*id = b
		}
	}
}
