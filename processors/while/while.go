// Package while is the processor `while`: it runs steps on a message again and again. Start at [Config].
package while

import (
	"context"
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/components/inner"
)

// Config configures the while processor.
type Config struct {
	When expr.Cond    `yaml:"when" check:"required" doc:"The steps run while this is true; it is evaluated before each round."`
	Do   engine.Steps `yaml:"do" check:"required,nonempty" doc:"The steps."`
	Max  int          `yaml:"max" check:"min=1" doc:"Maximum number of rounds. If the condition is still true afterwards, the message fails."`
}

var defaults = Config{Max: 100}

const help = `
Runs steps on a message while a condition is true. A message that a step drops is
dropped; a message fails if a step fails it, or if it needs more than max rounds.

    - while:
        when: envelope != nil
        do:
          - map: envelope

A step inside can't split or merge messages. The step's timeout covers all
rounds together.
`

func init() {
	engine.Register(engine.Processors, "while", help, defaults, build)
}

func build(c Config, env engine.Env) (engine.Processor, error) {
	steps, err := c.Do.Build(env)
	if err != nil {
		return nil, err
	}
	return &while{c, steps}, nil
}

type while struct {
	Config
	steps engine.Runner
}

// Process runs each round on all messages that are still in the loop, so that the steps see batches. A message gets
// its edits when it leaves the loop: if it fails, it is unchanged.
func (w *while) Process(ctx context.Context, b *engine.Batch) error {
	l := loop{while: w}
	inner.Freeze(b) // a `parallel` inside may have branches that read messages()
	for m := range b.All() {
		holds, err := w.When.Test(m)
		switch {
		case err != nil:
			m.Fail(err)
		case holds:
			l.of = append(l.of, m)
		}
	}
	if len(l.of) == 0 {
		return nil
	}
	l.batch = inner.Copy(l.of)
	for l.next(ctx) {
	}
	return nil
}

// loop holds the messages of one call.
type loop struct {
	*while
	of    []*engine.Message // nil: has left the loop
	batch *engine.Batch     // copies of the messages
	round int
}

// refresh is how many rounds use the same copies: documents remember all of their edits.
const refresh = 64

// next runs one round and reports whether another is needed.
func (l *loop) next(ctx context.Context) bool {
	l.round++
	err := l.steps.Run(ctx, l.batch)
	for i, o := range inner.Outcomes(l.batch, len(l.of), "while") {
		if l.of[i] != nil && !l.stays(l.of[i], o, err) {
			l.of[i] = nil
		}
	}
	var stay, copies []*engine.Message
	for m := range l.batch.All() {
		if m.Ref == 0 || l.of[m.Ref-1] == nil {
			m.Drop()
			continue
		}
		stay, copies = append(stay, l.of[m.Ref-1]), append(copies, m)
	}
	if 2*len(stay) <= len(l.of) || l.round%refresh == 0 {
		last := l.batch
		l.of, l.batch = stay, inner.Copy(copies)
		last.Free()
	}
	return len(stay) > 0
}

// stays reports whether a message goes into another round. If not, the message has its result. err is the error of
// the round.
func (l *loop) stays(m *engine.Message, o inner.Outcome, err error) bool {
	switch {
	case o.Err != nil:
		m.Fail(l.failed(o.Err))
	case o.Dropped:
		m.Drop()
	case o.Gone:
		m.EndAs(engine.Dropped)
	default:
		return l.again(m, o.Live, err)
	}
	return false
}

func (l *loop) again(m, copied *engine.Message, err error) bool {
	holds, failed := l.When.Test(copied)
	switch {
	case failed != nil:
		m.Fail(l.failed(failed))
	case !holds:
		inner.Give(m, copied)
	case err != nil:
		m.Fail(l.failed(err))
	case l.round == l.Max:
		m.Fail(engine.Errorf(engine.Permanent,
			"%s is still true after %d rounds (raise `max`, or make sure that the steps make it false)",
			l.When.String(), l.Max))
	default:
		return true
	}
	return false
}

func (l *loop) failed(err error) error { return fmt.Errorf("round %d: %w", l.round, err) }
