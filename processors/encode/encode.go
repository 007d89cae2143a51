// Package encode is the processor `encode`: it turns a document into text of
// another format. Start at [Config]; the formats are in internal/formats/codec.
package encode

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/components/fields"
	"github.com/flowd-io/flowd/internal/formats"
	"github.com/flowd-io/flowd/internal/formats/codec"
	"github.com/flowd-io/flowd/internal/formats/jsonschema"
)

// Config configures the encode processor.
type Config struct {
	codec.Formats `yaml:",inline"`
	Avro          *formats.AvroWrites     `yaml:"avro" oneof:"format" doc:"Avro's binary encoding, with a schema from a registry or a file."`
	Protobuf      *formats.ProtobufWrites `yaml:"protobuf" oneof:"format" doc:"Protobuf's binary encoding, with a schema from a registry, .proto files or a descriptor set."`
	JSONSchema    *jsonschema.Writes      `yaml:"json_schema" oneof:"format" doc:"JSON that matches a schema in a registry."`
	Parquet       *formats.ParquetWrites  `yaml:"parquet" oneof:"format" doc:"One Parquet file for a whole batch: among the steps of a batcher or an output."`
	From          fields.Path             `yaml:"from" doc:"Field to encode; the whole payload by default."`
	Into          fields.Path             `yaml:"into" doc:"Field for the text: by default the field it came from, or the whole payload."`
}

const help = `
Encodes the document or, with from, a field. base64 and hex encode the payload
as it is, or the text of a field.

    - encode: {csv: {columns: [id, total]}}
    - encode: {json: {}, from: event}
    - encode: base64
    - encode: msgpack
    - encode: {cbor: {}, from: event}    # the field then has the bytes in base64

avro, protobuf and json_schema encode with a schema from a file, or the newest of a subject, and
with registry put the schema's id first (Confluent's wire format):

    - encode: {avro: order.avsc}
    - encode: {avro: {registry: main, subject: orders-value}}
    - encode: {avro: {registry: main, schema: order.avsc, topic: orders}}
    - encode: {protobuf: {schema: order.proto, message: shop.Order}}
    - encode: {protobuf: {registry: main, subject: orders-value, message: shop.Order}}
    - encode: {json_schema: {registry: main, subject: orders-value}}

By default the schema must already be in the registry; register adds it, if the registry finds it
compatible. A value that the schema has no place for fails its message with class permanent, and
the error names the field. into writes a field, with the bytes in base64. See flowd docs schemas.

parquet makes one file of a whole batch, with a row for each document, or for each object of a list.
It belongs among the processors of a batcher or an output, since a file of one row would be mostly
overhead:

    batchers:
      lake:
        key: tenant
        batch: {size: 5000, timeout: 1m}
        processors:
          - encode:
              parquet:
                schema:
                  id: int64 required
                  total: decimal(12,2)
                  at: timestamp(ms)
                  tags: [text]
                  labels: {"*": text}             # any keys
                  customer: {name: text, plan: text}
                compression: zstd
        output: out

A document that does not fit the schema fails alone, with class permanent and the place in it; the
file contains all others. Timestamps and dates are text in RFC 3339, bytes are base64, and a decimal
may be a number or text.

Without a schema, as in encode: parquet, types are inferred from each batch: int64, double (also where
integers and fractions mix), bool, text, lists and objects. Where values are of different kinds, or are
integers longer than 64 bits, the column is json, which holds any value as its text. An inferred schema
can differ from batch to batch: specify one if files are read together.
`

// CheckConfig rejects from and into for formats that are made of whole batches.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	if c.Parquet == nil {
		return
	}
	for path, p := range map[string]fields.Path{"from": c.From, "into": c.Into} {
		if !p.IsZero() {
			report(path, "a Parquet file is made of whole messages", "remove it, and make the document the row by `keep` or `map`")
		}
	}
}

func init() {
	engine.Register(engine.Processors, "encode", help, Config{}, build)
}

func build(c Config, env engine.Env) (engine.Processor, error) {
	if c.Parquet != nil {
		return c.Parquet.Archiver(), nil
	}
	p := &encoder{codec: c.Codec(), from: c.From, into: c.Into}
	var err error
	switch {
	case c.Avro != nil:
		p.schemas, err = c.Avro.Encoder(env)
	case c.Protobuf != nil:
		p.schemas, err = c.Protobuf.Encoder(env)
	case c.JSONSchema != nil:
		p.schemas, err = c.JSONSchema.Encoder(env)
	case p.codec == nil:
		err = errors.New("encode needs a format, such as `encode: csv`")
	}
	if err != nil {
		return nil, err
	}
	_, p.binary = p.codec.(codec.Binary)
	_, packed := p.codec.(codec.Packed)
	p.base64 = packed || p.schemas != nil
	if p.into.IsZero() {
		p.into = p.from
	}
	return engine.ProcessorFunc(p.process), nil
}

// schemas is a format that writes each payload with a schema.
type schemas interface {
	// Writer returns the codec for a message, and a prefix for its payload.
	Writer(ctx context.Context, m *engine.Message) (c codec.Codec, prefix []byte, err error)
}

type encoder struct {
	codec      codec.Codec
	schemas    schemas // instead of a codec
	binary     bool
	base64     bool // the output is binary, which a field contains as base64
	from, into fields.Path
}

func (p *encoder) process(ctx context.Context, m *engine.Message) error {
	value, err := p.source(m)
	if err != nil {
		return err
	}
	out, err := p.encode(ctx, m, value)
	if err != nil {
		return err
	}
	if p.into.Path.IsZero() {
		m.SetBytes(out)
		return nil
	}
	if p.base64 {
		if out, err = new(codec.Base64).Encode(nil, out); err != nil {
			return err
		}
	}
	text, err := codec.AppendText(make([]byte, 0, len(out)+len(out)/8+2), out)
	if err != nil {
		return fmt.Errorf("the text for %s %w", p.into, err)
	}
	if !p.binary || !p.from.Path.IsZero() {
		return m.Doc().SetRaw(p.into.Path, text)
	}
	return p.into.Wrap(m, text)
}

func (p *encoder) encode(ctx context.Context, m *engine.Message, value []byte) ([]byte, error) {
	if _, json := p.codec.(*codec.JSON); !json && !p.binary {
		if err := doc.Surrogate(value); err != nil {
			return nil, err
		}
	}
	if p.schemas == nil {
		return p.codec.Encode(make([]byte, 0, len(value)+len(value)/2), value)
	}
	c, prefix, err := p.schemas.Writer(ctx, m)
	if err != nil {
		return nil, err
	}
	return c.Encode(append(make([]byte, 0, len(prefix)+len(value)), prefix...), value)
}

// source returns the input: JSON text, or bytes for a binary codec.
func (p *encoder) source(m *engine.Message) ([]byte, error) {
	if p.from.Path.IsZero() {
		if p.binary {
			return m.Bytes(), nil
		}
		if err := m.Doc().Valid(); err != nil {
			return nil, err
		}
		return bytes.TrimSpace(m.Bytes()), nil
	}
	raw, ok, err := m.Document().Raw(p.from.Path)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("field %s is missing", p.from)
	}
	if p.binary {
		return codec.Text(raw), doc.Surrogate(raw)
	}
	return raw, nil
}
