package avro

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	twmb "github.com/twmb/avro"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/codec"
	"github.com/flowd-io/flowd/internal/formats/registry"
)

// Schema names a configured schema.
type Schema struct {
	Schema registry.Source `yaml:"schema,main" doc:"File of the schema (.avsc), or the schema itself."`
	Needs  []string        `yaml:"needs" doc:"Files of schemas whose types the schema uses, each after those that it uses itself."`
}

// ConfigFiles returns the files that are read.
func (s Schema) ConfigFiles() []string { return append([]string{s.Schema.File}, s.Needs...) }

// compileSchema compiles the schema, or returns nil if there is none.
func (s *Schema) compileSchema(o Options) (*engine.Schema, *Program, error) {
	if s.Schema.IsZero() {
		return nil, nil, nil
	}
	own := &engine.Schema{Type: Kind}
	for _, file := range s.Needs {
		text, err := registry.ReadFile(file)
		if err != nil {
			return nil, nil, err
		}
		own.Needs = append(own.Needs, engine.NamedSchema{Name: file, Text: string(text)})
	}
	var err error
	if own.Text, err = s.Schema.Read(); err != nil {
		return nil, nil, err
	}
	p, err := Compile(own, o)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", s.Schema.Name(), err)
	}
	return own, p, nil
}

// Kind is the registries' name for Avro.
const Kind = "AVRO"

const (
	bare   = "bare"
	single = "single_object"
	files  = "container"
)

// Reads are the options of decoding.
type Reads struct {
	Registry engine.RegistryName `yaml:"registry" doc:"Registry of resources.registries, for payloads that begin with a schema id (Confluent's wire format)."`
	Schema   `yaml:",inline"`
	Reader   registry.Source `yaml:"reader" doc:"File of a schema, or the schema itself, whose fields, order and defaults documents get, whatever compatible schema their payloads were written by."`
	Framing  string          `yaml:"framing" check:"oneof=bare|single_object|container" default:"bare" doc:"What payloads are without a registry: the value alone, or after the fingerprint of the schema (Avro's single-object encoding), or a whole container file (.avro), which has its schema and becomes the list of its values."`
	Raw      bool            `yaml:"raw" doc:"Show dates, times, decimals and UUIDs as the numbers and bytes that they are written as."`
}

// CheckConfig requires exactly one source of schemas.
func (r *Reads) CheckConfig(report func(path, message, remedy string)) {
	isFile := r.Framing == files
	switch {
	case r.Registry == "" && !isFile && r.Schema.Schema.IsZero():
		report("", "there is no schema to read by", "write `{registry: NAME}` or `{schema: order.avsc}`")
	case r.Registry != "" && !r.Schema.Schema.IsZero():
		report("schema", "payloads name their schema in the registry", "remove it; for a schema to read them by, write `reader`")
	case r.Registry != "" && r.Framing != bare:
		report("framing", "payloads of a registry begin with its schema id", "remove it, or `registry`")
	case isFile && (!r.Schema.Schema.IsZero() || !r.Reader.IsZero()):
		report("framing", "a container file has its own schema", "remove it, or `schema` and `reader`")
	case len(r.Needs) > 0 && r.Schema.Schema.IsZero():
		report("needs", "there is no schema that needs them", "remove it")
	}
}

// Decoder reads payloads. It is safe for concurrent use.
type Decoder struct {
	compiled *registry.Compiled[codec.Codec] // nil: payloads don't name their schema
	own      codec.Codec
	prefix   []byte
}

// Decoder makes the decoder. It reads files.
func (r *Reads) Decoder(env engine.Env) (*Decoder, error) {
	o := Options{Raw: r.Raw}
	if r.Framing == files {
		return &Decoder{own: &container{options: o}}, nil
	}
	reader, err := (&Schema{Schema: r.Reader}).readerOf(o)
	if err != nil {
		return nil, err
	}
	if r.Registry != "" {
		known, err := env.SchemaRegistry(r.Registry)
		if err != nil {
			return nil, err
		}
		compile := func(s *engine.Schema) (codec.Codec, error) {
			p, err := Compile(s, o)
			if err != nil {
				return nil, err
			}
			return p.readBy(reader)
		}
		return &Decoder{compiled: registry.NewCompiled(known, Kind, compile)}, nil
	}
	_, p, err := r.compileSchema(o)
	if err != nil {
		return nil, err
	}
	d := &Decoder{}
	if r.Framing == single {
		d.prefix = p.fingerprint()
	}
	d.own, err = p.readBy(reader)
	return d, err
}

