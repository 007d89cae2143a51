//go:build !no_otel && (!slim || otel)

package telemetry

import (
	"testing"

	"github.com/flowd-io/flowd/schema"
	"go.opentelemetry.io/otel/attribute"
)

func TestTheConfigurationPrecedesTheEnvironmentInAResource(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", "orders")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,team=a%20b,service.version=2")
	r, err := Resource("1.2.3", schema.MapOf(schema.Entry[string]{Key: "service.version", Value: "3"}))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Resource("1.2.3", schema.Map[string]{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[attribute.Key]string{"service.name": "orders", "service.version": "3", "team": "a b",
		"deployment.environment.name": "test", "telemetry.sdk.language": "go", "process.runtime.name": "go"} {
		if got, _ := r.Set().Value(name); got.AsString() != want {
			t.Errorf("%s is %q, want %q", name, got.AsString(), want)
		}
	}
	first, _ := r.Set().Value("service.instance.id")
	second, _ := again.Set().Value("service.instance.id")
	if first.AsString() == "" || first != second {
		t.Errorf("the instance of one process is %q, then %q", first.AsString(), second.AsString())
	}
	if _, ok := r.Set().Value("process.command_args"); ok {
		t.Error("the command line is an attribute: it may contain secrets")
	}
}

func TestAFlowdIsCalledFlowd(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", "")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "")
	r, err := Resource("1.2.3", schema.Map[string]{})
	if err != nil {
		t.Fatal(err)
	}
	name, _ := r.Set().Value("service.name")
	version, _ := r.Set().Value("service.version")
	if name.AsString() != "flowd" || version.AsString() != "1.2.3" {
		t.Errorf("got %q %q", name.AsString(), version.AsString())
	}
}
