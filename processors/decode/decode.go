// Package decode is the processor `decode`: it turns text of another format into
// a document. Start at [Config]; the formats are in internal/formats/codec.
package decode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/components/fields"
	"github.com/flowd-io/flowd/internal/formats"
	"github.com/flowd-io/flowd/internal/formats/codec"
	"github.com/flowd-io/flowd/internal/formats/jsonschema"
)

// Config configures the decode processor.
type Config struct {
	codec.Formats `yaml:",inline"`
	Avro          *formats.AvroReads     `yaml:"avro" oneof:"format" doc:"Avro's binary encoding, with a schema from a registry or a file."`
	Protobuf      *formats.ProtobufReads `yaml:"protobuf" oneof:"format" doc:"Protobuf's binary encoding, with a schema from a registry, .proto files or a descriptor set."`
	JSONSchema    *jsonschema.Reads      `yaml:"json_schema" oneof:"format" doc:"JSON that matches a schema in a registry."`
	Regex         *codec.Regex           `yaml:"regex" oneof:"format" doc:"Text, parsed with the named groups of a regular expression."`
	Grok          *codec.Grok            `yaml:"grok" oneof:"format" doc:"Text, parsed with named patterns such as %{IP:client}."`
	Parquet       *formats.ParquetReads  `yaml:"parquet" oneof:"format" doc:"A Parquet file, as the list of its rows."`
	From          fields.Path            `yaml:"from" doc:"Field whose text is decoded; the whole payload by default."`
	Into          fields.Path            `yaml:"into" doc:"Field for the result: by default the field it came from, or the whole document."`
}

const help = `
Decodes text: the payload or, with from, a field. Text that is not in the format fails
the message with class decode. Values stay text unless numbers is set.

    - decode: logfmt
    - decode: {syslog: {zone: Europe/Zurich}}
    - decode: cef                    # also with a header of syslog before it
    - decode: {form: {}, from: query}
    - decode: {json: {}, from: payload, into: event}
    - decode:
        regex:
          pattern: '^(?P<ip>\S+) \S+ (?P<user>\S+) \[(?P<time>[^\]]+)\] "(?P<method>\S+) (?P<path>\S+) [^"]*" (?P<status>\d{3}) (?P<bytes>\d+|-)'
          numbers: true

The pattern above parses the access logs of Apache and nginx; grok knows a pattern for them by name:

    - decode: {grok: "%{COMBINEDAPACHELOG}"}
    - decode: {grok: {pattern: "%{IP:client.ip} %{TOOK}", patterns: {TOOK: "%{NUMBER:ms:float} ?ms"}}}

syslog gives priority, facility, severity, timestamp, hostname, appname, procid, msgid,
structured_data and message, without those that a message lacks. Each payload is one message: the
input's framing separates them, in most cases by lines.

msgpack and cbor become documents with exact integers; bytes are text in base64, and timestamps are
text in RFC 3339. A field that from names holds such a payload in base64:

    - decode: msgpack
    - decode: {cbor: {}, from: data}

avro reads payloads that begin with the id of a schema in a registry (Confluent's wire format), or
bare ones with a schema from a file:

    - decode: {avro: {registry: main}}    # of resources.registries; meta("schema_id") is the id
    - decode: {avro: order.avsc}
    - decode: {avro: {framing: container}}    # a whole .avro file, as the list of its values
    - decode: {protobuf: {registry: main}}
    - decode: {protobuf: {schema: order.proto, message: shop.Order}}

protobuf shows messages as Protobuf's own JSON does, but 64-bit integers as numbers, names as in the
schema, and zero fields, which are not encoded, as zero. Fields that are not in the schema are left
out. json_schema, only with a registry, is JSON after the schema's id, and checked against that
schema: a document that does not match is class decode, and the error names the place in it.

A field that from names holds such payloads in base64, too. An id that the registry does not know is class
decode; a registry that does not respond is class transient, and the step's retry asks again. Long
integers and decimals are exact numbers, timestamps are text in RFC 3339, bytes are base64, and a
value of a union stands for itself. See flowd docs schemas.

parquet turns a whole file, which a footer describes, into the list of its rows: read files as they
are, and split the list. Integers and decimals are exact numbers, dates and timestamps are text in
RFC 3339, a map is an object, json columns are part of the document, other bytes are base64:

    inputs:
      in: {file: {path: "lake/*.parquet", framing: whole, max_record: 64MiB}}
    processors:
      - decode: {parquet: {columns: [id, customer.name]}}    # the others are not even decompressed
      - split: this
`

func init() {
	engine.Register(engine.Processors, "decode", help, Config{}, build)
}

func build(c Config, env engine.Env) (engine.Processor, error) {
	p := &decoder{from: c.From, into: c.Into}
	var err error
	if p.codec, p.schemas, err = c.format(env); err != nil {
		return nil, err
	}
	if x, ok := p.codec.(*codec.XML); ok && !p.from.Path.IsZero() {
		p.codec = x.Unicode()
	}
	_, p.binary = p.codec.(codec.Binary)
	_, packed := p.codec.(codec.Packed)
	p.base64 = packed || p.schemas != nil
	if p.into.IsZero() {
		p.into = p.from
	}
	return engine.ProcessorFunc(p.process), nil
}

