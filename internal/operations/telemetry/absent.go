//go:build no_otel || (slim && !otel)

package telemetry

import (
	"errors"
	"log/slog"
	"time"

	"github.com/flowd-io/flowd/internal/network/otlp"
	"github.com/prometheus/client_golang/prometheus"
)

var errAbsent = errors.New("service.metrics.otlp and service.log.otlp are not part of this build of flowd")

// Metrics sends nothing in this build.
type Metrics struct{}

// NewMetrics returns the error that this build sends nothing.
func NewMetrics(otlp.Sender, time.Duration, string, prometheus.Gatherer, *slog.Logger) (*Metrics, error) {
	return nil, errAbsent
}

// Close does nothing.
func (*Metrics) Close() {}

// Logs sends nothing in this build.
type Logs struct{}

// Send returns the error that this build sends nothing.
func (*Logs) Send(otlp.Sender, string, *slog.Logger) error {
	return errAbsent
}

// Close does nothing.
func (*Logs) Close() {}

// Handler returns a handler that discards records.
func (*Logs) Handler() slog.Handler { return slog.DiscardHandler }

// Traced returns h.
func Traced(h slog.Handler) slog.Handler { return h }

// UseLog does nothing.
func UseLog(*slog.Logger) {}
