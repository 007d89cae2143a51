// Package otlpdocs turns requests of OpenTelemetry's protocol (OTLP) into documents and back. [Split] makes one document of each
// record of a request, in the JSON shape of OTLP. [Encode] and [Merge] are the way back. Requests are in protobuf form,
// which is walked field by field without building a tree of it.
package otlpdocs

import (
	"bytes"
	"fmt"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

// Signal is what OTLP carries.
type Signal uint8

// The signals.
const (
	Logs Signal = iota
	Metrics
	Traces
)

// All are the signals by name.
var All = []Signal{Logs, Metrics, Traces}

// names are the names that the signals have in OTLP.
var names = [...]struct {
	name     string
	list     string // of resources, in a document
	method   string // of gRPC
	rejected string // count of a partial success, in JSON
	units    string // what that counts
}{
	Logs: {"logs", "resourceLogs", "/opentelemetry.proto.collector.logs.v1.LogsService/Export", "rejectedLogRecords", "log records"},
	Metrics: {"metrics", "resourceMetrics", "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", "rejectedDataPoints",
		"data points"},
	Traces: {"traces", "resourceSpans", "/opentelemetry.proto.collector.trace.v1.TraceService/Export", "rejectedSpans", "spans"},
}

// String is the name of the signal, such as logs.
func (s Signal) String() string { return names[s].name }

// Path is the path of its requests over HTTP.
func (s Signal) Path() string { return "/v1/" + names[s].name }

// Method is the path of its requests over gRPC.
func (s Signal) Method() string { return names[s].method }

// Units are what [PartialSuccess] counts.
func (s Signal) Units() string { return names[s].units }

// message is the part of pdata's requests that is used here.
type message interface {
	UnmarshalProto([]byte) error
	UnmarshalJSON([]byte) error
	MarshalProto() ([]byte, error)
}

func newMessage(s Signal) message {
	switch s {
	case Logs:
		return plogotlp.NewExportRequest()
	case Metrics:
		return pmetricotlp.NewExportRequest()
	default:
		return ptraceotlp.NewExportRequest()
	}
}

// DecodeJSON returns the protobuf form of a request in JSON form.
func DecodeJSON(s Signal, text []byte) ([]byte, error) {
	if err := codec.Valid(text); err != nil { // also bounds its depth
		return nil, err
	}
	return decode(s, text)
}

// decode is DecodeJSON for text that is JSON.
func decode(s Signal, text []byte) ([]byte, error) {
	m := newMessage(s)
	if err := m.UnmarshalJSON(text); err != nil {
		return nil, engine.Errorf(engine.Decode, "not %s in OTLP's JSON form: %w", s, err)
	}
	return m.MarshalProto()
}

// signalOf returns the signal of a JSON document.
func signalOf(text []byte) (Signal, error) {
	var found []Signal
	if text = bytes.TrimLeft(text, " \t\r\n"); text[0] != '{' {
		text = []byte("{}")
	}
	for key := range doc.Members(text) {
		for _, s := range All {
			if key == names[s].list {
				found = append(found, s)
			}
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	what := "has none"
	if len(found) > 1 {
		what = "has several"
	}
	return 0, engine.Errorf(engine.Decode, "a document of OTLP has one of resourceLogs, resourceMetrics and resourceSpans; "+
		"this one %s (make that shape with a map step; flowd docs otlp shows it)", what)
}

// canonical returns a request with its fields in order and each field once, which any encoder writes in practice.
func canonical(s Signal, request []byte) ([]byte, error) {
	m := newMessage(s)
	if err := m.UnmarshalProto(request); err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	return m.MarshalProto()
}
