package engine

import "context"

// SchemaRegistry has the schemas of messages. It is safe for concurrent use. Requests to the registry have a deadline,
// and answers are cached. Errors have a class: [Decode] for an id that the registry does not know, [Transient] or
// [Timeout] if it does not answer, [Auth] if it refuses credentials, and [Permanent] for a schema that it refuses.
//
// A SchemaRegistry belongs to the process: all pipelines that name it share it. It may be an [Opener] and a [Closer].
type SchemaRegistry interface {
	// Schema returns the schema of an id that a message contains.
	Schema(ctx context.Context, id int) (*Schema, error)
	// Newest returns the newest version of a subject's schema.
	Newest(ctx context.Context, subject string) (*Schema, error)
	// Find returns the schema of a subject that has the type and text of s, with its id.
	Find(ctx context.Context, subject string, s Schema) (*Schema, error)
	// Register is like Find, and adds the schema if it is missing and the registry finds it compatible.
	Register(ctx context.Context, subject string, s Schema) (*Schema, error)
}

// Schema is a schema of a [SchemaRegistry]. It does not change.
type Schema struct {
	ID   int
	Type string // AVRO, PROTOBUF or JSON
	Text string
	// Needs are the schemas that the text refers to. Each comes after the schemas to which it refers itself.
	Needs []NamedSchema
}

// NamedSchema is a schema under the name by which others refer to it.
type NamedSchema struct{ Name, Text string }

// RegistryName is the type of a config field that names a registry of `resources.registries`. By this type lint knows
// which registries are used.
type RegistryName string
