// Package program is the processor `program`: a program in any language that edits messages. Package internal/program/host
// runs it.
package program

import (
	"context"
	"iter"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/program/frame"
	"github.com/flowd-io/flowd/internal/program/host"
)

// Config configures the processor.
type Config struct {
	host.ClientConfig `yaml:",inline"`
}

const help = `
Passes messages to a program that flowd keeps running, in any language. The program can
change, drop, split or fail each message, alone or in batches. It is started once, loads
what it needs, and lives on when a message fails. Its exceptions become errors of single
messages, with a traceback in the dead letter.

    - program: {command: [python3, score.py], config: {model: small}}

In batch steps, the program gets the whole batch at once. A crash costs no message: flowd
starts the program again, and finds out which message is at fault. The guide
"flowd docs programs" shows score.py, and has the protocol for other languages.
`

// Traits reports that a program runs, which may have any effect.
func (Config) Traits() engine.Traits { return engine.Traits{Effects: engine.EffectsElsewhere} }

func init() { engine.Register(engine.Processors, "program", help, Config{host.ClientDefaults}, build) }

func build(c Config, env engine.Env) (engine.Processor, error) {
	return &step{
		Client:   host.NewClient(c.ClientConfig, frame.Step, env),
		together: 2 * c.Concurrency * c.Parallel, // twice, so that a process need not wait for the others
	}, nil
}

type step struct {
	*host.Client
	together int
}

var (
	_ engine.Opener   = (*step)(nil)
	_ engine.Closer   = (*step)(nil)
	_ engine.Traited  = (*step)(nil)
	_ engine.Troubled = (*step)(nil)
)

// Traits reports how many messages the processes work on at once.
func (s *step) Traits() engine.Traits {
	return engine.Traits{Effects: engine.EffectsElsewhere, Together: s.together}
}

// Process passes the messages to the program.
func (s *step) Process(ctx context.Context, b *engine.Batch) error {
	s.Exchange(ctx, slices.Collect(b.All()), func(m *engine.Message, r *frame.Result) {
		if r.Outcome == frame.Failed {
			m.Fail(r.Err)
			return
		}
		for _, c := range r.Meta {
			if c.Value == nil {
				m.Meta = m.Meta.Without(c.Name)
			} else {
				m.Meta = m.Meta.With(c.Name, c.Value)
			}
		}
		switch {
		case r.Outcome == frame.Dropped:
			m.Drop()
		case r.Outcome == frame.Split:
			b.Split(m, parts(r.Parts))
		case r.NewPayload:
			m.SetBytes(r.Payload)
		}
	})
	return nil
}

func parts(all [][]byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, p := range all {
			if !yield(p, nil) {
				return
			}
		}
	}
}
