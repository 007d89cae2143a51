// Package builds lists the components that a build of flowd may leave out, with their build tags: see [Families].
package builds

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/schema"
)

// Family is what one build tag leaves out: `-tags no_NAME` builds without this family, and `-tags slim,NAME` without
// all other families. The files of a family have the constraint `!no_NAME && (!slim || NAME)`.
type Family struct {
	Name string
	// The components by kind, and the schemes of `flowd queue`.
	Inputs, Processors, Outputs, Caches, Queues []string
	// What else the tag leaves out, in words for users.
	More []string
}

// Families are all families, by name. Components of no family are in every build.
var Families = []Family{
	{Name: "avro", More: []string{"format avro"}},
	{Name: "aws", Inputs: []string{"s3", "sqs"}, Outputs: []string{"s3", "sns", "sqs"}, Queues: []string{"sqs"},
		More: []string{"mechanism AWS_MSK_IAM of kafka", "secrets of AWS (${aws_secret:NAME#FIELD})"}},
	{Name: "azure", Inputs: []string{"azure_blob"}, Outputs: []string{"azure_blob"},
		More: []string{"secrets of Azure (${azure_secret:VAULT/NAME})"}},
	{Name: "google", Inputs: []string{"gcs"}, Outputs: []string{"gcs"},
		More: []string{"secrets of Google Cloud (${gcp_secret:NAME})"}},
	{Name: "kafka", Inputs: []string{"kafka"}, Outputs: []string{"kafka"}, Queues: []string{"kafka"}},
	{Name: "mcp", More: []string{"flowd mcp"}},
	{Name: "migrate", More: []string{"flowd migrate"}},
	{Name: "mqtt", Inputs: []string{"mqtt"}, Outputs: []string{"mqtt"}},
	{Name: "nats", Inputs: []string{"nats"}, Outputs: []string{"nats"}, Caches: []string{"nats_kv"},
		Queues: []string{"nats", "tls", "ws", "wss"}, More: []string{"service.cluster", "flowd worker", "flowd pool"}},
	{Name: "otel", Inputs: []string{"otlp"}, Outputs: []string{"otlp"},
		More: []string{"service.metrics.otlp", "service.log.otlp", "service.tracing"}},
	{Name: "parquet", More: []string{"format parquet"}},
	{Name: "protobuf", More: []string{"format protobuf"}},
	{Name: "rabbitmq", Inputs: []string{"rabbitmq"}, Outputs: []string{"rabbitmq"},
		Queues: []string{"amqp", "amqps"}},
	{Name: "redis", Inputs: []string{"redis_list", "redis_pubsub", "redis_stream"}, Processors: []string{"redis"},
		Outputs: []string{"redis_list", "redis_pubsub", "redis_stream"}, Caches: []string{"redis"},
		Queues: []string{"redis", "rediss"}},
	{Name: "sql", Inputs: []string{"postgres_cdc", "sql"}, Processors: []string{"sql"}, Outputs: []string{"sql"},
		Caches: []string{"sql"}, More: []string{"tables by sql"}},
	{Name: "top", More: []string{"flowd top"}},
	{Name: "vault", More: []string{"secrets in Vault (${vault:PATH#FIELD})"}},
}

// Missing returns the families that this build leaves out.
func Missing() []Family {
	return slices.DeleteFunc(slices.Clone(Families), func(f Family) bool { return has(tags(), f.Name) })
}

// Lacks reports whether this build leaves out a family.
func Lacks(family string) bool { return !has(tags(), family) }

// Remedy says how to get a build with a family that this build leaves out.
func Remedy(family string) string { return remedy(tags(), family) }

// Queue returns the family of a scheme of `flowd queue`, if this build leaves it out, or "".
func Queue(scheme string) string {
	for _, f := range Missing() {
		if slices.Contains(f.Queues, scheme) {
			return f.Name
		}
	}
	return ""
}

// Without returns the error of something that needs a family that this build leaves out.
func Without(what, family string) error { return fmt.Errorf("%s is %s", what, Hint(family)) }

// Hint says that something is left out, and how to get it.
func Hint(family string) string { return "not part of this build of flowd (" + Remedy(family) + ")" }

func has(tags []string, family string) bool {
	return !slices.Contains(tags, "no_"+family) && (!slices.Contains(tags, "slim") || slices.Contains(tags, family))
}

func remedy(tags []string, family string) string {
	const left = "use a whole build, or one with "
	if slices.Contains(tags, "no_"+family) {
		tags = slices.DeleteFunc(slices.Clone(tags), func(t string) bool { return t == "no_"+family })
	}
	if slices.Contains(tags, "slim") && !slices.Contains(tags, family) {
		tags = append(slices.Clone(tags), family)
	}
	if len(tags) == 0 {
		return left + "no tags"
	}
	return left + "-tags " + strings.Join(tags, ",")
}

// tags returns the tags of this build.
var tags = sync.OnceValue(func() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, s := range info.Settings {
		if s.Key == "-tags" {
			return strings.FieldsFunc(s.Value, func(r rune) bool { return r == ',' || r == ' ' })
		}
	}
	return nil
})

// Absent is embedded in the config type of a component that the build leaves out: any value is an error.
type Absent[F Named] struct{}

// Named is the name of a family, as a type.
type Named interface{ Family() string }

// UnmarshalConfig reports that the build leaves this out.
func (Absent[F]) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	var f F
	d.Report(n, schema.Problem{Code: schema.BadValue, Message: f.Family() + " is not part of this build of flowd",
		Remedy: Remedy(f.Family())})
}

// TakesNull makes the decoder report a component without settings, too.
func (Absent[F]) TakesNull() {}

// DescribeConfig describes nothing.
func (Absent[F]) DescribeConfig() *schema.Type { return schema.AnyOf("not part of this build") }
