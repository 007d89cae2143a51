//go:build !no_otel && (!slim || otel)

package tracing

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/traceparent"
)

// parent is the span to which a message belongs, as its traceparent says.
type parent struct {
	trace   trace.TraceID
	span    trace.SpanID
	sampled bool
	ok      bool
	state   string // tracestate
}

// parentOf reads the W3C's headers. A traceparent that is not valid counts as none.
func parentOf(m engine.Meta) (p parent) {
	from, ok := traceparent.Of(m)
	if !ok {
		return p
	}
	p.ok, p.sampled = true, from.Sampled
	_, _ = hex.Decode(p.trace[:], []byte(from.Trace)) // both have these digits only
	_, _ = hex.Decode(p.span[:], []byte(from.Span))
	state, _ := m.Get("tracestate")
	p.state, _ = state.(string)
	return p
}

// headerOf returns the header with which a message belongs to a sampled span.
func headerOf(id trace.TraceID, span trace.SpanID) string {
	b := make([]byte, 0, 55)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, id[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, span[:])
	return string(append(b, "-01"...))
}

func newTrace() (id trace.TraceID) {
	binary.LittleEndian.PutUint64(id[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(id[8:], rand.Uint64()|1) // never zero
	return id
}

func newSpan() (id trace.SpanID) {
	binary.LittleEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}
