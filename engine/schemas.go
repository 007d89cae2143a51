package engine

import "context"

// SchemaRegistry keeps the schemas that messages are written by. All methods may be called
// at once from any goroutine; each call of the registry has a deadline, and answers are
// cached. Errors have a class: [Decode] for an id that the registry does not know,
// [Transient] or [Timeout] where it does not answer, [Auth] where it refuses credentials, and
// [Permanent] for what can't be written.
//
// A SchemaRegistry belongs to the process: all pipelines that name it share it. It may be
// an [Opener] and a [Closer].
type SchemaRegistry interface {
	// Schema is the schema of an id, as it stands in a message.
	Schema(ctx context.Context, id int) (*Schema, error)
	// Newest is the newest version of a subject's schema.
	Newest(ctx context.Context, subject string) (*Schema, error)
	// Find is the schema of a subject that has this type and text, with its id.
	Find(ctx context.Context, subject string, s Schema) (*Schema, error)
	// Register is Find that adds a schema which is not there, if the registry says that it
	// is compatible with those that are.
	Register(ctx context.Context, subject string, s Schema) (*Schema, error)
}

// Schema is a schema of a [SchemaRegistry]. It does not change.
type Schema struct {
	ID   int
	Type string // AVRO, PROTOBUF or JSON
	Text string
	// Needs are the schemas that the text refers to, each after those that it needs itself.
	Needs []NamedSchema
}

// NamedSchema is a schema under the name by which others refer to it.
type NamedSchema struct{ Name, Text string }

// RegistryName is a config field that names a registry of `resources.registries`, in a
// plugin's Config or a struct in it: lint knows by it which registries are used.
type RegistryName string
