package jsonschema

import (
	"bytes"
	"context"
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
	"github.com/flowd-io/flowd/internal/formats/registry"
)

// Kind is the registries' name for JSON Schema.
const Kind = "JSON"

// ofRegistries are the options for a registry's schemas without a draft.
var ofRegistries = Options{Draft: "7", Most: mostSchemas}

// checked is JSON that matches a schema. Its checks end with the call of the step.
type checked struct {
	*Schema
	ctx context.Context
}

// Decode checks the payload and returns it unchanged.
func (c checked) Decode(dst, payload []byte) ([]byte, error) {
	var d doc.Doc
	d.Reset(payload, nil)
	if err := d.Valid(); err != nil {
		return dst, fmt.Errorf("json_schema: %w", err)
	}
	return c.Encode(dst, payload)
}

// Encode checks the document and returns it unchanged.
func (c checked) Encode(dst, json []byte) ([]byte, error) {
	if err := c.Check(c.ctx, json); err != nil {
		if c.ctx.Err() == nil {
			err = fmt.Errorf("json_schema: %w", Explain(err, err, "the schema"))
		}
		return dst, err
	}
	return append(dst, bytes.TrimSpace(json)...), nil
}

func newCompiled(known engine.SchemaRegistry) *registry.Compiled[*Schema] {
	return registry.NewCompiled(known, Kind, func(s *engine.Schema) (*Schema, error) {
		return CompileText(s, ofRegistries)
	})
}

// Reads are the options of decoding.
type Reads struct {
	Registry engine.RegistryName `yaml:"registry" doc:"Registry of resources.registries; payloads begin with a schema id (Confluent's wire format)."`
}

// CheckConfig requires a registry.
func (r *Reads) CheckConfig(report func(path, message, remedy string)) { needsOne(r.Registry, report) }

func needsOne(r engine.RegistryName, report func(path, message, remedy string)) {
	if r == "" {
		report("", "there is no registry",
			"write `{registry: NAME}`; payloads without a schema id are `json`, and the step `validate` checks them")
	}
}

// Decoder reads payloads. It is safe for concurrent use.
type Decoder struct {
	compiled *registry.Compiled[*Schema]
}

// Decoder makes the decoder.
func (r *Reads) Decoder(env engine.Env) (*Decoder, error) {
	known, err := env.SchemaRegistry(r.Registry)
	if err != nil {
		return nil, err
	}
	return &Decoder{newCompiled(known)}, nil
}

// Reader returns the codec for a payload, the part of the payload to decode, and the schema's id.
func (d *Decoder) Reader(ctx context.Context, payload []byte) (c codec.Codec, body []byte, id any, err error) {
	e, body, err := d.compiled.Read(ctx, payload)
	return checked{e.Made, ctx}, body, e.ID, err
}

// Writes are the options of encoding.
type Writes struct {
	registry.Writes `yaml:",inline"`
	Schema          registry.Source `yaml:"schema" doc:"File of the schema, in JSON, or the schema itself; by default the newest of the subject."`
}

// ConfigFiles returns the files that are read.
func (w Writes) ConfigFiles() []string { return []string{w.Schema.File} }

// CheckConfig requires a registry, and subjects that match it.
func (w *Writes) CheckConfig(report func(path, message, remedy string)) {
	if needsOne(w.Registry, report); w.Registry != "" {
		w.Writes.CheckConfig(report)
	}
}

// Encoder writes payloads. It is safe for concurrent use.
type Encoder struct{ writer *registry.Writer[*Schema] }

// Encoder makes the encoder. It reads the file.
func (w *Writes) Encoder(env engine.Env) (*Encoder, error) {
	var own *engine.Schema
	title := ""
	if !w.Schema.IsZero() {
		text, err := w.Schema.Read()
		if err != nil {
			return nil, err
		}
		own = &engine.Schema{Type: Kind, Text: text}
		made, err := CompileText(own, ofRegistries)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.Schema.Name(), err)
		}
		if title = made.Title; title == "" && w.Naming != "topic" {
			return nil, fmt.Errorf("%s has no title, which `subject_name: %s` is made of (give it one, or set `subject`)",
				w.Schema.Name(), w.Naming)
		}
	}
	known, err := env.SchemaRegistry(w.Registry)
	if err != nil {
		return nil, err
	}
	writer, err := registry.NewWriter(&w.Writes, newCompiled(known), own, title)
	return &Encoder{writer}, err
}

// Writer returns the codec for a message, and a prefix for its payload.
func (e *Encoder) Writer(ctx context.Context, m *engine.Message) (c codec.Codec, prefix []byte, err error) {
	made, err := e.writer.Of(ctx, m)
	return checked{made.Made, ctx}, made.Header, err
}
