//go:build !no_otel && (!slim || otel)

package tracing

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"

	"github.com/flowd-io/flowd/engine"
)

const (
	mostSpans = 128 // of a message, and links of a span
	mostText  = 1024
)

// message is a message that is followed. Its parts and copies are in the same trace.
type message struct {
	handle engine.Trace
	ids
	parent trace.SpanID // zero: the trace begins here
	state  string       // tracestate
	spot   *engine.Spot
	read   time.Time
	attrs  []*commonpb.KeyValue

	mu      sync.Mutex // guards the fields below; several pieces of a message may be under way
	calls   []called
	left    int       // calls that are not kept
	entered time.Time // a batcher
	batches []*group  // that it was in, at most one per batcher
	over    bool      // no more is noted
	ended   time.Time
	fate    engine.Fate
	failure *failure // nil: none
}

// ids identify a span.
type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

// failure is an error, without its data unless that is wanted.
type failure struct {
	class engine.Class
	text  string
}

// called is a call that has got a message, or that a message has failed in.
type called struct {
	span, parent trace.SpanID
	spot         *engine.Spot
	how          engine.Passage
	began, ended int64 // unix nanoseconds
	failure      *failure
	part         int
	group        *group // the write of several messages that it is part of; nil: it had this one alone
	batch        *group // that the message is in, if it was written alone
	merged       []ids  // other messages that are merged with this one
}

// group is a batch, or a write of several messages. It is a span with links to its messages.
type group struct {
	ids
	parent       trace.SpanID // zero: it begins a trace
	spot         *engine.Spot
	began, ended time.Time
	links        []ids
	left         int // messages without a link
	size         int // messages, followed or not
	trigger      engine.Trigger
	failed       int // of the messages that are followed
	failure      *failure
}

// begin makes the trace of m.
func (t *Tracer) begin(at *engine.Spot, m *engine.Message, p parent) *message {
	f := &message{ids: ids{p.trace, newSpan()}, parent: p.span, state: p.state, spot: at, read: m.ReceivedAt(), calls: make([]called, 0, 4)}
	f.handle.Of = f
	if !p.ok {
		f.trace = newTrace()
	}
	f.attrs = t.attributes(at, m)
	return f
}

// mark makes the message's span the parent of whatever happens to m elsewhere.
func (f *message) mark(at *engine.Spot, m *engine.Message) {
	if !at.Untraced {
		m.Meta = m.Meta.With("traceparent", headerOf(f.trace, f.span))
	}
}

// of returns the message that is followed as m. Of a merge, it returns the first message that is followed, and the ids of the others.
func of(m *engine.Message) (f *message, merged []ids) {
	var room [8]engine.Origin
	for _, o := range m.Origins(room[:0]) {
		switch t := o.Trace(); {
		case t == nil:
		case f == nil:
			f = t.Of.(*message)
		case t.Of != f && len(merged) < mostSpans:
			merged = append(merged, t.Of.(*message).ids)
		}
	}
	return f, merged
}

// call is a call under way.
type call struct {
	began time.Time
	spans []trace.SpanID // of the messages that it follows, in order
	of    []*message
	next  int
	group *group // of a write of several messages; else nil
	batch *group // from which one message is written; else nil
	outer *call  // of the step that runs this one
}

type callKey struct{}

// Call begins the spans of a call.
func (t *Tracer) Call(
	ctx context.Context, at *engine.Spot, b *engine.Batch, n int, traced []*engine.Message,
) (context.Context, any) {
	c := &call{began: time.Now(), spans: make([]trace.SpanID, len(traced)), of: make([]*message, len(traced))}
	c.outer, _ = ctx.Value(callKey{}).(*call)
	for i, m := range traced {
		c.spans[i] = newSpan()
		c.of[i], _ = of(m)
	}
	first := c.of[0]
	here := ids{first.trace, c.spans[0]}
	if at.Kind == engine.OutputSpot {
		c.batch = first.batch(b.Batcher())
	}
	if at.Kind == engine.OutputSpot && n > 1 {
		c.group = &group{ids: ids{newTrace(), newSpan()}, spot: at, began: c.began, size: n}
		if c.batch != nil {
			c.group.trace, c.group.parent, c.batch = c.batch.trace, c.batch.span, nil
		}
		c.group.link(c.of)
		here = c.group.ids
	}
	ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: here.trace, SpanID: here.span,
		TraceFlags: trace.FlagsSampled}))
	return context.WithValue(ctx, callKey{}, c), c
}

// spanOf returns the span of a message in the call, or in a call around it; zero: there is none.
func (c *call) spanOf(f *message) trace.SpanID {
	for ; c != nil; c = c.outer {
		for i, is := range c.of {
			if is == f {
				return c.spans[i]
			}
		}
	}
	return trace.SpanID{}
}

