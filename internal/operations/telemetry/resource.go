//go:build !no_otel && (!slim || otel)

package telemetry

import (
	"context"
	"sync"

	"github.com/flowd-io/flowd/schema"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// Resource describes this process to receivers. Attributes of the configuration precede those of the variables OTEL_SERVICE_NAME
// and OTEL_RESOURCE_ATTRIBUTES, which precede flowd's own. The command line is left out, since it may contain secrets.
func Resource(version string, attributes schema.Map[string]) (*resource.Resource, error) {
	configured := make([]attribute.KeyValue, 0, attributes.Len())
	for name, value := range attributes.All() {
		configured = append(configured, attribute.String(name, value))
	}
	return resource.New(context.Background(), resource.WithTelemetrySDK(), resource.WithHost(), resource.WithProcessPID(),
		resource.WithProcessExecutableName(), resource.WithProcessRuntimeName(), resource.WithProcessRuntimeVersion(),
		resource.WithAttributes(semconv.ServiceName("flowd"), semconv.ServiceVersion(version), semconv.ServiceInstanceID(instance())),
		resource.WithFromEnv(), resource.WithAttributes(configured...))
}

// instance is the same in traces, metrics and logs, so that they can be joined.
var instance = sync.OnceValue(func() string { return uuid.NewString() })
