//go:build !no_otel && (!slim || otel)

package tracing

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/flowd-io/flowd/engine"
)

// scope is the name of what makes the spans.
var scope = &commonpb.InstrumentationScope{Name: "github.com/flowd-io/flowd"}

// sampled are the flags of a span that is sent.
const sampled = uint32(trace.FlagsSampled)

// count is how many spans a message has.
func (f *message) count() int { return 1 + len(f.calls) }

// spans makes the spans of a message: from its input to its end, and of each call.
func (f *message) spans(dst []*tracepb.Span, known places) []*tracepb.Span {
	s := &tracepb.Span{TraceId: f.trace[:], SpanId: f.span[:], TraceState: f.state, Flags: sampled, Name: known.of(f.spot).name,
		Kind: known.of(f.spot).kind, StartTimeUnixNano: nanos(f.read), EndTimeUnixNano: nanos(f.ended),
		Attributes: append(known.of(f.spot).attributes, f.attrs...)}
	if f.parent.IsValid() {
		s.ParentSpanId = f.parent[:]
	}
	s.Attributes = append(s.Attributes, fates[f.fate])
	if f.left > 0 {
		s.Attributes = append(s.Attributes, number64("flowd.calls_left_out", f.left))
	}
	if f.fate >= engine.DeadLettered {
		s.Status = status(f.failure)
		s.Attributes = append(s.Attributes, errorType(f.failure))
	}
	dst = append(dst, s)
	for i := range f.calls {
		dst = append(dst, f.calls[i].asSpan(f, known.of(f.calls[i].spot)))
	}
	return dst
}

// asSpan makes the span of a message in a call.
func (c *called) asSpan(f *message, at place) *tracepb.Span {
	s := &tracepb.Span{TraceId: f.trace[:], SpanId: c.span[:], TraceState: f.state, Flags: sampled, ParentSpanId: f.span[:],
		Name: at.name, Kind: at.kind, StartTimeUnixNano: uint64(c.began), EndTimeUnixNano: uint64(c.ended),
		Attributes: at.attributes}
	if c.how != engine.PassedOn && c.how != engine.WrittenThere {
		s.Attributes = append(s.Attributes, passages[c.how])
	}
	if c.parent.IsValid() {
		s.ParentSpanId = c.parent[:]
	}
	if c.group != nil {
		s.Kind = tracepb.Span_SPAN_KIND_INTERNAL // the group's is the write
		s.Links = append(s.Links, c.group.asLink())
	}
	if c.batch != nil {
		s.Links = append(s.Links, c.batch.asLink())
	}
	for _, other := range c.merged {
		s.Links = append(s.Links, other.asLink())
	}
	if c.part > 0 {
		s.Attributes = append(s.Attributes, number64("flowd.part", c.part))
	}
	if c.how == engine.FailedThere {
		s.Status = status(c.failure)
		s.Attributes = append(s.Attributes, errorType(c.failure))
		s.Events = append(s.Events, exception(c.failure, uint64(c.ended)))
	}
	return s
}

// count is how many spans a batch or a write has.
func (g *group) count() int { return 1 }

// spans makes the span of a batch, or of a write of several messages.
func (g *group) spans(dst []*tracepb.Span, known places) []*tracepb.Span {
	at := known.of(g.spot)
	s := &tracepb.Span{TraceId: g.trace[:], SpanId: g.span[:], Flags: sampled, Name: at.name, Kind: at.kind,
		StartTimeUnixNano: nanos(g.began), EndTimeUnixNano: nanos(g.ended), DroppedLinksCount: uint32(g.left)}
	if g.parent.IsValid() {
		s.ParentSpanId = g.parent[:]
	}
	for _, x := range g.links {
		s.Links = append(s.Links, x.asLink())
	}
	s.Attributes = append(at.attributes, number64("messaging.batch.message_count", g.size))
	if g.trigger != "" {
		s.Attributes = append(s.Attributes, text("flowd.trigger", string(g.trigger)))
	}
	if g.failed > 0 {
		s.Status = status(g.failure)
		s.Attributes = append(s.Attributes, errorType(g.failure), number64("flowd.failed_messages", g.failed))
		s.Events = append(s.Events, exception(g.failure, nanos(g.ended)))
	}
	return append(dst, s)
}

func (x *ids) asLink() *tracepb.Span_Link {
	return &tracepb.Span_Link{TraceId: x.trace[:], SpanId: x.span[:], Flags: sampled}
}

func status(f *failure) *tracepb.Status {
	s := &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
	if f != nil {
		s.Message = f.text
	}
	return s
}

func errorType(f *failure) *commonpb.KeyValue {
	if f == nil || f.class == "" {
		return text("error.type", "_OTHER")
	}
	return text("error.type", string(f.class))
}

func exception(f *failure, at uint64) *tracepb.Span_Event {
	e := &tracepb.Span_Event{Name: "exception", TimeUnixNano: at}
	if f == nil {
		return e
	}
	e.Attributes = append(e.Attributes, text("exception.type", string(f.class)))
	if f.text != "" {
		e.Attributes = append(e.Attributes, text("exception.message", f.text))
	}
	return e
}

