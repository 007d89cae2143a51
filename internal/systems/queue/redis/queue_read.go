package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue"
	goredis "github.com/redis/go-redis/v9"
)

// Reader reads what is in a queue now.
func (s *server) Reader(ctx context.Context, name string) (queue.Reader, error) {
	kind, err := s.typeOf(ctx, name)
	if err != nil {
		return nil, err
	}
	if kind != stream { // a list that has nothing may still have something in flight
		r := &listReader{server: s, name: name, taken: Processing(name, own), held: map[uint64]string{}}
		n, err := r.putBack(ctx)
		if err == nil && kind == "" && n == 0 {
			err = missing(name)
		}
		return r, err
	}
	r := &streamReader{server: s, name: name, ids: map[uint64]string{}}
	if s.group != "" {
		groups, err := s.groups(ctx, name)
		if err != nil {
			return nil, err
		}
		if _, ok := groups[s.group]; !ok {
			return nil, engine.Errorf(engine.Permanent, "stream %s has no group %s", name, s.group)
		}
		return r, nil
	}
	answer, err := s.client.Ask(ctx, 1, "xrevrange", name, "+", "-", "count", 1)
	if err != nil {
		return nil, Explain(err, "read stream "+name)
	}
	last, err := Entries(answer)
	if err != nil {
		return nil, err
	}
	if r.at, r.last = "-", ""; len(last) > 0 {
		r.last = last[0].ID
	}
	return r, nil
}

// streamReader reads a stream: its new entries for a group, or all entries that it has when reading begins. Redis hides
// those from nobody then.
type streamReader struct {
	*server
	name     string
	at, last string // of a stream that is read without a group: from where, and to where; "": nothing is left
	mine     bool   // what an earlier command has left with this consumer is read
	ref      uint64
	ids      map[uint64]string // read and not done
}

// Read gives what there is.
func (r *streamReader) Read(ctx context.Context, most int) (all []queue.Message, err error) {
	var entries []Entry
	if r.group != "" {
		entries, err = r.readGroup(ctx, most)
	} else {
		entries, err = r.readAll(ctx, most)
	}
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, engine.ErrEnd
	}
	source := SourceOf(r.name, r.field, len(entries))
	for _, e := range entries {
		r.ref++
		r.ids[r.ref] = e.ID
		field := r.field
		payload, err := e.Payload(field)
		if err != nil {
			field = ""
			if payload, err = e.Payload(""); err != nil {
				return nil, err
			}
		}
		meta := source.Add(e, 0).Map()
		meta["field"] = field
		if field == "" {
			meta = map[string]any{"stream": r.name, "id": e.ID, "timestamp": e.Time(), "field": ""}
		}
		all = append(all, queue.Message{Payload: payload, Meta: meta, Ref: r.ref, Raw: &e})
	}
	return all, nil
}

func (r *streamReader) readAll(ctx context.Context, most int) ([]Entry, error) {
	if r.last == "" {
		return nil, nil
	}
	answer, err := r.client.Ask(ctx, 1, "xrange", r.name, r.at, r.last, "count", most)
	if err != nil {
		return nil, Explain(err, "read stream "+r.name)
	}
	entries, err := Entries(answer)
	if len(entries) > 0 {
		r.at = "(" + entries[len(entries)-1].ID
	}
	return entries, err
}

func (r *streamReader) readGroup(ctx context.Context, most int) ([]Entry, error) {
	for {
		from := ">"
		if !r.mine {
			if from = r.at; from == "" {
				from = "0"
			}
		}
		answer, err := r.client.Ask(ctx, 7, "xreadgroup", "group", r.group, own, "count", most, "streams", r.name, from)
		if err != nil && !errors.Is(err, goredis.Nil) {
			return nil, Explain(err, "read stream "+r.name)
		}
		var entries []Entry
		if list, _ := answer.([]any); len(list) == 1 {
			if pair, _ := list[0].([]any); len(pair) == 2 {
				if entries, err = Entries(pair[1]); err != nil {
					return nil, err
				}
			}
		}
		if len(entries) > 0 && !r.mine {
			r.at = entries[len(entries)-1].ID
		}
		var left []Entry
		for _, e := range entries {
			if e.Fields != nil {
				left = append(left, e)
			}
		}
		if len(left) > 0 || r.mine {
			return left, nil
		}
		r.mine = len(entries) == 0
	}
}