func (s *Schema) readerOf(o Options) (*Program, error) {
	_, p, err := s.compileSchema(o)
	return p, err
}

// fingerprint returns the header of a single object.
func (p *Program) fingerprint() []byte {
	sum := binary.BigEndian.Uint64(p.parsed.Fingerprint(twmb.NewRabin()))
	return binary.LittleEndian.AppendUint64([]byte{0xc3, 0x01}, sum)
}

// Reader returns the codec for a payload, the part of the payload to decode, and the schema's id, or nil.
func (d *Decoder) Reader(ctx context.Context, payload []byte) (c codec.Codec, body []byte, id any, err error) {
	if d.compiled == nil {
		body, ok := bytes.CutPrefix(payload, d.prefix)
		if !ok {
			return nil, nil, nil, errors.New("avro: the payload does not begin with the fingerprint of the schema")
		}
		return d.own, body, nil, nil
	}
	e, body, err := d.compiled.Read(ctx, payload)
	return e.Made, body, e.ID, err
}

// Writes are the options of encoding.
type Writes struct {
	registry.Writes `yaml:",inline"`
	Schema          `yaml:",inline"`
	Framing         string `yaml:"framing" check:"oneof=bare|single_object" default:"bare" doc:"What payloads are without a registry: the value alone, or after the fingerprint of the schema (Avro's single-object encoding)."`
	DropUnknown     bool   `yaml:"drop_unknown" doc:"Leave out fields that are not in the schema. By default they fail the message."`
}

// CheckConfig requires a schema, and subjects that match it.
func (w *Writes) CheckConfig(report func(path, message, remedy string)) {
	w.Writes.CheckConfig(report)
	switch {
	case w.Registry == "" && w.Schema.Schema.IsZero():
		report("", "there is no schema to write by", "write `{registry: NAME}` or `{schema: order.avsc}`")
	case w.Registry != "" && w.Framing != bare:
		report("framing", "payloads of a registry begin with its schema id", "remove it, or `registry`")
	case w.Registry != "" && len(w.Needs) > 0:
		report("needs", "a registry knows schemas that others need as references of its own",
			"register them there, and remove `schema` and `needs`")
	case len(w.Needs) > 0 && w.Schema.Schema.IsZero():
		report("needs", "there is no schema that needs them", "remove it")
	}
}

// Encoder writes payloads. It is safe for concurrent use.
type Encoder struct {
	writer *registry.Writer[*Program] // nil: payloads don't name their schema
	own    *Program
	prefix []byte
}

// Encoder makes the encoder. It reads files.
func (w *Writes) Encoder(env engine.Env) (*Encoder, error) {
	o := Options{DropUnknown: w.DropUnknown}
	own, p, err := w.compileSchema(o)
	if err != nil {
		return nil, err
	}
	if w.Registry == "" {
		e := &Encoder{own: p}
		if w.Framing == single {
			e.prefix = p.fingerprint()
		}
		return e, nil
	}
	known, err := env.SchemaRegistry(w.Registry)
	if err != nil {
		return nil, err
	}
	record := ""
	if p != nil {
		record = p.Record()
	}
	compiled := registry.NewCompiled(known, Kind, func(s *engine.Schema) (*Program, error) { return Compile(s, o) })
	writer, err := registry.NewWriter(&w.Writes, compiled, own, record)
	return &Encoder{writer: writer}, err
}

// Writer returns the codec for a message, and a prefix for its payload.
func (e *Encoder) Writer(ctx context.Context, m *engine.Message) (c codec.Codec, prefix []byte, err error) {
	if e.writer == nil {
		return e.own, e.prefix, nil
	}
	made, err := e.writer.Of(ctx, m)
	return made.Made, made.Header, err
}
