// Package redisstream adds messages to streams of Redis. Start at [output.command]; what the outputs for Redis share is
// in internal/systems/queue/redis.
package redisstream

import (
	"context"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/systems/metadata"
	"github.com/flowd-io/flowd/internal/systems/queue/redis"
	"github.com/flowd-io/flowd/schema"
	goredis "github.com/redis/go-redis/v9"
)

// Config configures the output.
type Config struct {
	redis.Connect `yaml:",inline"`
	Key           expr.Template             `yaml:"key,main" check:"required" doc:"Stream to add to."`
	Field         string                    `yaml:"field" doc:"Field for the payload. \"\" makes each member of the payload, a JSON object, a field: text as it is, everything else as JSON."`
	Fields        schema.Map[expr.Template] `yaml:"fields" doc:"Fields by name, in addition to the payload and those from metadata."`
	ID            expr.Template             `yaml:"id" doc:"Id of the entry, such as $(meta(\"id\")); by default the server's, from its clock. Ids of a stream only increase: one that is not greater is rejected, unless the entry is there with the same fields, from an earlier attempt."`
	MaxLen        int64                     `yaml:"max_len" check:"min=1" doc:"About how many entries the stream keeps: older ones are trimmed, read or not; no limit by default."`
	Create        bool                      `yaml:"create" doc:"Create the stream if it is missing. With false, messages for it are rejected."`
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Connect.CheckConfig(report)
	redis.CheckKey("key", &c.Key, report)
	for name := range c.Fields.All() {
		if name == c.Field && name != "" {
			report("fields", "has the field with the payload, "+name, "remove it, or choose another `field`")
		}
	}
}

const about = `
Adds messages to Redis streams (XADD), each write in one pipeline.

The payload becomes the field payload (see field); metadata that steps have set, or that came
with the message as fields of an entry, becomes fields of the same names. Dead letters have
error_*, and original_stream and original_id if they were read from a stream.

A message that Redis refuses fails alone. While the server can't be reached, is loading, is a
replica after a failover, or is out of memory (maxmemory), the output is held and nothing is
lost. If the connection breaks before the response, what was sent is sent again, and may be
there twice; with id, it is not.

    outputs:
      orders: {redis_stream: {url: "redis://localhost:6379", key: "orders-$(country)", max_len: 1000000}}
`

func init() {
	engine.Register(engine.Outputs, "redis_stream", about, Config{Connect: redis.Defaults, Field: "payload", Create: true},
		newOutput)
}

type output struct{ cfg Config }

func newOutput(c Config, env engine.Env) (engine.Output, error) {
	o := &output{c}
	out := &redis.Output{Connect: &o.cfg.Connect, Key: &o.cfg.Key, What: "stream", Command: o.command}
	if !c.ID.IsZero() || !c.Create {
		out.CheckError = o.checkError
	}
	return out, nil
}

// command returns the command that adds a message.
func (o *output) command(ctx context.Context, key string, m *engine.Message) (*goredis.Cmd, error) {
	args := make([]any, 0, 16)
	args = append(args, "xadd", key)
	if !o.cfg.Create {
		args = append(args, "nomkstream")
	}
	if o.cfg.MaxLen > 0 {
		args = append(args, "maxlen", "~", o.cfg.MaxLen)
	}
	id := "*"
	if !o.cfg.ID.IsZero() {
		var err error
		if id, err = o.cfg.ID.Text(m); err != nil {
			return nil, err
		}
	}
	args, err := o.fields(append(args, id), m)
	if err != nil {
		return nil, err
	}
	return redis.Cmd(ctx, 1, args...), nil
}

// fields appends the fields of a message.
func (o *output) fields(args []any, m *engine.Message) (_ []any, err error) {
	from := len(args)
	if o.cfg.Field != "" {
		args = append(args, o.cfg.Field, m.Bytes())
	} else if args, err = members(args, m); err != nil {
		return nil, err
	}
	for name, v := range m.Meta.Added() {
		if name = redis.Names.Out(name); name == o.cfg.Field {
			name = redis.Names.Prefix + name // that field has the payload
		}
		if _, set := o.cfg.Fields.Get(name); set || m.Err() != nil && slices.Contains(origins[:], name) {
			continue
		}
		if all, several := v.([]any); several {
			for _, v := range all {
				args = append(args, name, metadata.Text(v))
			}
			continue
		}
		args = append(args, name, metadata.Text(v))
	}
	for name, t := range o.cfg.Fields.All() {
		text, err := t.Text(m)
		if err != nil {
			return nil, err
		}
		args = append(args, name, text)
	}
	if m.Err() != nil {
		args = origin(args, m)
	}
	if len(args) == from {
		return nil, engine.Errorf(engine.Rejected, "an entry needs a field, and the payload is an object without members")
	}
	return args, nil
}

// members appends the members of the payload.
func members(args []any, m *engine.Message) ([]any, error) {
	v, err := m.Value()
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, engine.Errorf(engine.Rejected, `the payload is not an object, whose members could be fields `+
			`(write "field", for all of it)`)
	}
	fields, err := redis.Members(object)
	for _, f := range fields {
		args = append(args, f)
	}
	return args, err
}

// origins say where a dead letter was read. If it was a dead letter before, they replace the earlier ones.
var origins = [...]string{"original_stream", "original_id"}

func origin(args []any, m *engine.Message) []any {
	for _, name := range origins {
		if v, ok := m.Meta.Get(strings.TrimPrefix(name, "original_")); ok {
			args = append(args, name, metadata.Text(v))
		}
	}
	return args
}

// checkError reports whether an entry that is refused was added by an earlier attempt.
func (o *output) checkError(ctx context.Context, c *redis.Client, cmd *goredis.Cmd) error {
	err := cmd.Err()
	args := cmd.Args()
	switch {
	case redis.HasErrorPrefix(err, "ERR The ID specified in XADD is equal or smaller"):
		at := 2 + slices.IndexFunc(args[2:], func(x any) bool { // only words and numbers precede it
			id, ok := x.(string)
			return ok && id != "" && strings.Trim(id, "0123456789-") == ""
		})
		if at < 2 {
			return err
		}
		answer, e := c.Ask(ctx, 1, "xrange", args[1], args[at], args[at])
		if e != nil {
			return e
		}
		there, e := redis.Entries(answer)
		if e == nil && len(there) == 1 && same(there[0].Fields, args[at+1:]) {
			return nil
		}
		return engine.Errorf(engine.Rejected, "add to stream %v: %w (ids must increase)", args[1], err)
	case err != nil && err.Error() == goredis.Nil.Error():
		return engine.Errorf(engine.Rejected, "stream %v does not exist (create it, or write `create: true`)", args[1])
	}
	return err
}

func same(fields []string, args []any) bool {
	if len(fields) != len(args) {
		return false
	}
	for i, f := range fields {
		if metadata.Text(args[i]) != f {
			return false
		}
	}
	return true
}
