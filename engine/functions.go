package engine

import (
	"fmt"
	"slices"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
)

// The functions of a message: what expressions read apart from the document.
func init() {
	for _, f := range []struct {
		name, doc string
		types     []any
		call      func(m *Message, args []any) (any, error)
	}{
		{"raw", "the payload as text", []any{new(func() string)},
			func(m *Message, _ []any) (any, error) { return string(m.Bytes()), nil }},
		{"size", "the payload's length in bytes", []any{new(func() int)},
			func(m *Message, _ []any) (any, error) { return m.Size(), nil }},
		{"meta", "one metadata value, or nil; without a name all of them",
			[]any{new(func() any), new(func(string) any)}, metaOf},
		{"error", "nil, or {message, class, step, output, attempt, first_failed_at} of a failed message",
			[]any{new(func() any)}, errorOf},
		{"input", "the input that the message came from", []any{new(func() string)},
			func(m *Message, _ []any) (any, error) { return m.Input(), nil }},
		{"batcher", "the batcher that took the message, or nil", []any{new(func() any)}, batcherName},
		{"attempt", "the delivery attempt, from 1", []any{new(func() int)},
			func(m *Message, _ []any) (any, error) { return max(1, m.Attempt), nil }},
		{"received_at", "when the message was read", []any{new(func() any)},
			func(m *Message, _ []any) (any, error) { return m.ReceivedAt(), nil }},
		{"batch_key", "the value of the batcher's key, or nil", []any{new(func() any)}, batchKeyOf},
		{"batch_size", "number of messages in the batch when it left its batcher", []any{new(func() int)},
			ofBatch(func(b *Batch) (any, error) { return b.in.Size, nil })},
		{"batch_trigger", "the trigger of the batch: size, bytes, timeout, flush, end, drain, evicted, pressure or revoke",
			[]any{new(func() string)}, ofBatch(func(b *Batch) (any, error) { return string(b.in.Trigger), nil })},
		{"messages", "the documents of the batch, as a list", []any{new(func() []any)}, ofBatch(documents)},
		{"window", "{start, end, part} of the batch's window, or nil", []any{new(func() any)}, ofBatch(windowOf)},
	} {
		scope := ""
		if slices.Contains(ofBatches, f.name) {
			scope = "batch"
		}
		expr.Register(expr.Func{Name: f.name, Doc: f.doc, Types: f.types, Scope: scope,
			Call: func(src expr.Source, args ...any) (any, error) {
				m, ok := src.(*Message)
				if !ok {
					return nil, fmt.Errorf("%s() needs a message", f.name)
				}
				return f.call(m, args)
			}})
	}
}

// ofBatches are the functions that are only known where a batch has been made: in
// steps of a batcher or an output, and in an output's own fields.
var ofBatches = []string{"batch_key", "batch_size", "batch_trigger", "messages", "window"}

func metaOf(m *Message, args []any) (any, error) {
	if len(args) == 0 {
		return m.Meta.Map(), nil
	}
	v, _ := m.Meta.Get(args[0].(string))
	return v, nil
}

func errorOf(m *Message, _ []any) (any, error) {
	e := m.in.Err
	if e == nil {
		return nil, nil
	}
	return map[string]any{
		"message": e.Error(), "class": string(e.Class), "step": e.Step, "output": e.Output,
		"attempt": e.Attempt, "first_failed_at": e.FirstFailed.UTC(),
	}, nil
}

func batcherName(m *Message, _ []any) (any, error) {
	if m.in.Batch == nil || m.in.Batch.in.From == "" {
		return nil, nil
	}
	return m.in.Batch.in.From, nil
}

func batchKeyOf(m *Message, _ []any) (any, error) {
	if m.in.BatchKey == "" {
		return nil, nil
	}
	return doc.Decode([]byte(m.in.BatchKey))
}

func ofBatch(f func(b *Batch) (any, error)) func(m *Message, _ []any) (any, error) {
	return func(m *Message, _ []any) (any, error) {
		if m.in.Batch == nil {
			return nil,
				fmt.Errorf("there is no batch here: write this under `processors` of a batcher or an output, or in a group")
		}
		return f(m.in.Batch)
	}
}

func windowOf(b *Batch) (any, error) {
	if b.in.Window == nil {
		return nil, nil
	}
	return map[string]any{"start": b.in.Window.Start.UTC(), "end": b.in.Window.End.UTC(), "part": b.in.Window.Part}, nil
}

func documents(b *Batch) (any, error) {
	all := make([]any, 0, len(b.in.Msgs))
	for m := range b.All() {
		v, err := m.Value()
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}
