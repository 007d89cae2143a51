package protobuf

import (
	"context"
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/codec"
	"github.com/flowd-io/flowd/internal/formats/registry"
)

// Kind is the registries' name for Protobuf.
const Kind = "PROTOBUF"

// Reads are the options of decoding.
type Reads struct {
	Registry engine.RegistryName `yaml:"registry" doc:"Registry of resources.registries, for payloads that begin with a schema id and the message's place in the schema (Confluent's wire format)."`
	Schema   `yaml:",inline"`
	Names    string `yaml:"names" check:"oneof=proto|json" default:"proto" doc:"Names of fields in documents: as the schema has them, or in lowerCamelCase (or as json_name says)."`
	Defaults bool   `yaml:"defaults" default:"true" doc:"Show fields that are unset where the schema does not tell that from a default: numbers as 0, text as \"\", false, the first name of an enum, lists and mappings as empty. Fields that can be told apart (optional ones, messages, those of a oneof) are left out either way."`
}

// CheckConfig requires exactly one source of schemas.
func (r *Reads) CheckConfig(report func(path, message, remedy string)) {
	if r.Registry != "" && (!r.isZero() || r.Message != "") {
		path := "schema"
		if r.isZero() {
			path = "message"
		} else if r.Descriptors != "" {
			path = "descriptors"
		}
		report(path, "payloads name their schema in the registry, and their message", "remove it, or `registry`")
		return
	}
	r.check(r.Registry != "", report)
}

// Decoder reads payloads. It is safe for concurrent use.
type Decoder struct {
	compiled *registry.Compiled[*Types] // nil: payloads don't name their schema
	own      *Program
}

// Decoder makes the decoder. It reads files.
func (r *Reads) Decoder(env engine.Env) (*Decoder, error) {
	o := Options{JSONNames: r.Names == "json", Defaults: r.Defaults}
	if r.Registry == "" {
		_, p, err := r.compileSchema(o)
		return &Decoder{own: p}, err
	}
	known, err := env.SchemaRegistry(r.Registry)
	if err != nil {
		return nil, err
	}
	return &Decoder{compiled: newCompiled(known, o)}, nil
}

func newCompiled(known engine.SchemaRegistry, o Options) *registry.Compiled[*Types] {
	return registry.NewCompiled(known, Kind, func(s *engine.Schema) (*Types, error) { return Compile(s, o) })
}

// Reader returns the codec for a payload, the part of the payload to decode, and the schema's id, or nil.
func (d *Decoder) Reader(ctx context.Context, payload []byte) (c codec.Codec, body []byte, id any, err error) {
	if d.compiled == nil {
		return d.own, payload, nil, nil
	}
	e, body, err := d.compiled.Read(ctx, payload)
	if err != nil {
		return nil, nil, nil, err
	}
	p, body, err := e.Made.cut(body)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("protobuf: schema id %d: %w", e.ID, err)
	}
	return p, body, e.ID, nil
}

// Writes are the options of encoding.
type Writes struct {
	registry.Writes `yaml:",inline"`
	Schema          `yaml:",inline"`
	DropUnknown     bool `yaml:"drop_unknown" doc:"Leave out fields that are not in the schema. By default they fail the message."`
}

// CheckConfig requires a schema, and subjects that match it.
func (w *Writes) CheckConfig(report func(path, message, remedy string)) {
	w.Writes.CheckConfig(report)
	if w.Registry != "" && w.Descriptors != "" {
		report("descriptors", "a registry has texts of schemas", "write `schema`, or `subject` for its newest")
		return
	}
	w.check(w.Registry != "", report)
}

// Encoder writes payloads. It is safe for concurrent use.
type Encoder struct {
	writer *registry.Writer[*target] // nil: payloads don't name their schema
	own    *Program
}

// target is a message of a schema, with the prefix of its payloads.
type target struct {
	*Program
	prefix []byte
}

// Encoder makes the encoder. It reads files.
func (w *Writes) Encoder(env engine.Env) (*Encoder, error) {
	o := Options{DropUnknown: w.DropUnknown}
	own, p, err := w.compileSchema(o)
	if err != nil || w.Registry == "" {
		return &Encoder{own: p}, err
	}
	record := ""
	if p != nil {
		if record = p.Message(); p.imports() {
			return nil, fmt.Errorf("%s imports other files, which a registry knows as references of its own "+
				"(register it there, and write `subject` instead of `schema`)", w.file())
		}
	}
	known, err := env.SchemaRegistry(w.Registry)
	if err != nil {
		return nil, err
	}
	return w.encoder(known, own, record, o)
}

// encoder writes with schemas of a registry.
func (w *Writes) encoder(known engine.SchemaRegistry, own *engine.Schema, record string, o Options) (*Encoder, error) {
	compiled := registry.NewCompiled(known, Kind, func(s *engine.Schema) (*target, error) {
		types, err := Compile(s, o)
		if err != nil {
			return nil, err
		}
		p, err := types.Program(w.Message)
		if err != nil {
			return nil, err
		}
		place, err := p.place()
		return &target{p, append(registry.Header(s.ID), place...)}, err
	})
	writer, err := registry.NewWriter(&w.Writes, compiled, own, record)
	return &Encoder{writer: writer}, err
}

// imports reports whether the schema's file imports files that are not built in.
func (p *Program) imports() bool {
	all := p.types.root.Imports()
	for i := range all.Len() {
		if !builtIn(all.Get(i).Path()) {
			return true
		}
	}
	return false
}

// Writer returns the codec for a message, and a prefix for its payload.
func (e *Encoder) Writer(ctx context.Context, m *engine.Message) (c codec.Codec, prefix []byte, err error) {
	if e.writer == nil {
		return e.own, nil, nil
	}
	made, err := e.writer.Of(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	return made.Made, made.Made.prefix, nil
}
