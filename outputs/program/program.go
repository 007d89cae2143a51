// Package program is the output `program`: a program in any language that writes messages. Package internal/program/host
// runs it.
package program

import (
	"context"
	"errors"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/program/frame"
	"github.com/flowd-io/flowd/internal/program/host"
)

const help = `
Writes messages with a program that flowd keeps running, in any language. The program
confirms or fails each message. What it fails is retried as on_failure says.

    outputs:
      crm: {program: {command: [node, crm.mjs], config: {url: "https://crm/api"}}}

A message may be written more than once: after a crash, flowd sends the messages again that the
program has not answered. A program that can't write at present reports an error as a
whole, or exits: messages wait until it is ready again. The guide "flowd docs programs"
shows such programs, and has the protocol for other languages.
`

func init() { engine.Register(engine.Outputs, "program", help, host.ClientDefaults, build) }

func build(c host.ClientConfig, env engine.Env) (engine.Output, error) {
	return &output{host.NewClient(c, frame.Output, env)}, nil
}

type output struct{ *host.Client }

var (
	_ engine.Opener   = (*output)(nil)
	_ engine.Closer   = (*output)(nil)
	_ engine.Troubled = (*output)(nil)
)

// Write passes the messages to the program.
func (o *output) Write(ctx context.Context, b *engine.Batch) error {
	o.Exchange(ctx, slices.Collect(b.All()), func(m *engine.Message, r *frame.Result) {
		switch r.Outcome {
		case frame.Failed:
			m.Fail(r.Err)
		case frame.Unchanged:
			m.Done()
		default:
			m.Fail(engine.WithClass(engine.Permanent, errors.New("the program answered with a change (an output only confirms or fails)")))
		}
	})
	return nil
}