// messaging are the types of components that are messaging systems, with their names in OpenTelemetry's conventions.
var messaging = map[string]string{"kafka": "kafka", "rabbitmq": "rabbitmq", "sqs": "aws_sqs", "sns": "aws.sns", "nats": "nats",
	"mqtt": "mqtt", "redis_stream": "redis", "redis_list": "redis", "redis_pubsub": "redis"}

// place is what all spans at a spot have in common.
type place struct {
	name       string
	kind       tracepb.Span_SpanKind
	attributes []*commonpb.KeyValue // full: append copies it
}

// places are the places of spots. One goroutine uses them.
type places map[*engine.Spot]place

// mostPlaces bounds the places that are known: a reload makes new spots.
const mostPlaces = 10_000

func (p places) of(at *engine.Spot) place {
	known, ok := p[at]
	if !ok {
		if len(p) >= mostPlaces {
			clear(p)
		}
		known = placeOf(at)
		p[at] = known
	}
	return known
}

func placeOf(at *engine.Spot) place {
	p := place{kind: tracepb.Span_SPAN_KIND_INTERNAL, name: string(at.Kind) + " " + at.Name}
	all := []*commonpb.KeyValue{text("flowd.type", at.Type)}
	if at.Kind != engine.StepSpot { // a step's span is inside that of a message
		all = append(all, text("flowd.pipeline", at.Pipeline))
	}
	if at.Of != "" {
		all = append(all, text("flowd.of", at.Of))
	}
	system, verb := messaging[at.Type], ""
	switch at.Kind {
	case engine.InputSpot:
		verb = "process"
		switch {
		case system != "":
			p.kind = tracepb.Span_SPAN_KIND_CONSUMER
		case at.Type == "http_server" || at.Type == "otlp":
			p.kind = tracepb.Span_SPAN_KIND_SERVER
		}
	case engine.OutputSpot:
		verb, p.kind = "send", tracepb.Span_SPAN_KIND_CLIENT
		if system != "" {
			p.kind = tracepb.Span_SPAN_KIND_PRODUCER
		}
	}
	if verb != "" {
		p.name = verb + " " + at.Name
		if system != "" {
			all = append(all, text("messaging.system", system), text("messaging.operation.type", verb), text("messaging.operation.name", verb))
		}
	}
	p.attributes = slices.Clip(all)
	return p
}

// fates and passages are attributes.
var (
	fates = func() (all [engine.Returned + 1]*commonpb.KeyValue) {
		for f := range all {
			all[f] = text("flowd.fate", engine.Fate(f).String())
		}
		return all
	}()
	passages = func() map[engine.Passage]*commonpb.KeyValue {
		all := map[engine.Passage]*commonpb.KeyValue{}
		for _, p := range []engine.Passage{engine.FilteredOut, engine.SplitUp, engine.MergedInto, engine.IsWaiting,
			engine.FailedThere} {
			all[p] = text("flowd.passage", string(p))
		}
		return all
	}()
)

// known are the names of an input's own metadata that conventions have attributes for.
var known = []struct{ meta, attribute string }{
	{"topic", "messaging.destination.name"}, {"queue", "messaging.destination.name"}, {"subject", "messaging.destination.name"},
	{"stream", "messaging.destination.name"}, {"channel", "messaging.destination.name"},
	{"partition", "messaging.destination.partition.id"}, {"message_id", "messaging.message.id"},
}

// attributes are those of a message's span that differ between messages.
func (t *Tracer) attributes(at *engine.Spot, m *engine.Message) (all []*commonpb.KeyValue) {
	if messaging[at.Type] != "" {
		for _, k := range known {
			if v, ok := m.Meta.Get(k.meta); ok && v != nil {
				all = append(all, text(k.attribute, fmt.Sprint(v)))
			}
		}
	}
	if m.Attempt > 1 {
		all = append(all, number64("flowd.delivery_attempt", m.Attempt))
	}
	for _, a := range t.Attributes {
		if v, err := a.Value.Eval(m); err == nil && v != nil {
			all = append(all, &commonpb.KeyValue{Key: a.Name, Value: valueOf(v)})
		}
	}
	return all
}

func text(name, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: name, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
}

func number64(name string, n int) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: name, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: int64(n)}}}
}

// valueOf is the value of an expression as an attribute. Lists and objects become JSON.
func valueOf(v any) *commonpb.AnyValue {
	switch v := v.(type) {
	case bool:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v}}
	case int:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: int64(v)}}
	case float64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v}}
	case string:
		return text("", cut(v)).Value
	case time.Time:
		return text("", v.Format(time.RFC3339Nano)).Value
	}
	b, err := json.Marshal(v)
	if err != nil {
		return text("", cut(fmt.Sprint(v))).Value
	}
	return text("", cut(string(b))).Value
}

// keyValues converts attributes of the SDK.
func keyValues(all []attribute.KeyValue) (pb []*commonpb.KeyValue) {
	for _, a := range all {
		pb = append(pb, &commonpb.KeyValue{Key: string(a.Key), Value: valueOf(a.Value.AsInterface())})
	}
	return pb
}

func nanos(t time.Time) uint64 { return uint64(t.UnixNano()) }