// Done deletes entries, and acknowledges them for the group.
func (r *streamReader) Done(ctx context.Context, refs []uint64) error {
	ids := make([]any, len(refs))
	for i, ref := range refs {
		id, ok := r.ids[ref]
		if !ok {
			return fmt.Errorf("a handle is not of an entry that was read")
		}
		ids[i] = id
	}
	_, err := r.client.Ask(ctx, 1, append([]any{"xdel", r.name}, ids...)...)
	if err == nil && r.group != "" {
		_, err = r.client.Ask(ctx, 1, append([]any{"xack", r.name, r.group}, ids...)...)
	}
	if err != nil {
		return Explain(err, "delete entries of stream "+r.name)
	}
	for _, ref := range refs {
		delete(r.ids, ref)
	}
	return nil
}

// Return has nothing to do until Close: what is returned would be read again.
func (r *streamReader) Return(context.Context, []uint64) error { return nil }

// Close lets the consumers of the group claim at once what is not done.
func (r *streamReader) Close() error {
	if r.group == "" || len(r.ids) == 0 {
		return nil
	}
	const long = 24 * time.Hour
	args := []any{"xclaim", r.name, r.group, own, 0}
	for _, id := range r.ids {
		args = append(args, id)
	}
	_, err := r.client.Ask(context.Background(), 1, append(args, "idle", long.Milliseconds(), "justid")...)
	return Explain(err, "hand back entries of stream "+r.name)
}

// listReader takes elements of a list: they move to another one until they are done.
type listReader struct {
	*server
	name, taken string
	ref         uint64
	held        map[uint64]string // read and not done
}

// putBack puts back what is in the other list.
func (r *listReader) putBack(ctx context.Context) (n int, err error) {
	for ; ; n++ {
		_, err := r.client.Ask(ctx, 1, "lmove", r.taken, r.name, "RIGHT", "LEFT")
		if errors.Is(err, goredis.Nil) {
			return n, nil
		}
		if err != nil {
			return n, Explain(err, "put elements back into list "+r.name)
		}
	}
}

// Read takes what there is from the left.
func (r *listReader) Read(ctx context.Context, most int) (all []queue.Message, err error) {
	cmds := make([]*goredis.Cmd, most)
	for i := range cmds {
		cmds[i] = Cmd(ctx, 1, "lmove", r.name, r.taken, "LEFT", "RIGHT")
	}
	ctx, cancel := r.client.Within(ctx)
	defer cancel()
	r.client.Send(ctx, cmds)
	for _, cmd := range cmds {
		text, err := cmd.Text()
		if errors.Is(err, goredis.Nil) {
			continue
		}
		if err != nil {
			return all, Explain(err, "read list "+r.name)
		}
		r.ref++
		r.held[r.ref] = text
		all = append(all, queue.Message{Payload: []byte(text), Meta: map[string]any{"list": r.name}, Ref: r.ref, Raw: text})
	}
	if len(all) == 0 {
		return nil, engine.ErrEnd
	}
	return all, nil
}

// Done removes elements.
func (r *listReader) Done(ctx context.Context, refs []uint64) error {
	cmds := make([]*goredis.Cmd, len(refs))
	for i, ref := range refs {
		text, ok := r.held[ref]
		if !ok {
			return fmt.Errorf("a handle is not of an element that was read")
		}
		cmds[i] = Cmd(ctx, 1, "lrem", r.taken, 1, text)
	}
	ctx, cancel := r.client.Within(ctx)
	defer cancel()
	r.client.Send(ctx, cmds)
	for i, ref := range refs {
		if err := cmds[i].Err(); err != nil {
			return Explain(err, "remove elements of list "+r.taken)
		}
		delete(r.held, ref)
	}
	return nil
}

// Return has nothing to do until Close: what is returned would be read again.
func (r *listReader) Return(context.Context, []uint64) error { return nil }

// Close puts back what is not done.
func (r *listReader) Close() error {
	_, err := r.putBack(context.Background())
	return err
}
