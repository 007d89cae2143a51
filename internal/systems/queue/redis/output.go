package redis

import (
	"context"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/components/controls"
	goredis "github.com/redis/go-redis/v9"
)

// connections is how many connections an output uses to one server. Writes beyond that wait for each other.
const connections = 16

// Output implements the outputs of this family. Each of them makes one command from a message.
type Output struct {
	Connect *Connect
	Key     *expr.Template // or the channel
	What    string         // what the key is, such as "stream"
	// Command returns the command that writes a message.
	Command func(ctx context.Context, key string, m *engine.Message) (*goredis.Cmd, error)
	// CheckError returns the result of a command that has failed, which is nil if the message was written after all. nil: the
	// result is the error.
	CheckError func(ctx context.Context, c *Client, cmd *goredis.Cmd) error

	client *Client
}

var (
	_ engine.Output  = (*Output)(nil)
	_ engine.Opener  = (*Output)(nil)
	_ engine.Closer  = (*Output)(nil)
	_ engine.Prober  = (*Output)(nil)
	_ engine.Traited = (*Output)(nil)
)

// Traits declares that a write costs about the same for many messages as for few.
func (*Output) Traits() engine.Traits { return engine.Traits{Bulk: true} }

// Open connects to the server.
func (o *Output) Open(ctx context.Context) (err error) {
	if o.client, err = o.Connect.Client(0, connections); err != nil {
		return err
	}
	if err = o.client.Reach(ctx); err != nil {
		_ = o.client.Close()
	}
	return err
}

// Close closes the connections.
func (o *Output) Close(context.Context) error {
	if o.client == nil {
		return nil
	}
	return o.client.Close()
}

// Probe checks whether the server answers.
func (o *Output) Probe(ctx context.Context) error { return o.client.Reach(ctx) }

// Write sends the batch in one pipeline.
func (o *Output) Write(ctx context.Context, b *engine.Batch) error {
	key, constant := o.Key.Const()
	w := Writes{Doing: "write to a " + o.What, Constant: constant}
	if constant {
		w.Doing = "write to " + o.What + " " + key
	}
	for m := range b.All() {
		cmd, err := o.command(ctx, key, m)
		if err != nil {
			m.Fail(err)
			continue
		}
		w.Add(m, cmd)
	}
	if o.CheckError == nil {
		return w.Run(ctx, o.client, nil)
	}
	return w.Run(ctx, o.client, func(cmd *goredis.Cmd) error { return o.CheckError(ctx, o.client, cmd) })
}

func (o *Output) command(ctx context.Context, key string, m *engine.Message) (*goredis.Cmd, error) {
	if n := m.Size(); n > largest {
		return nil, engine.Errorf(engine.Rejected, "the payload has %d bytes, but Redis accepts at most %d", n, largest)
	}
	if key == "" {
		var err error
		if key, err = o.Key.Text(m); err != nil {
			return nil, err
		}
		if key == "" {
			return nil, engine.Errorf(engine.Rejected, "the name of the %s is empty", o.What)
		}
		if problem := controls.In(key); problem != "" {
			return nil, engine.Errorf(engine.Rejected, "the name of the %s %s: %q", o.What, problem, key)
		}
	}
	return o.Command(ctx, key, m)
}

// CheckKey reports an empty key.
func CheckKey(field string, key *expr.Template, report func(path, message, remedy string)) {
	if text, constant := key.Const(); constant && text == "" && !key.IsZero() {
		report(field, "is empty", "write a name")
	}
}
