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

// Writer adds messages to a queue. If the queue does not exist, the first message creates it: a list if the message comes from a list,
// and otherwise the type that the address has.
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
		if _, fromList := ms[0].Meta["list"]; fromList {
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

// fields returns the fields of the entry that a message was. A dead letter that returns to its stream loses the fields that flowd has
// added.
func (w *writer) fields(m *queue.Message) (fields []string, err error) {
	returns := originOf(m.Meta) == w.name
	if raw, ok := m.Raw.(*Entry); ok {
		for i := 0; i < len(raw.Fields); i += 2 {
			if !returns || !isFailureField(raw.Fields[i]) {
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
	} else if fields, err = membersOf(m.Payload); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(m.Meta))
	for name := range m.Meta {
		if !isQueueMeta(name) && (!returns || !isFailureField(name)) {
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

// isQueueMeta reports whether metadata is about the queue, and not a field.
func isQueueMeta(name string) bool { return isReserved(name) || name == "field" || name == "list" }

// isFailureField reports whether flowd has added a field to a dead letter.
func isFailureField(name string) bool {
	return name == "original_stream" || name == "original_id" || strings.HasPrefix(name, "error_")
}

// membersOf returns the members of a JSON object as fields.
func membersOf(payload []byte) (fields []string, err error) {
	var d doc.Doc
	d.Reset(payload, nil)
	v, err := d.Value()
	if err != nil {
		return nil, engine.WithClass(engine.Decode, err)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, engine.Errorf(engine.Rejected, "the payload is not a JSON object, so it can't become fields")
	}
	return Members(object)
}

// Members returns the members of an object as fields, sorted by name. Strings are unchanged, anything else is JSON.
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

// Close does nothing, since Write waits for the server.
func (w *writer) Close() error { return nil }
