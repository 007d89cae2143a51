//go:build !no_otel && (!slim || otel)

package tracing

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"

	"github.com/flowd-io/flowd/engine"
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
	v, _ := m.Get("traceparent")
	s, _ := v.(string)
	if len(s) < 55 || s[2] != '-' || s[35] != '-' || s[52] != '-' || s[:2] == "ff" || len(s) > 55 && (s[:2] == "00" || s[55] != '-') {
		return p
	}
	var head, flags [1]byte
	_, err := hex.Decode(head[:], []byte(s[:2]))
	id, errID := trace.TraceIDFromHex(s[3:35])
	span, errSpan := trace.SpanIDFromHex(s[36:52])
	if _, errFlags := hex.Decode(flags[:], []byte(s[53:55])); err != nil || errID != nil || errSpan != nil || errFlags != nil {
		return p
	}
	state, _ := m.Get("tracestate")
	p = parent{trace: id, span: span, sampled: flags[0]&1 == 1, ok: true}
	p.state, _ = state.(string)
	return p
}

// traceparent returns the header with which a message belongs to a sampled span.
func traceparent(id trace.TraceID, span trace.SpanID) string {
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
