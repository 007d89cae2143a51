package otlpdocs

import (
	"strings"
	"sync"

	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// kind is how a value is written in JSON.
type kind uint8

const (
	messageKind kind = iota
	stringKind
	base64Kind
	hexKind   // ids of traces and spans
	boolKind  // from here on, kinds can be packed
	int32Kind // and enumerations
	uint32Kind
	sint32Kind // zigzag
	int64Kind  // a number of 64 bits is a string, since readers of JSON take numbers for floats
	uint64Kind
	doubleKind
)

var kinds = map[protoreflect.Kind]kind{
	protoreflect.MessageKind: messageKind, protoreflect.StringKind: stringKind, protoreflect.BytesKind: base64Kind,
	protoreflect.BoolKind: boolKind, protoreflect.EnumKind: int32Kind, protoreflect.Int32Kind: int32Kind,
	protoreflect.Uint32Kind: uint32Kind, protoreflect.Fixed32Kind: uint32Kind, protoreflect.Sint32Kind: sint32Kind,
	protoreflect.Int64Kind: int64Kind, protoreflect.Sfixed64Kind: int64Kind,
	protoreflect.Uint64Kind: uint64Kind, protoreflect.Fixed64Kind: uint64Kind, protoreflect.DoubleKind: doubleKind,
}

var wires = map[protoreflect.Kind]protowire.Type{
	protoreflect.MessageKind: protowire.BytesType, protoreflect.StringKind: protowire.BytesType,
	protoreflect.BytesKind: protowire.BytesType, protoreflect.Fixed32Kind: protowire.Fixed32Type,
	protoreflect.Sfixed64Kind: protowire.Fixed64Type, protoreflect.Fixed64Kind: protowire.Fixed64Type,
	protoreflect.DoubleKind: protowire.Fixed64Type, // others are varints
}

// field is a field of a message.
type field struct {
	name     string // as it begins in JSON: quoted, with a colon
	kind     kind
	wire     protowire.Type
	repeated bool
	counted  bool   // its elements are what PartialSuccess counts
	traceID  bool   // of a record
	once     uint32 // the bit of a field that a message may have once; those of a oneof share it
	bytes    int    // of an id
	of       *fields
}

// fields are the fields of a message, by number.
type fields [32]*field

// tables are the messages of the signals, from the list of resources on.
var tables = sync.OnceValue(func() [3]*fields {
	known := map[protoreflect.FullName]*fields{}
	return [3]*fields{
		Logs:    fieldsOf((*logs.LogsData)(nil).ProtoReflect().Descriptor(), known),
		Metrics: fieldsOf((*metrics.MetricsData)(nil).ProtoReflect().Descriptor(), known),
		Traces:  fieldsOf((*traces.TracesData)(nil).ProtoReflect().Descriptor(), known),
	}
})

func fieldsOf(m protoreflect.MessageDescriptor, known map[protoreflect.FullName]*fields) *fields {
	if all := known[m.FullName()]; all != nil {
		return all
	}
	all := &fields{}
	known[m.FullName()] = all
	for i := range m.Fields().Len() {
		d := m.Fields().Get(i)
		f := &field{name: `"` + d.JSONName() + `":`, kind: kinds[d.Kind()], repeated: d.IsList(), once: 1 << i, wire: wires[d.Kind()]}
		switch name := string(d.Name()); {
		case name == "trace_id":
			f.kind, f.bytes, f.traceID = hexKind, 16, true
		case strings.HasSuffix(name, "span_id"):
			f.kind, f.bytes = hexKind, 8
		case name == "spans" || name == "log_records" || name == "data_points":
			f.counted = true
		}
		if o := d.ContainingOneof(); o != nil && !o.IsSynthetic() {
			f.once = 1 << o.Fields().Get(0).Index()
		}
		if d.Kind() == protoreflect.MessageKind {
			f.of = fieldsOf(d.Message(), known)
		}
		all[d.Number()] = f
	}
	return all
}
