// Package redis is the processor `redis`: it runs a command for each message. Start at [Config]. Package
// internal/systems/queue/redis manages connections.
package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/components/fields"
	"github.com/flowd-io/flowd/internal/network/bounds"
	"github.com/flowd-io/flowd/internal/systems/metadata"
	"github.com/flowd-io/flowd/internal/systems/queue/redis"
	"github.com/flowd-io/flowd/schema"
	goredis "github.com/redis/go-redis/v9"
)

// Config configures the redis processor.
type Config struct {
	redis.Connect `yaml:",inline"`
	Command       string       `yaml:"command" check:"required,nonempty" doc:"Command, such as HGET or INCRBY, with any constant words: XADD audit MAXLEN 1000 *. Words are separated by spaces; data goes into args."`
	Args          []expr.Value `yaml:"args" doc:"Arguments after the command, in order: text as it is, anything else as JSON; null is an error."`
	Reply         string       `yaml:"reply" check:"oneof=value|pairs|json|none" doc:"What the reply becomes. value: text, number, list, or null where there is nothing. pairs: a list of names and values, such as that of HGETALL, as an object. json: JSON text, decoded. none leaves the message unchanged."`
	Into          fields.Path  `yaml:"into" doc:"Field for the reply; without it the reply replaces the payload."`
	MaxAnswer     schema.Size  `yaml:"max_answer" check:"min=1" doc:"Maximum size of a reply, as JSON; a larger one fails its message."`
}

const (
	value = "value"
	pairs = "pairs"
	asIs  = "json"
	none  = "none"
)

// refused are commands that would block the connection, change it for other messages, or have no answer.
var refused = strings.Fields(`asking auth blmove blmpop blpop brpop brpoplpush bzmpop bzpopmax bzpopmin client
	debug discard exec hello monitor multi psubscribe psync punsubscribe quit readonly readwrite replicaof reset select
	shutdown slaveof ssubscribe subscribe sunsubscribe swapdb sync unsubscribe unwatch wait waitaof watch`)

// CheckConfig reports commands and settings that can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Connect.CheckConfig(report)
	switch words := strings.Fields(c.Command); {
	case len(words) == 0:
		report("command", "is empty", "write a command, such as GET")
	case slices.Contains(refused, strings.ToLower(words[0])):
		report("command", strings.ToUpper(words[0])+" would block or change the connection that messages share",
			"choose another command")
	}
	if c.Reply == none && !c.Into.IsZero() {
		report("into", "with `reply: none` there is no answer", "remove it, or write another `reply`")
	}
}

// Words returns words of other systems, with what to write instead.
func (c *Config) Words() map[string]string {
	words := c.Connect.Words()
	for word, remedy := range map[string]string{
		"operator": "write `command`", "args_mapping": "write `args`", "key": "write it first in `args`",
		"result_map": "write `into`", "retries": "write `retry` on the step, beside `redis`",
		"script": "write `command: EVAL`, and the script first in `args`",
	} {
		words[word] = remedy
	}
	return words
}

const help = `
Runs a Redis command for each message, and stores the reply in a field. All messages of a run
go in one pipeline.

The command never comes from data; only its arguments do. A message whose command Redis refuses
fails alone (class rejected, or permanent if a key holds another type); the step waits out an
outage, a failover or a lack of memory. If the connection is lost before the reply, a command
that changes something may run twice for one message.

    - redis:
        url: redis://localhost:6379
        command: HGETALL
        args: ['"customer:" + customer_id']
        reply: pairs
        into: customer
`

// Traits reports that the step calls a server.
func (Config) Traits() engine.Traits { return engine.Traits{Effects: engine.EffectsElsewhere} }

func init() {
	engine.Register(engine.Processors, "redis", help, Config{Connect: redis.Defaults, Reply: value,
		MaxAnswer: 10 << 20}, build)
}

const (
	connections = 8   // at most; each lane uses one pipeline at a time
	together    = 128 // maximum number of messages per pipeline
)

type step struct {
	cfg    Config
	words  []any
	client *redis.Client
	watch  redis.Watch
}

var (
	_ engine.Opener   = (*step)(nil)
	_ engine.Closer   = (*step)(nil)
	_ engine.Traited  = (*step)(nil)
	_ engine.Troubled = (*step)(nil)
)

