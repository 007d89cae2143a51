// Package sequence reads inputs one after the other.
package sequence

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the input.
type Config struct {
	Inputs []part `yaml:"inputs,main" check:"required,nonempty" doc:"The inputs in order, or names of other inputs of the pipeline."`
}

type part struct {
	Use engine.Plugin[engine.Input] `yaml:",variant"`
}

// UnmarshalConfig reads an input. Package config has put the inputs that parts name in the place of the names, so a name
// that is left is wrong.
func (p *part) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	type input part
	if n.Kind != schema.TextNode {
		d.Decode(n, (*input)(p))
		return
	}
	if name, ok := d.Text(n); ok {
		d.Report(n, schema.Problem{Code: "unknown-input", Message: fmt.Sprintf("there is no other input %q", name),
			Remedy: "write the name of an input of this pipeline, or the input itself, as {TYPE: …}"})
	}
}

// DescribeConfig describes a name or an input.
func (p *part) DescribeConfig() *schema.Type {
	type input part
	return schema.AnyOf("NAME or input", "", input{})
}

const about = `
Reads inputs one after another: each begins when the one before has ended.

    inputs:
      all:
        sequence:
          - file: old.ndjson
          - stdin: {}

Write each input in its place, or the name of another input of the pipeline. A named input is read only here, so its
entry has no other keys than its type; processors, rate_limit and the like belong to the entry of the sequence.

    inputs:
      january: {file: january.ndjson}
      february: {file: february.ndjson}
      both: {sequence: [january, february]}
`

func init() {
	engine.Register(engine.Inputs, "sequence", about, Config{}, newInput)
}

type input struct {
	names   []string
	parts   []engine.Input
	takes   engine.TakesBack
	current int          // index of the part that is read
	reached atomic.Int64 // number of parts that were ever opened
	opened  int          // number of parts that are open
}

var (
	_ engine.Opener   = (*input)(nil)
	_ engine.Closer   = (*input)(nil)
	_ engine.Stopper  = (*input)(nil)
	_ engine.Traited  = (*input)(nil)
	_ engine.Troubled = (*input)(nil)
)

func newInput(c Config, env engine.Env) (engine.Input, error) {
	if env.Index > 0 {
		return nil, errors.New("several instances would read side by side (remove concurrency)")
	}
	in := &input{}
	var errs []error
	for i, p := range c.Inputs {
		made, err := p.Use.Build(env)
		if err == nil {
			err = in.add(p.Use.Name, made)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s, number %d: %w", p.Use.Name, i+1, err))
		}
	}
	return in, errors.Join(errs...)
}

// add adds a part.
func (in *input) add(name string, part engine.Input) error {
	traits := engine.TraitsOf(part)
	if traits.Follows != "" {
		return errors.New("it only ends when the pipelines that write to it have ended (give it a pipeline of its own)")
	}
	if _, lists := part.(engine.Lister); lists {
		return errors.New("a pattern matches any number of queues, but an input reads one " +
			"(name one queue, or make it a source of an input `poll`)")
	}
	if len(in.parts) == 0 {
		in.takes = traits.TakesBack
	} else if traits.TakesBack != in.takes {
		in.takes = engine.TakesNothing
	}
	in.names, in.parts = append(in.names, name), append(in.parts, part)
	return nil
}

// Traits returns how messages are settled if that is the same for all parts. Otherwise nothing can be returned.
func (in *input) Traits() engine.Traits { return engine.Traits{TakesBack: in.takes} }

// Trouble returns the trouble of the first part that has any.
func (in *input) Trouble() *engine.Trouble {
	for _, part := range in.parts[:in.reached.Load()] {
		if troubled, ok := part.(engine.Troubled); ok {
			if t := troubled.Trouble(); t != nil {
				return t
			}
		}
	}
	return nil
}

// Open reopens the parts that Close has closed, including those that have ended: acks may still arrive for them.
func (in *input) Open(ctx context.Context) error {
	for in.opened < int(in.reached.Load()) {
		if err := in.openNext(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Read reads the current part. When it ends, Read opens the next.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	for in.current < len(in.parts) {
		part, room := in.parts[in.current], b.Room()
		if in.opened == in.current {
			if err := in.openNext(ctx); err != nil {
				return nil, err
			}
		}
		acker, err := part.Read(ctx, b)
		if err != engine.ErrEnd {
			return acker, err
		}
		in.current++
		if b.Room() < room {
			return acker, nil
		}
	}
	return nil, engine.ErrEnd
}

// openNext opens the next part.
func (in *input) openNext(ctx context.Context) error {
	if o, ok := in.parts[in.opened].(engine.Opener); ok {
		if err := o.Open(ctx); err != nil {
			return fmt.Errorf("%s: %w", in.names[in.opened], err)
		}
	}
	in.opened++
	in.reached.Store(max(in.reached.Load(), int64(in.opened)))
	return nil
}

// Stop stops the current part.
func (in *input) Stop(ctx context.Context) error {
	if in.current >= in.opened {
		return nil
	}
	if s, ok := in.parts[in.current].(engine.Stopper); ok {
		return s.Stop(ctx)
	}
	return nil
}

// Close closes all open parts. Parts that have ended stay open until then, since acks may arrive for them.
func (in *input) Close(ctx context.Context) error {
	var errs []error
	for _, p := range in.parts[:in.opened] {
		if c, ok := p.(engine.Closer); ok {
			errs = append(errs, c.Close(ctx))
		}
	}
	in.opened = 0
	return errors.Join(errs...)
}
