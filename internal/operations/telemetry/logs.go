//go:build !no_otel && (!slim || otel)

package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/internal/network/otlp"
	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	api "go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/trace"
)

// Logs sends log records. The zero Logs sends nothing until Send.
type Logs struct{ now atomic.Pointer[logSender] }

type logSender struct {
	provider *log.LoggerProvider
	exporter *logExporter
	logger   api.Logger
}

// mostQueued is how many records may wait for the receiver.
const mostQueued = 2048

// Send starts to send records, in place of an earlier Send. Its own log must not be sent.
func (l *Logs) Send(to otlp.Sender, version string, local *slog.Logger) error {
	who, err := Resource(version, to.Attributes)
	if err != nil {
		return fmt.Errorf("service.log.otlp: %w", err)
	}
	full, err := to.For(otlp.Logs)
	if err != nil {
		return fmt.Errorf("service.log.otlp: %w", err)
	}
	exporter, err := to.LogExporter(context.Background())
	if err != nil {
		return fmt.Errorf("service.log.otlp: %w", err)
	}
	e := &logExporter{Exporter: exporter, health: NewHealth("logs", "logs", local)}
	batches := log.NewBatchProcessor(e, log.WithMaxQueueSize(mostQueued), log.WithExportTimeout(full.Timeout))
	provider := log.NewLoggerProvider(log.WithProcessor(bounded{batches, e}), log.WithResource(who))
	l.replace(&logSender{provider, e, provider.Logger("flowd", api.WithInstrumentationVersion(version))})
	return nil
}

// Close sends the records that wait. Later ones are not sent.
func (l *Logs) Close() { l.replace(nil) }

func (l *Logs) replace(s *logSender) {
	if old := l.now.Swap(s); old != nil {
		ctx, cancel := old.exporter.health.Closing()
		defer cancel()
		if err := old.provider.Shutdown(ctx); err != nil {
			old.exporter.health.Sent(int(old.exporter.waiting.Swap(0)), err)
		}
	}
}

// Handler returns a handler that sends records of all levels.
func (l *Logs) Handler() slog.Handler { return handler{logs: l} }

// bounded drops and counts records while too many wait. Without it, the processor would drop the oldest, and count none.
type bounded struct {
	*log.BatchProcessor
	exporter *logExporter
}

// OnEmit queues a record.
func (b bounded) OnEmit(ctx context.Context, r *log.Record) error {
	if b.exporter.waiting.Add(1) > mostQueued {
		b.exporter.waiting.Add(-1)
		b.exporter.health.Drop(1)
		return nil
	}
	return b.BatchProcessor.OnEmit(ctx, r)
}

// logExporter logs the errors of an exporter, once.
type logExporter struct {
	log.Exporter
	health  *Health
	waiting atomic.Int64 // records that were emitted and are neither sent nor dropped
}

// Export sends records.
func (e *logExporter) Export(ctx context.Context, all []log.Record) error {
	err := e.Exporter.Export(ctx, all)
	e.health.Sent(e.settle(len(all)), err)
	return nil
}

// settle returns how many of n records still count as waiting. Close, which can't wait, may have counted them as dropped.
func (e *logExporter) settle(n int) int {
	for {
		waiting := e.waiting.Load()
		settled := min(waiting, int64(n))
		if e.waiting.CompareAndSwap(waiting, waiting-settled) {
			return int(settled)
		}
	}
}

// handler turns records of slog into those of OpenTelemetry.
type handler struct {
	logs   *Logs
	prefix string // of groups
	attrs  []attribute.KeyValue
}

// Enabled reports whether records are sent.
func (h handler) Enabled(context.Context, slog.Level) bool { return h.logs.now.Load() != nil }

// Handle sends a record. The trace that ctx belongs to becomes a part of it.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	s := h.logs.now.Load()
	if s == nil {
		return nil
	}
	var out api.Record
	out.SetTimestamp(r.Time)
	out.SetSeverity(api.Severity(r.Level + 9)) // the levels of slog are those of OpenTelemetry, with info as 0
	out.SetSeverityText(r.Level.String())
	out.SetBody(attribute.StringValue(r.Message))
	out.AddAttributes(h.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttributes(attributes(nil, h.prefix, a)...)
		return true
	})
	s.logger.Emit(ctx, out)
	return nil
}

// WithAttrs adds attributes to all records.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	all := append([]attribute.KeyValue(nil), h.attrs...)
	for _, a := range attrs {
		all = attributes(all, h.prefix, a)
	}
	return handler{h.logs, h.prefix, all}
}

// WithGroup qualifies the names of later attributes.
func (h handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return handler{h.logs, h.prefix + name + ".", h.attrs}
}

// attributes appends an attribute, or those of a group.
func attributes(all []attribute.KeyValue, prefix string, a slog.Attr) []attribute.KeyValue {
	key, v := attribute.Key(prefix+a.Key), a.Value.Resolve()
	switch v.Kind() {
	case slog.KindInt64:
		return append(all, key.Int64(v.Int64()))
	case slog.KindFloat64:
		return append(all, key.Float64(v.Float64()))
	case slog.KindBool:
		return append(all, key.Bool(v.Bool()))
	case slog.KindTime:
		return append(all, key.String(v.Time().Format(time.RFC3339Nano)))
	case slog.KindGroup:
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, member := range v.Group() {
			all = attributes(all, prefix, member)
		}
		return all
	}
	if a.Key == "" {
		return all
	}
	return append(all, key.String(v.String()))
}

// Traced returns a handler that adds trace_id and span_id to records that belong to a trace.
func Traced(h slog.Handler) slog.Handler { return traced{h} }

type traced struct{ slog.Handler }

// Handle passes a record on.
func (h traced) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{h.Handler.WithAttrs(attrs)} }
func (h traced) WithGroup(name string) slog.Handler       { return traced{h.Handler.WithGroup(name)} }

// UseLog makes OpenTelemetry's libraries log to log, which must not be sent by OTLP. Otherwise they would write to standard error.
func UseLog(log *slog.Logger) {
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("message from OpenTelemetry", "err", err) }))
}
