//go:build no_otel || (slim && !otel)

package cli

import (
	"log/slog"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
)

// tracer does not exist in this build: service.tracing is an error.
type tracer = *struct{}

func (s *sight) tracing(*slog.Logger) func(config.Service) (engine.Tracer, error) { return nil }

func (s *sight) closeTracer(*slog.Logger) {}
