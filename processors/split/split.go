// Package split is the processor `split`: it splits a message into several. Start at [Config].
package split

import (
	"bytes"
	"context"
	"iter"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/formats/codec"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the split processor.
type Config struct {
	By    expr.Expr    `yaml:"by,main" doc:"The list whose elements become messages; the whole document by default."`
	Lines *Lines       `yaml:"lines" oneof:"payload,optional" doc:"Instead: one message per line of the payload, skipping blank lines."`
	Chunk *schema.Size `yaml:"chunk" oneof:"payload,optional" check:"min=1" doc:"Instead: one message per this many bytes of the payload."`
}

// Lines has no options.
type Lines struct{}

// CheckConfig rejects two ways to split, and chunks without a size.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	if c.Chunk != nil && *c.Chunk < 1 {
		report("chunk", "needs a size", "write `{chunk: 64KiB}`")
	}
	if !c.By.IsZero() && (c.Lines != nil || c.Chunk != nil) {
		report("by", "splits by elements, not by lines or chunks", "remove one of them")
	}
}

const help = `
Makes a message from each element of a list, each line of the payload, or each chunk of
it. A text element becomes that text, anything else its JSON. An empty list filters the
message. Parts inherit the metadata of the whole.

    - split: items
    - split: lines
    - split: {chunk: 64KiB}
    - split: split(raw(), ";")

A field called lines is written this.lines.
`

func init() {
	engine.Register(engine.Processors, "split", help, Config{}, build)
}

func build(c Config, _ engine.Env) (engine.Processor, error) {
	s := splitter{Config: c}
	if c.By.IsZero() {
		s.bare = true
	} else {
		s.path, s.bare = c.By.Path()
	}
	return &s, nil
}

type splitter struct {
	Config
	path doc.Path
	bare bool // the list is at path, so its elements need not be decoded
}

// Process records what the parts consist of. The engine pulls them later, when it has credits, so they keep the bytes
// alive but not the message.
func (s *splitter) Process(_ context.Context, b *engine.Batch) error {
	for m := range b.All() {
		parts, err := s.parts(m)
		if err != nil {
			m.Fail(err)
			continue
		}
		b.Split(m, parts)
	}
	return nil
}

func (s *splitter) parts(m *engine.Message) (iter.Seq2[[]byte, error], error) {
	switch {
	case s.Lines != nil:
		return lines(m.Bytes()), nil
	case s.Chunk != nil:
		return chunks(m.Bytes(), int(*s.Chunk)), nil
	case s.bare:
		raw, _, err := m.Document().Raw(s.path)
		if err != nil {
			return nil, err
		}
		if kind := doc.Kind(raw); kind != doc.Array {
			return nil, s.noList(kind.String())
		}
		return texts(raw), nil
	}
	v, err := s.By.Eval(m)
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, s.noList(describe(v))
	}
	return values(list), nil
}

// noList returns an error even for nil: if a list is missing, the message must not vanish.
func (s *splitter) noList(found string) error {
	name := s.By.String()
	if name == "" {
		name = "the document"
	}
	return engine.Errorf(engine.Expression, "%s is %s, not a list (if that is intended, guard the step with `when`)",
		name, found)
}

func describe(v any) string {
	text, err := doc.Append(nil, v)
	if err != nil {
		return "not JSON"
	}
	return doc.Kind(text).String()
}

func texts(array []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for element := range doc.Elements(array) {
			text, err := codec.Text(element), error(nil)
			if element[0] == '"' {
				err = doc.Surrogate(element)
			}
			if !yield(text, err) || err != nil {
				return
			}
		}
	}
}

func values(list []any) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, v := range list {
			if text, ok := v.(string); ok {
				if !yield([]byte(text), nil) {
					return
				}
				continue
			}
			if !yield(doc.Append(nil, v)) {
				return
			}
		}
	}
}

func lines(payload []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for line := range bytes.Lines(payload) {
			line = bytes.TrimRight(line, "\r\n")
			if len(bytes.TrimSpace(line)) > 0 && !yield(line[:len(line):len(line)], nil) {
				return
			}
		}
	}
}

func chunks(payload []byte, size int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for chunk := range slices.Chunk(payload, size) {
			if !yield(chunk, nil) {
				return
			}
		}
	}
}
