// Package encode is the processor `encode`: it turns a document into text of
// another format. Start at [Config]; the formats are in internal/codec.
package encode

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/codec"
	"github.com/flowd-io/flowd/internal/fields"
)

// Config configures the encode processor.
type Config struct {
	codec.Formats `yaml:",inline"`
	From          fields.Path `yaml:"from" doc:"Field that is encoded; the whole payload by default."`
	Into          fields.Path `yaml:"into" doc:"Field for the text: by default the field it came from, or the whole payload."`
}

const help = `
Encodes the document or, with from, a field. base64 and hex encode the payload
as it is, or the text of a field.

    - encode: {csv: {columns: [id, total]}}
    - encode: {json: {}, from: event}
    - encode: base64
`

func init() {
	engine.Register(engine.Processors, "encode", help, Config{}, build)
}

func build(c Config, _ engine.Env) (engine.Processor, error) {
	p := &encoder{codec: c.Codec(), from: c.From, into: c.Into}
	if p.codec == nil {
		return nil, errors.New("encode needs a format, such as `encode: csv`")
	}
	_, p.binary = p.codec.(codec.Binary)
	if p.into.IsZero() {
		p.into = p.from
	}
	return engine.ProcessorFunc(p.process), nil
}

type encoder struct {
	codec      codec.Codec
	binary     bool
	from, into fields.Path
}

func (p *encoder) process(_ context.Context, m *engine.Message) error {
	value, err := p.source(m)
	if err != nil {
		return err
	}
	out, err := p.codec.Encode(make([]byte, 0, len(value)+len(value)/2), value)
	if err != nil {
		return err
	}
	if p.into.Path.IsZero() {
		m.SetBytes(out)
		return nil
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

// source is what is encoded: JSON text, or bytes for a binary codec.
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
		return codec.Text(raw), nil
	}
	return raw, nil
}
