// Package program is the input `program`: a program in any language that sends messages. Start at [input.Read]. link.go has
// one running program. Package internal/program/host starts it.
package program

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/source"
	"github.com/flowd-io/flowd/internal/program/frame"
	"github.com/flowd-io/flowd/internal/program/host"
	"github.com/flowd-io/flowd/internal/state/checkpoint"
	"github.com/flowd-io/flowd/internal/state/cursor"
)

// Config configures the input.
type Config struct {
	host.Config `yaml:",inline"`
	Window      int    `yaml:"window" check:"min=1,max=100000" doc:"Most messages that the program may send ahead."`
	Checkpoint  string `yaml:"checkpoint" doc:"File that records the position: all messages up to it are settled. After a restart, the program continues behind it."`
	TakesBack   bool   `yaml:"takes_back" doc:"The program delivers a message again if its fate is returned, as a queue does."`
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Config.CheckConfig(report)
	if c.TakesBack && c.Checkpoint != "" {
		report("takes_back", "with a checkpoint, messages come again from a position, not one by one", "keep one of takes_back and checkpoint")
	}
}

// Words returns words of other systems, with what to write instead.
func (c *Config) Words() map[string]string {
	words := c.Config.Words()
	words["concurrency"] = "write `concurrency` on the input, beside `program`"
	return words
}

// OwnFile returns the field and the path of the checkpoint.
func (c Config) OwnFile() (field, path string) { return "checkpoint", c.Checkpoint }

// Traits reports what the program can deliver again.
func (c Config) Traits() engine.Traits {
	if c.TakesBack {
		return engine.Traits{TakesBack: engine.TakesOne, Delays: frame.MaxDelay}
	}
	return checkpoint.Traits(c.Checkpoint)
}

const help = `
Reads messages from a program that flowd keeps running, in any language.

The program sends messages as far as flowd has room for them, each with a position if it
can continue there, and learns how each message ended. With checkpoint, flowd records the
position behind which it continues. With takes_back, the program itself delivers messages
again. With neither, a message that fails is dropped and reported.

    inputs:
      numbers:
        program: {command: [python3, numbers.py], checkpoint: numbers.checkpoint}

If the program crashes, flowd starts it again at the position that it has received last. The
guide "flowd docs programs" shows such programs, and has the protocol for other languages.
`

func init() {
	engine.Register(engine.Inputs, "program", help, Config{Config: host.Defaults, Window: host.DefaultWorkers.Window}, build)
}

func build(c Config, env engine.Env) (engine.Input, error) {
	if c.Checkpoint != "" && env.Instances > 1 {
		return nil, errors.New("several instances can't share a checkpoint (remove `concurrency` or `checkpoint`)")
	}
	in := &input{cfg: c, env: env, prog: host.New(c.Config, frame.Input, env), owner: checkpoint.Owner(env)}
	in.Session = source.NewSession(in.connect)
	return in, nil
}

type input struct {
	*source.Session[*link]
	cfg    Config
	env    engine.Env
	prog   *host.Program
	owner  string
	places cursor.Places[json.RawMessage]

	// Only Open and Read use the fields below.
	queue    []frame.Incoming // messages that were received and not read
	others   int              // how many of them come from an earlier process
	position []byte           // the last one that was received; nil: none
	worked   bool             // the program was ready once
	next     uint64           // Ref of the next message, without a checkpoint
}

var (
	_ engine.Opener   = (*input)(nil)
	_ engine.Closer   = (*input)(nil)
	_ engine.Stopper  = (*input)(nil)
	_ engine.Traited  = (*input)(nil)
	_ engine.Troubled = (*input)(nil)
	_ engine.Acker    = (*input)(nil)
)

// Traits returns what the configuration implies.
func (in *input) Traits() engine.Traits { return in.cfg.Traits() }

// connect reads the checkpoint, and starts the program.
func (in *input) connect(ctx context.Context) (*link, error) {
	if err := in.prog.Find(); err != nil {
		return nil, in.failed(engine.ErrorOf(err, engine.Permanent))
	}
	if in.cfg.Checkpoint != "" {
		saved, err := in.places.Keep(checkpoint.Config[json.RawMessage]{Path: in.cfg.Checkpoint, Kind: "program", Owner: in.owner,
			Log: in.env.Log})
		if err != nil {
			return nil, engine.WithClass(engine.Permanent, err)
		}
		if saved != nil {
			in.position = *saved
		}
	}
	l := newLink(in)
	var err *engine.Error
	if l.Process, err = in.prog.Start(ctx, in.env.Index, max(1, in.env.Instances), in.cfg.Window, in.position, l.handle); err != nil {
		_ = in.places.Leave()
		return nil, in.failed(err)
	}
	in.worked, in.others = true, len(in.queue)
	l.grant(in.cfg.Window)
	return l, nil
}

// failed returns the error of a start. If the program has worked before, its cause may be repaired.
func (in *input) failed(err *engine.Error) error {
	if in.worked && err.Class == engine.Permanent {
		err.Class = engine.Transient
	}
	return err
}

// Read waits for the first message, and adds those that have arrived.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	l := in.Conn()
	if len(in.queue) == 0 {
		var err error
		if in.queue, err = l.receive(ctx); err != nil {
			return in, err
		}
		for i := range in.queue {
			if p := in.queue[i].Position; p != nil {
				in.position = p
			}
		}
	}
	n := 0
	for ; n < len(in.queue) && b.Room() > 0; n++ {
		ref := in.add(b, &in.queue[n])
		if n == in.others {
			l.begins(ref)
		}
	}
	in.queue = in.queue[n:]
	old := min(n, in.others)
	in.others -= old
	l.grant(n - old)
	return in, nil
}

// add adds a message to a batch, and returns its Ref.
func (in *input) add(b *engine.Batch, from *frame.Incoming) (ref uint64) {
	m := b.Add(from.Payload)
	m.Meta = from.Meta
	if in.cfg.Checkpoint == "" {
		m.Ref = in.next
		in.next++
		return m.Ref
	}
	m.Ref = in.places.Read(1)
	if from.Position != nil {
		in.places.Mark(from.Position)
	}
	return m.Ref
}

// Ack notes which messages are settled, and passes the results to the program.
func (in *input) Ack(ctx context.Context, results []engine.Result) (again []engine.Result, err error) {
	in.Conn().reportFates(results)
	if in.cfg.Checkpoint == "" {
		return nil, nil
	}
	return in.places.Ack(ctx, results)
}

// Trouble reports a program that says that it is not ready.
func (in *input) Trouble() *engine.Trouble {
	l, ok := in.Connected()
	if !ok {
		return nil
	}
	why, since := l.Unready()
	if why == "" {
		return nil
	}
	return &engine.Trouble{Indicator: "program_not_ready", Impact: "the program " + in.cfg.Command[0] + " sends no messages", Cause: why,
		Action: "the program says so itself: see what it needs", Since: since}
}
