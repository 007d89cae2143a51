// Package branch is the processor `branch`: it runs steps on a copy of a message and puts their result into the
// message. Start at [Config].
package branch

import (
	"bytes"
	"context"
	"slices"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/components/fields"
	"github.com/flowd-io/flowd/internal/components/inner"
)

// Config configures the branch processor.
type Config struct {
	In   expr.Expr    `yaml:"in" doc:"The document for the steps; the message's own (this) by default."`
	Do   engine.Steps `yaml:"do" check:"required,nonempty" doc:"The steps."`
	Into fields.Path  `yaml:"into" doc:"Field for the result; by default it replaces the payload."`
}

// Words returns words of other systems, with what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{"request_map": "write `in`", "result_map": "write `into`", "processors": "write `do`",
		"steps": "write `do`"}
}

const help = `
Runs steps on a copy of the message and puts the result into the message, which is
otherwise unchanged: its other fields, its metadata and its vars. Use it for steps that
replace the payload, such as http.

    - branch:
        in: '{id: customer.id}'
        do:
          - http: {url: https://crm.internal/customers, body: this}
        into: customer.details

A result that is not a document, such as plain text, becomes text. If a step drops the
copy, the message continues as it was. If a step fails the copy, the message fails, and
stays as it was. A step inside can't split or merge messages; for arrays
use each.
`

func init() {
	engine.Register(engine.Processors, "branch", help, Config{}, build)
}

func build(c Config, env engine.Env) (engine.Processor, error) {
	steps, err := c.Do.Build(env)
	if err != nil {
		return nil, err
	}
	b := &branch{in: c.In, into: c.Into.Path, steps: steps}
	b.from, b.bare = c.In.Path()
	return b, nil
}

type branch struct {
	in    expr.Expr
	from  doc.Path // of an expression that is just a path
	bare  bool
	into  doc.Path
	steps engine.Runner
}

// Process runs the steps on the copies of all messages together, since some steps wait for answers.
func (p *branch) Process(ctx context.Context, b *engine.Batch) error {
	inner.Freeze(b) // a `parallel` inside may have branches that read messages()
	var of []*engine.Message
	var bodies [][]byte
	for m := range b.All() {
		body, err := p.document(m)
		if err != nil {
			m.Fail(err)
			continue
		}
		of, bodies = append(of, m), append(bodies, body)
	}
	if len(of) == 0 {
		return nil
	}
	copies := inner.Copy(of)
	defer copies.Free()
	for i, c := range slices.Collect(copies.All()) {
		inner.GiveBody(c, bodies[i])
	}
	if err := p.steps.Run(ctx, copies); err != nil {
		return err
	}
	for i, o := range inner.Outcomes(copies, len(of), "branch") {
		switch {
		case o.Err != nil:
			of[i].Fail(o.Err)
		case o.Live != nil:
			if err := p.put(of[i], o.Live.Bytes()); err != nil {
				of[i].Fail(err)
			}
		}
	}
	return nil
}

// document returns the document for the steps.
func (p *branch) document(m *engine.Message) ([]byte, error) {
	switch {
	case p.in.IsZero():
		return m.Bytes(), nil
	case !p.bare:
		v, err := p.in.Eval(m)
		if err != nil {
			return nil, err
		}
		return doc.Append(nil, v)
	}
	raw, ok, err := m.Document().Raw(p.from)
	if err == nil && !ok {
		raw = []byte("null")
	}
	return raw, err
}

// put stores the result at the path.
func (p *branch) put(m *engine.Message, result []byte) error {
	if len(p.into.Keys()) == 0 {
		inner.GiveBody(m, result)
		return nil
	}
	if err := m.Grow(len(result)); err != nil {
		return err
	}
	var d doc.Doc
	d.Reset(result, nil)
	switch {
	case d.Valid() == nil:
		return m.Doc().SetRaw(p.into, bytes.TrimSpace(result))
	case utf8.Valid(result):
		return m.Set(p.into, string(result))
	}
	return engine.Errorf(engine.Decode,
		"the result of the steps is neither a document nor text, so that no field can have it (add a step such as `encode: base64`)")
}
