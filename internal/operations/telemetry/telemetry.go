// Package telemetry sends flowd's own metrics ([Metrics]) and logs ([Logs]) by OTLP, and says who sends them ([Resource]). In a build
// without the family otel, it sends nothing.
package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Closing returns a context for the last request. The end of the process must not wait long for a receiver.
func (h *Health) Closing() (context.Context, context.CancelFunc) {
	wait := 2 * time.Second
	if h.failing.Load() {
		wait /= 10
	}
	return context.WithTimeout(context.Background(), wait)
}

// Dropped counts the data points and log records that no receiver got, by signal. Each process has one.
var Dropped = sync.OnceValue(func() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "flowd_telemetry_dropped_total",
		Help: "Spans, data points and log records that could not be sent by OTLP, by signal."}, []string{"signal"})
})

// Health logs when a receiver stops working, and when it works again, and counts what it did not get. It is safe for concurrent use.
type Health struct {
	what    string // is sent
	log     *slog.Logger
	failing atomic.Bool
	dropped prometheus.Counter
}

// NewHealth returns the health of what is sent of a signal.
func NewHealth(signal, what string, log *slog.Logger) *Health {
	return &Health{what: what, log: log, dropped: Dropped().WithLabelValues(signal)}
}

// Sent records the result of one request with n items.
func (h *Health) Sent(n int, err error) {
	if err != nil {
		h.Drop(n)
	}
	switch failing := err != nil; {
	case h.failing.Swap(failing) == failing:
	case failing:
		h.log.Warn(h.what+" can't be sent by OTLP, and are dropped until the receiver works again", "err", err)
	default:
		h.log.Info(h.what + " are sent by OTLP again")
	}
}

// Drop counts what was dropped before it could be sent.
func (h *Health) Drop(n int) { h.dropped.Add(float64(n)) }
