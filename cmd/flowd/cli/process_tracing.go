//go:build !no_otel && (!slim || otel)

package cli

import (
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/otlp"
	"github.com/flowd-io/flowd/internal/operations/service"
	"github.com/flowd-io/flowd/internal/operations/telemetry"
	"github.com/flowd-io/flowd/internal/operations/tracing"
	"github.com/flowd-io/flowd/schema"
)

// tracer is what follows the messages of a process.
type tracer = *tracing.Tracer

// tracing returns what makes the tracer of all pipelines, when it is first called.
func (s *sight) tracing(log *slog.Logger) func(config.Service) (engine.Tracer, error) {
	return func(c config.Service) (engine.Tracer, error) {
		s.traced.Do(func() {
			if c.Tracing != nil && !switchedOff() {
				s.exemplars = &service.Exemplars{}
				s.tracer, s.wrong = newTracer(c.Tracing, s.exemplars, log)
			}
		})
		if s.tracer == nil {
			return nil, s.wrong
		}
		return s.tracer, nil
	}
}

// switchedOff reports whether variables of OpenTelemetry say that nothing is traced.
func switchedOff() bool {
	return otlp.Disabled() || os.Getenv("OTEL_TRACES_EXPORTER") == "none"
}

func newTracer(c *config.Tracing, exemplars *service.Exemplars, log *slog.Logger) (*tracing.Tracer, error) {
	o := tracing.Options{Sample: share(c.Sample), Failed: c.Keep.Failed, Slower: c.Keep.Slower, ErrorTexts: c.ErrorTexts,
		MaxSpans: c.MaxSpans, Log: log, Kept: exemplars.Observe}
	if !c.SampleIf.IsZero() {
		o.SampleIf = &c.SampleIf
	}
	for name, value := range c.Attributes.All() {
		o.Attributes = append(o.Attributes, tracing.Attribute{Name: name, Value: value})
	}
	var err error
	if o.Client, err = c.TraceClient(); err != nil {
		return nil, err
	}
	if set, err := c.For(otlp.Traces); err == nil {
		o.Timeout = set.Timeout
	}
	if o.Resource, err = telemetry.Resource(version().Version, schema.Map[string]{}); err != nil {
		return nil, err
	}
	return tracing.New(o), nil
}

// share is the share of messages that are traced, as the configuration or OpenTelemetry's variables say.
func share(configured *float64) float64 {
	if configured != nil {
		return *configured
	}
	switch by := strings.TrimPrefix(os.Getenv("OTEL_TRACES_SAMPLER"), "parentbased_"); by {
	case "always_off":
		return 0
	case "traceidratio":
		if ratio, err := strconv.ParseFloat(os.Getenv("OTEL_TRACES_SAMPLER_ARG"), 64); err == nil && ratio >= 0 && ratio <= 1 {
			return ratio
		}
	}
	return 1
}

// closeTracer sends the spans that are left.
func (s *sight) closeTracer(log *slog.Logger) {
	if s.tracer == nil {
		return
	}
	if err := s.tracer.Close(); err != nil {
		log.Warn("spans could not be sent before the end", "err", err)
	}
}
