package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
)

// These functions give expressions access to a message apart from its document.
func init() {
	for _, f := range []struct {
		usage, doc, example string
		types               []any
		call                func(m *Message, args []any) (any, error)
	}{
		{"raw() text", "The payload as text.", `raw() → "{\"id\":7,\"item\":\"tea\"}"`, []any{new(func() string)},
			func(m *Message, _ []any) (any, error) { return string(m.Bytes()), nil }},
		{"size() int", "The payload's length in bytes.", "size() → 21", []any{new(func() int)},
			func(m *Message, _ []any) (any, error) { return m.Size(), nil }},
		{"meta([text]) any", "One metadata value, or nil; without a name all of them.",
			`meta("line") → 1` + "\n" + `keys(meta()) → ["line", "path"]`,
			[]any{new(func() any), new(func(string) any)}, metaOf},
		{"error() object|nil", "{message, class, step, output, attempt, first_failed_at} of a failed message, or nil. An error with a " +
			"traceback has it as detail.",
			"error()?.class → nil", []any{new(func() any)}, errorOf},
		{"vars([text]) any", "One value that a `let` step has kept, or nil; without a name all of them.",
			`vars("price") → 3` + "\n" + `vars() → {price: 3}`, []any{new(func() any), new(func(string) any)}, varsOf},
		{"input() text", "The input that the message came from. In aggregate, that is the batch's first message, also in " +
			"predicates over messages(): a step in front of the batcher can keep it in a field, such as set: {kind: input()}.",
			`input() → "orders"`, []any{new(func() string)},
			func(m *Message, _ []any) (any, error) { return m.Input(), nil }},
		{"batcher() text|nil", "The batcher that took the message, or nil.", `batcher() → "by_item"`,
			[]any{new(func() any)}, batcherName},
		{"attempt() int", "The delivery attempt, from 1.", "attempt() → 1", []any{new(func() int)},
			func(m *Message, _ []any) (any, error) { return max(1, m.Attempt), nil }},
		{"received_at() time", "When the message was read.", "received_at() <= now() → true", []any{new(func() any)},
			func(m *Message, _ []any) (any, error) { return m.ReceivedAt(), nil }},
		{"batch_key() any", "The value of the batcher's key, or nil.", `batch_key() → "tea"`, []any{new(func() any)},
			batchKeyOf},
		{"batch_size() int", "The number of messages in the batch when it left its batcher.", "batch_size() → 2",
			[]any{new(func() int)}, ofBatch(func(b *Batch) (any, error) { return b.in.Size, nil })},
		{"batch_index() int", "The message's position in the batch as it left its batcher, from 0; steps that drop or sort " +
			"messages do not change it.", "batch_index() → 0", []any{new(func() int)}, batchIndexOf},
		{"batch_trigger() text", "What closed the batch: size, bytes, timeout, flush, end, drain, evicted, pressure, " +
			"revoke or key.", `batch_trigger() → "size"`, []any{new(func() string)},
			ofBatch(func(b *Batch) (any, error) { return string(b.in.Trigger), nil })},
		{"messages() list", "The documents of the batch, without metadata. In a predicate, input() and meta() are those of the " +
			"first message: find(messages(), .kind == \"orders\") asks for a field.", "messages()[1].id → 8", []any{new(func() []any)},
			ofBatch(documents)},
		{"window() object|nil", "{start, end, part} of the batch's window, or nil.", "window()?.start → nil",
			[]any{new(func() any)}, ofBatch(windowOf)},
	} {
		name, _, _ := strings.Cut(f.usage, "(")
		scope := ""
		if slices.Contains(ofBatches, name) {
			scope = "batch"
		}
		expr.Register(expr.Func{Name: name, Usage: f.usage, Doc: f.doc, Example: f.example, Types: f.types, Scope: scope,
			Values: name == "vars",
			Call: func(src expr.Source, args ...any) (any, error) {
				m, ok := src.(*Message)
				if !ok {
					return nil, fmt.Errorf("%s() needs a message", name)
				}
				return f.call(m, args)
			}})
	}
}

// ofBatches are the functions that only exist behind a batcher: in steps of a batcher or an output, and in the fields of an
// output.
var ofBatches = []string{"batch_index", "batch_key", "batch_size", "batch_trigger", "messages", "window"}

func metaOf(m *Message, args []any) (any, error) {
	if len(args) == 0 {
		return m.Meta.Map(), nil
	}
	v, _ := m.Meta.Get(args[0].(string))
	return v, nil
}

func varsOf(m *Message, args []any) (any, error) {
	if len(args) == 0 {
		all := maps.Collect(m.Vars().All())
		if all == nil {
			all = map[string]any{}
		}
		return all, nil
	}
	v, _ := m.Vars().Get(args[0].(string))
	return v, nil
}

func errorOf(m *Message, _ []any) (any, error) {
	e := m.in.Err
	if e == nil {
		return nil, nil
	}
	all := map[string]any{
		"message": e.Error(), "class": string(e.Class), "step": e.Step, "output": e.Output,
		"attempt": e.Attempt, "first_failed_at": e.FirstFailed.UTC(),
	}
	if detail := e.DetailText(); detail != "" {
		all["detail"] = detail
	}
	return all, nil
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

func batchIndexOf(m *Message, args []any) (any, error) {
	return ofBatch(func(*Batch) (any, error) { return int(m.in.Index), nil })(m, args)
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
