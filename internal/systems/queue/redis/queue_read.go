package redis

import (
	"context"
	"errors"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue"
	goredis "github.com/redis/go-redis/v9"
)

// Reader reads the messages that a queue has now.
func (s *server) Reader(ctx context.Context, name string) (queue.Reader, error) {
	kind, err := s.typeOf(ctx, name)
	if err != nil {
		return nil, err
	}
	if kind != stream { // a list that does not exist may still have elements in flight
		r := &listReader{server: s, name: name, processing: Processing(name, consumerName), held: map[uint64]string{}}
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
	if r.next, r.last = "-", ""; len(last) > 0 {
		r.last = last[0].ID
	}
	return r, nil
}

// streamReader reads a stream: the new entries of a group, or without a group, all entries that the stream has when reading begins.
// Without a group, Redis does not hide them from others.
type streamReader struct {
	*server
	name       string
	next, last string            // ids of the next entry and, without a group, of the last one; last "": the stream is empty
	resumed    bool              // the entries that an earlier command has left pending were read
	ref        uint64            // last handle
	ids        map[uint64]string // of the entries that are not done, by handle
}

// Read returns the entries that are available.
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
	answer, err := r.client.Ask(ctx, 1, "xrange", r.name, r.next, r.last, "count", most)
	if err != nil {
		return nil, Explain(err, "read stream "+r.name)
	}
	entries, err := Entries(answer)
	if len(entries) > 0 {
		r.next = "(" + entries[len(entries)-1].ID
	}
	return entries, err
}

func (r *streamReader) readGroup(ctx context.Context, most int) ([]Entry, error) {
	for {
		from := ">"
		if !r.resumed {
			if from = r.next; from == "" {
				from = "0"
			}
		}
		answer, err := r.client.Ask(ctx, 7, "xreadgroup", "group", r.group, consumerName, "count", most, "streams", r.name, from)
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
		if len(entries) > 0 && !r.resumed {
			r.next = entries[len(entries)-1].ID
		}
		var left []Entry
		for _, e := range entries {
			if e.Fields != nil {
				left = append(left, e)
			}
		}
		if len(left) > 0 || r.resumed {
			return left, nil
		}
		r.resumed = len(entries) == 0
	}
}

// Done deletes entries, and acknowledges them for the group.
func (r *streamReader) Done(ctx context.Context, refs []uint64) error {
	ids := make([]any, len(refs))
	for i, ref := range refs {
		id, ok := r.ids[ref]
		if !ok {
			return errors.New("an entry was not read by this reader")
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

// Return leaves everything to Close, so that this reader does not read returned messages again.
func (r *streamReader) Return(context.Context, []uint64) error { return nil }

// Close makes the entries that are not done look idle for a day, so that other consumers of the group claim them at once.
func (r *streamReader) Close() error {
	if r.group == "" || len(r.ids) == 0 {
		return nil
	}
	const idle = 24 * time.Hour
	args := []any{"xclaim", r.name, r.group, consumerName, 0}
	for _, id := range r.ids {
		args = append(args, id)
	}
	_, err := r.client.Ask(context.Background(), 1, append(args, "idle", idle.Milliseconds(), "justid")...)
	return Explain(err, "return entries of stream "+r.name)
}

// listReader reads elements of a list. They are in another list, processing, until they are done.
type listReader struct {
	*server
	name, processing string
	ref              uint64            // last handle
	held             map[uint64]string // the elements that are not done, by handle
}

// putBack moves all elements from the list processing back.
func (r *listReader) putBack(ctx context.Context) (n int, err error) {
	for ; ; n++ {
		_, err := r.client.Ask(ctx, 1, "lmove", r.processing, r.name, "RIGHT", "LEFT")
		if errors.Is(err, goredis.Nil) {
			return n, nil
		}
		if err != nil {
			return n, Explain(err, "put elements back into list "+r.name)
		}
	}
}

// Read takes elements from the left.
func (r *listReader) Read(ctx context.Context, most int) (all []queue.Message, err error) {
	cmds := make([]*goredis.Cmd, most)
	for i := range cmds {
		cmds[i] = Cmd(ctx, 1, "lmove", r.name, r.processing, "LEFT", "RIGHT")
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
			return errors.New("an element was not read by this reader")
		}
		cmds[i] = Cmd(ctx, 1, "lrem", r.processing, 1, text)
	}
	ctx, cancel := r.client.Within(ctx)
	defer cancel()
	r.client.Send(ctx, cmds)
	for i, ref := range refs {
		if err := cmds[i].Err(); err != nil {
			return Explain(err, "remove elements of list "+r.processing)
		}
		delete(r.held, ref)
	}
	return nil
}

// Return leaves everything to Close, so that this reader does not read returned messages again.
func (r *listReader) Return(context.Context, []uint64) error { return nil }

// Close puts back the elements that are not done.
func (r *listReader) Close() error {
	_, err := r.putBack(context.Background())
	return err
}