func build(c Config, _ engine.Env) (engine.Processor, error) {
	s := &step{cfg: c}
	for _, w := range strings.Fields(c.Command) {
		s.words = append(s.words, w)
	}
	return s, nil
}

// Open prepares the client. The first command connects.
func (s *step) Open(context.Context) (err error) {
	if s.client, err = s.cfg.Client(0, connections); err == nil {
		s.client.Watch = &s.watch
	}
	return err
}

// Trouble reports that the server can't be used.
func (s *step) Trouble() *engine.Trouble { return s.watch.Trouble() }

// Close closes the connections.
func (s *step) Close(context.Context) error {
	if s.client == nil {
		return nil
	}
	return s.client.Close()
}

// Traits reports how many commands are sent at once.
func (s *step) Traits() engine.Traits { return engine.Traits{Together: together} }

// Process sends the commands in one pipeline.
func (s *step) Process(ctx context.Context, b *engine.Batch) error {
	msgs, cmds := make([]*engine.Message, 0, b.Len()), make([]*goredis.Cmd, 0, b.Len())
	for m := range b.All() {
		cmd, err := s.command(ctx, m)
		if err != nil {
			m.Fail(err)
			continue
		}
		msgs, cmds = append(msgs, m), append(cmds, cmd)
	}
	s.client.Send(ctx, cmds)
	if len(cmds) > 1 {
		s.alone(ctx, cmds)
	}
	for i, m := range msgs {
		if err := s.finish(m, cmds[i]); err != nil {
			m.Fail(err)
		}
	}
	return nil
}

// alone repeats commands one by one after an answer that was too large has ended their pipeline: only one command is
// at fault.
func (s *step) alone(ctx context.Context, cmds []*goredis.Cmd) {
	for i, cmd := range cmds {
		if errors.Is(cmd.Err(), bounds.ErrTooLarge) {
			cmds[i] = goredis.NewCmd(ctx, cmd.Args()...)
			s.client.Send(ctx, cmds[i:i+1])
		}
	}
}

// command returns the command of a message.
func (s *step) command(ctx context.Context, m *engine.Message) (*goredis.Cmd, error) {
	if !s.cfg.Into.Path.IsZero() {
		if err := m.Doc().Valid(); err != nil {
			return nil, err // there is no document to hold the answer
		}
	}
	args := append(make([]any, 0, len(s.words)+len(s.cfg.Args)), s.words...)
	for i := range s.cfg.Args {
		v, err := s.cfg.Args[i].EvalOut(m)
		if err != nil {
			return nil, fmt.Errorf("args[%d]: %w", i, err)
		}
		if v == nil {
			return nil, engine.Errorf(engine.Rejected, "args[%d] is null (write what to send instead, such as: name ?? \"\")", i)
		}
		args = append(args, metadata.Text(v))
	}
	return goredis.NewCmd(ctx, args...), nil
}

// finish stores the answer in the message.
func (s *step) finish(m *engine.Message, cmd *goredis.Cmd) error {
	answer, err := cmd.Result()
	if err != nil && !errors.Is(err, goredis.Nil) {
		large := errors.Is(err, bounds.ErrTooLarge)
		if err = redis.Explain(err, strings.ToUpper(s.words[0].(string))); large {
			err = engine.WithClass(engine.TooLarge, err)
		}
		return err
	}
	if s.cfg.Reply == none {
		return nil
	}
	text, err := s.text(answer)
	if err != nil {
		return err
	}
	if err := m.Grow(len(text)); err != nil {
		return err
	}
	if s.cfg.Into.IsZero() {
		m.SetBytes(text)
		return nil
	}
	return m.Doc().SetRaw(s.cfg.Into.Path, text)
}

// text converts an answer to JSON.
func (s *step) text(answer any) (text []byte, err error) {
	switch a := answer.(type) {
	case string:
		if s.cfg.Reply == asIs {
			return s.fits(fromJSON(a))
		}
	case []any:
		if s.cfg.Reply == pairs {
			return s.fits(object(a))
		}
	}
	return s.fits(appendValue(nil, answer, 0))
}

func (s *step) fits(text []byte, err error) ([]byte, error) {
	if err == nil && len(text) > int(s.cfg.MaxAnswer) {
		err = engine.Errorf(engine.Permanent, "the answer is longer than max_answer, %s (raise it, or ask for less)",
			s.cfg.MaxAnswer)
	}
	return text, err
}
