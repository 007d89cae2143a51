// Package decode is the processor `decode`: it turns text of another format into
// a document. Start at [Config]; the formats are in internal/codec.
package decode

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/codec"
	"github.com/flowd-io/flowd/internal/fields"
)

// Config configures the decode processor.
type Config struct {
	codec.Formats `yaml:",inline"`
	Regex         *codec.Regex `yaml:"regex" oneof:"format" doc:"Text, parsed by the named groups of a regular expression."`
	From          fields.Path  `yaml:"from" doc:"Field whose text is decoded; the whole payload by default."`
	Into          fields.Path  `yaml:"into" doc:"Field for the result: by default the field it came from, or the whole document."`
}

const help = `
Decodes text: the payload or, with from, a field. Text that is not in the format fails
the message with class decode. Values stay text unless numbers is set.

    - decode: logfmt
    - decode: {json: {}, from: payload, into: event}
    - decode:
        regex:
          pattern: '^(?P<ip>\S+) \S+ (?P<user>\S+) \[(?P<time>[^\]]+)\] "(?P<method>\S+) (?P<path>\S+) [^"]*" (?P<status>\d{3}) (?P<bytes>\d+|-)'
          numbers: true

The pattern above reads the access logs of Apache and nginx.
`

func init() {
	engine.Register(engine.Processors, "decode", help, Config{}, build)
}

func build(c Config, _ engine.Env) (engine.Processor, error) {
	p := &decoder{codec: c.Codec(), from: c.From, into: c.Into}
	if c.Regex != nil {
		p.codec = c.Regex
	}
	if p.codec == nil {
		return nil, errors.New("decode needs a format, such as `decode: json`")
	}
	_, p.binary = p.codec.(codec.Binary)
	if p.into.IsZero() {
		p.into = p.from
	}
	return engine.ProcessorFunc(p.process), nil
}

type decoder struct {
	codec      codec.Codec
	binary     bool
	from, into fields.Path
}

func (p *decoder) process(_ context.Context, m *engine.Message) error {
	text, err := p.source(m)
	if err != nil {
		return err
	}
	out, err := p.decode(m, text)
	if err != nil {
		return err
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

// decode asks for the memory before it takes it where little may become much.
func (p *decoder) decode(m *engine.Message, text []byte) ([]byte, error) {
	dst := make([]byte, 0, len(text)+len(text)/2)
	c, expands := p.codec.(codec.Expanding)
	if !expands {
		out, err := p.codec.Decode(dst, text)
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

// source is the text to decode.
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
	return codec.Text(raw), nil
}

// found describes what is where text should be.
func found(raw []byte) string {
	if raw == nil {
		return "is missing"
	}
	return fmt.Sprintf("is not text but %.40s", raw)
}