// batch returns the batch of a batcher that the message was in, or nil.
func (f *message) batch(batcher string) *group {
	if batcher == "" {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.batches {
		if g.spot.Name == batcher {
			return g
		}
	}
	return nil
}

// link adds links to messages.
func (g *group) link(of []*message) {
	n := min(len(of), mostSpans)
	for _, f := range of[:n] {
		g.links = append(g.links, f.ids)
	}
	g.left = len(of) - n
}

// Called ends the span of a message in a call.
func (t *Tracer) Called(noted any, at *engine.Spot, m *engine.Message, how engine.Passage) {
	c := noted.(*call)
	i := c.next
	c.next++
	f, merged := of(m)
	now := time.Now()
	x := called{span: c.spans[i], parent: c.outer.spanOf(f), spot: at, how: how, began: c.began.UnixNano(), ended: now.UnixNano(),
		part: m.Part(), merged: merged, group: c.group, batch: c.batch}
	if how == engine.FailedThere {
		x.failure = t.failure(m.Err())
	}
	f.add(x)
	if g := c.group; g != nil {
		if how == engine.FailedThere {
			g.failed, g.failure = g.failed+1, x.failure
		}
		if c.next == len(c.spans) {
			g.ended = now
			t.queue.put(g)
		}
	}
}

// Resumed notes that a call in which a message began to wait is over.
func (t *Tracer) Resumed(at *engine.Spot, m *engine.Message, how engine.Passage) {
	f, _ := of(m)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.calls {
		if c := &f.calls[i]; c.spot == at && c.how == engine.IsWaiting && c.part == m.Part() && !f.over {
			if c.how, c.ended = how, time.Now().UnixNano(); how == engine.FailedThere {
				c.failure = t.failure(m.Err())
			}
			return
		}
	}
}

// add notes a call, unless the message has ended: a call that was abandoned may end later.
func (f *message) add(x called) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.over:
	case len(f.calls) == mostSpans:
		f.left++
	default:
		f.calls = append(f.calls, x)
	}
}

// failure is what spans have of an error.
func (t *Tracer) failure(err *engine.Error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{class: err.Class}
	if t.ErrorTexts {
		f.text = cut(err.Error())
	}
	return f
}

func cut(s string) string {
	if len(s) > mostText {
		return s[:mostText] + "…"
	}
	return s
}

// Passed notes when a message enters a batcher, and where it fails without a call that has returned.
func (t *Tracer) Passed(at *engine.Spot, m *engine.Message, how engine.Passage, began time.Time) {
	f, merged := of(m)
	switch {
	case how == engine.FailedThere:
		t.failed(f, merged, at, m, began)
	case at.Kind == engine.BatcherSpot:
		f.mu.Lock()
		f.entered = time.Now()
		f.mu.Unlock()
	}
}

// failed notes a failure.
func (t *Tracer) failed(f *message, merged []ids, at *engine.Spot, m *engine.Message, began time.Time) {
	now := time.Now()
	if began.IsZero() {
		began = now
	}
	f.add(called{span: newSpan(), spot: at, how: engine.FailedThere, began: began.UnixNano(), ended: now.UnixNano(),
		failure: t.failure(m.Err()), part: m.Part(), merged: merged})
}

// Batched makes the span of a batch.
func (t *Tracer) Batched(at *engine.Spot, b *engine.Batch, traced []*engine.Message) {
	g := &group{ids: ids{newTrace(), newSpan()}, spot: at, ended: time.Now(), size: b.Len(), trigger: b.Trigger()}
	g.began = g.ended
	all := make([]*message, 0, len(traced))
	for _, m := range traced {
		f, _ := of(m)
		all = append(all, f)
		f.mu.Lock()
		if f.entered.Before(g.began) && !f.entered.IsZero() {
			g.began = f.entered
		}
		f.join(g)
		f.mu.Unlock()
	}
	g.link(all)
	t.queue.put(g)
}

// join notes that the message is in a batch. f.mu is held.
func (f *message) join(g *group) {
	for i, was := range f.batches {
		if was.spot == g.spot {
			f.batches[i] = g
			return
		}
	}
	f.batches = append(f.batches, g)
}

// Failed begins to follow a message that has failed.
func (t *Tracer) Failed(at *engine.Spot, m *engine.Message, began time.Time) {
	if !t.Options.Failed || t.queue.full() {
		return
	}
	var room [8]engine.Origin
	for _, o := range m.Origins(room[:0]) {
		o.SetTrace(&t.begin(t.inputOf(at.Pipeline, o), m, parentOf(m.Meta)).handle)
	}
	f, merged := of(m)
	if f == nil { // it was read in another process
		return
	}
	f.mark(at, m)
	t.failed(f, merged, at, m, began)
}

// Ended sends the spans of a message.
func (t *Tracer) Ended(noted *engine.Trace, fate engine.Fate, err *engine.Error) {
	f := noted.Of.(*message)
	f.mu.Lock()
	if f.over {
		f.mu.Unlock()
		return
	}
	f.over, f.ended, f.fate, f.failure = true, time.Now(), fate, t.failure(err)
	f.mu.Unlock()
	t.queue.put(f)
}

// Late sends the span of a message that has taken long.
func (t *Tracer) Late(pipeline string, m *engine.Message, fate engine.Fate, err *engine.Error) {
	if t.queue.full() {
		return
	}
	f := t.begin(t.inputOf(pipeline, originOf(m)), m, parentOf(m.Meta))
	t.Ended(&f.handle, fate, err)
}