// format returns the configured format: a codec, or schemas that choose one for each payload.
func (c *Config) format(env engine.Env) (codec.Codec, schemas, error) {
	if chosen := c.Codec(); chosen != nil {
		return chosen, nil, nil
	}
	switch {
	case c.Regex != nil:
		return c.Regex, nil, nil
	case c.Grok != nil:
		return c.Grok, nil, c.Grok.Compile()
	case c.Parquet != nil:
		return c.Parquet, nil, nil
	case c.Avro != nil:
		s, err := c.Avro.Decoder(env)
		return nil, s, err
	case c.Protobuf != nil:
		s, err := c.Protobuf.Decoder(env)
		return nil, s, err
	case c.JSONSchema != nil:
		s, err := c.JSONSchema.Decoder(env)
		return nil, s, err
	}
	return nil, nil, errors.New("decode needs a format, such as `decode: json`")
}

// schemas is a format that reads each payload with a schema.
type schemas interface {
	// Reader returns the codec for a payload, the part of the payload to decode, and the id of its schema in a
	// registry, or nil.
	Reader(ctx context.Context, payload []byte) (c codec.Codec, body []byte, id any, err error)
}

type decoder struct {
	codec      codec.Codec
	schemas    schemas // instead of a codec
	marks      marks
	binary     bool
	base64     bool // the input is binary, which a field contains as base64
	from, into fields.Path
}

func (p *decoder) process(ctx context.Context, m *engine.Message) error {
	text, err := p.source(m)
	if err != nil {
		return err
	}
	c := p.codec
	var id any
	if p.schemas != nil {
		if c, text, id, err = p.schemas.Reader(ctx, text); err != nil {
			return engine.ErrorOf(err, engine.Decode)
		}
	}
	out, err := decode(m, c, text)
	if err != nil {
		return err
	}
	if id != nil {
		m.Meta = p.marks.withSchemaID(m.Meta, id)
	}
	if p.into.Path.IsZero() {
		m.SetBytes(out)
		return nil
	}
	if p.binary {
		if out, err = codec.AppendText(make([]byte, 0, len(out)+2), out); err != nil {
			return engine.Errorf(engine.Decode, "the decoded %s %w", p.from, err)
		}
	}
	if !p.from.Path.IsZero() {
		return m.Doc().SetRaw(p.into.Path, out)
	}
	return p.into.Wrap(m, out)
}

// scratch holds buffers for decoding. Results are copied out of them, so that messages keep no more memory than
// needed.
var scratch = sync.Pool{New: func() any { return new(make([]byte, 0, 4<<10)) }}

// mostScratch bounds the capacity of buffers in scratch.
const mostScratch = 64 << 10

func decode(m *engine.Message, by codec.Codec, text []byte) ([]byte, error) {
	into := scratch.Get().(*[]byte)
	defer scratch.Put(into)
	out, err := decodeInto(m, *into, by, text)
	switch n := len(out); {
	case err != nil, n == 0:
	case sameArray(out, *into):
		out = bytes.Clone(out)
	case n > cap(*into) && n <= mostScratch/2:
		*into = make([]byte, 0, 2*n)
	}
	return out, err
}

// sameArray reports whether b, or a result of appending to it, still uses the same array.
func sameArray(a, b []byte) bool { return &a[:cap(a)][cap(a)-1] == &b[:cap(b)][cap(b)-1] }

// decodeInto reserves memory before it decodes a payload that may become much larger.
func decodeInto(m *engine.Message, dst []byte, by codec.Codec, text []byte) ([]byte, error) {
	c, expands := by.(codec.Expanding)
	if !expands {
		out, err := by.Decode(dst, text)
		return out, engine.WithClass(engine.Decode, err)
	}
	if err := m.Grow(c.Working(text)); err != nil {
		return nil, err
	}
	for limit, has := 4*len(text)+1<<10, 0; ; limit *= 4 {
		more := min(limit, codec.MaxSize) - has
		if most := m.MayGrow(); most > 0 {
			more = min(more, most)
		}
		if err := m.Grow(more); err != nil {
			return nil, err
		}
		has += more
		out, err := c.DecodeWithin(dst, text, has)
		if !errors.Is(err, codec.ErrLimit) {
			return out, engine.WithClass(engine.Decode, err)
		}
	}
}

// source returns the text to decode.
func (p *decoder) source(m *engine.Message) ([]byte, error) {
	if p.from.Path.IsZero() {
		return m.Bytes(), nil
	}
	raw, ok, err := m.Document().Raw(p.from.Path)
	if err != nil {
		return nil, err
	}
	if !ok || raw[0] != '"' {
		return nil, engine.Errorf(engine.Decode, "field %s %s", p.from, found(raw))
	}
	if err := doc.Surrogate(raw); err != nil {
		return nil, engine.Errorf(engine.Decode, "field %s: %w", p.from, err)
	}
	if !p.base64 {
		return codec.Text(raw), nil
	}
	payload, err := new(codec.Base64).Decode(nil, codec.Text(raw))
	if err != nil {
		return nil, engine.Errorf(engine.Decode, "field %s is not base64: %w", p.from, err)
	}
	return payload, nil
}

// found describes what is in place of the text.
func found(raw []byte) string {
	if raw == nil {
		return "is missing"
	}
	return fmt.Sprintf("is not text but %.40s", raw)
}
