package redis

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/systems/metadata"
	"github.com/flowd-io/flowd/internal/systems/queue"
	goredis "github.com/redis/go-redis/v9"
)

// Writer adds to a queue. One that is not there is made, as what the first message was, or as the address says.
func (s *server) Writer(ctx context.Context, name string) (queue.Writer, error) {
	kind, err := s.typeOf(ctx, name)
	return &writer{s, name, kind}, err
}

type writer struct {
	*server
	name, kind string
}

// Write adds messages in one pipeline.
func (w *writer) Write(ctx context.Context, ms []queue.Message) []error {
	if len(ms) == 0 {
		return nil
	}
	if w.kind == "" {
		w.kind = w.server.kind
		if _, was := ms[0].Meta["list"]; was {
			w.kind = list
		}
	}
	ctx, cancel := w.client.Within(ctx)
	defer cancel()
	errs, cmds := make([]error, len(ms)), make([]*goredis.Cmd, len(ms))
	var sent []*goredis.Cmd
	for i := range ms {
		if w.kind == list {
			cmds[i] = Cmd(ctx, 1, "rpush", w.name, ms[i].Payload)
		} else {
			fields, err := w.fields(&ms[i])
			if errs[i] = err; err != nil {
				continue
			}
			args := []any{"xadd", w.name, "*"}
			for _, f := range fields {
				args = append(args, f)
			}
			cmds[i] = Cmd(ctx, 1, args...)
		}
		sent = append(sent, cmds[i])
	}
	w.client.Send(ctx, sent)
	for i, cmd := range cmds {
		if cmd != nil {
			errs[i] = Explain(cmd.Err(), "write to "+w.kind+" "+w.name)
		}
	}
	if errors.Join(errs...) == nil {
		return nil
	}
	return errs
}

// fields are those of the entry that a message was. A dead letter that goes back to its stream is what it was before.
func (w *writer) fields(m *queue.Message) (fields []string, err error) {
	home := originOf(m.Meta) == w.name
	if raw, ok := m.Raw.(*Entry); ok {
		for i := 0; i < len(raw.Fields); i += 2 {
			if !home || !failure(raw.Fields[i]) {
				fields = append(fields, raw.Fields[i], raw.Fields[i+1])
			}
		}
		return fields, nil
	}
	field := w.field
	if f, ok := m.Meta["field"].(string); ok {
		field = f
	}
	if field != "" {
		fields = append(fields, field, string(m.Payload))
	} else if fields, err = members(m.Payload); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(m.Meta))
	for name := range m.Meta {
		if !apart(name) && (!home || !failure(name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		values, several := m.Meta[name].([]any)
		if !several {
			values = []any{m.Meta[name]}
		}
		for _, v := range values {
			fields = append(fields, Names.Out(name), metadata.Text(v))
		}
	}
	return fields, nil
}

// apart says that metadata is of the queue, and no field.
func apart(name string) bool { return reserves(name) || name == "field" || name == "list" }

// failure reports whether a field is one of those that make an entry a dead letter.
func failure(name string) bool {
	return name == "original_stream" || name == "original_id" || strings.HasPrefix(name, "error_")
}

// members are those of a JSON object, as fields.
func members(payload []byte) (fields []string, err error) {
	var d doc.Doc
	d.Reset(payload, nil)
	v, err := d.Value()
	if err != nil {
		return nil, engine.WithClass(engine.Decode, err)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, engine.Errorf(engine.Rejected, "the payload is not an object, whose members could be fields")
	}
	return Members(object)
}

// Members are the members of an object as fields, sorted by name: text as it is, all else as JSON.
func Members(object map[string]any) (fields []string, err error) {
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if text, ok := object[name].(string); ok {
			fields = append(fields, name, text)
			continue
		}
		raw, err := doc.Append(nil, object[name])
		if err != nil {
			return nil, engine.WithClass(engine.Rejected, err)
		}
		fields = append(fields, name, string(raw))
	}
	return fields, nil
}

// Close has nothing to do: what was taken is confirmed.
func (w *writer) Close() error { return nil }
