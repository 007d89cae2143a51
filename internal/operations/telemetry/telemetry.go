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

// closing returns a context for the last request. The end of the process must not wait long for a receiver.
func (h *health) closing() (context.Context, context.CancelFunc) {
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

// health logs when a receiver stops working, and when it works again.
type health struct {
	what    string // is sent
	log     *slog.Logger
	failing atomic.Bool
	dropped prometheus.Counter
}

func newHealth(signal, what string, log *slog.Logger) *health {
	return &health{what: what, log: log, dropped: Dropped().WithLabelValues(signal)}
}

// sent records the result of one request with n items.
func (h *health) sent(n int, err error) {
	if err != nil {
		h.drop(n)
	}
	switch failing := err != nil; {
	case h.failing.Swap(failing) == failing:
	case failing:
		h.log.Warn(h.what+" can't be sent by OTLP, and are dropped until the receiver works again", "err", err)
	default:
		h.log.Info(h.what + " are sent by OTLP again")
	}
}

func (h *health) drop(n int) { h.dropped.Add(float64(n)) }
