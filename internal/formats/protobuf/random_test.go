package protobuf

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/flowd-io/flowd/engine/doc"
)

// everything has each kind of field.
const everything = `syntax = "proto3";
package t;
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/empty.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message All {
  bool a_bool = 1; int32 an_int32 = 2; sint32 a_sint32 = 3; uint32 a_uint32 = 4;
  int64 an_int64 = 5; sint64 a_sint64 = 6; uint64 a_uint64 = 7;
  fixed32 a_fixed32 = 8; sfixed32 a_sfixed32 = 9; fixed64 a_fixed64 = 10; sfixed64 a_sfixed64 = 11;
  float a_float = 12; double a_double = 13; string a_string = 14; bytes some_bytes = 15; Suit a_suit = 16;
  optional int32 maybe = 17;
  All inner = 300;
  repeated int64 packed = 18; repeated sint32 loose = 19 [packed = false]; repeated string texts = 20; repeated All inners = 21;
  repeated Suit suits = 22; repeated double doubles = 23;
  map<string, int64> by_text = 24; map<int32, All> by_int = 25; map<bool, bytes> by_bool = 26; map<uint64, Suit> by_uint64 = 27;
  oneof either { string text = 28; int64 number = 29; All message = 30; google.protobuf.NullValue nothing = 31; }
  google.protobuf.Any any = 40; google.protobuf.Timestamp at = 41; google.protobuf.Duration took = 42;
  google.protobuf.Struct object = 43; google.protobuf.Value value = 44; google.protobuf.ListValue items = 45;
  google.protobuf.FieldMask mask = 46; google.protobuf.Empty empty = 47;
  google.protobuf.Int64Value long = 48; google.protobuf.UInt64Value ulong = 49; google.protobuf.DoubleValue real = 50;
  google.protobuf.StringValue str = 51; google.protobuf.BytesValue blob = 52; google.protobuf.BoolValue flag = 53;
  google.protobuf.Int32Value int = 54; google.protobuf.UInt32Value uint = 55; google.protobuf.FloatValue single = 56;
  map<string, google.protobuf.Value> values = 57; repeated google.protobuf.Timestamp times = 58;
  repeated google.protobuf.Value list = 59;
}
enum Suit { SPADES = 0; HEARTS = 1; CLUBS = -5; }
`

// old has what only proto2 has.
const old = `syntax = "proto2";
package t;
message Old {
  required int32 id = 1; optional string note = 2 [default = "none"]; optional group Part = 3 { optional int64 n = 1; }
  repeated group Parts = 4 { optional string s = 1; }
  repeated int32 packed = 5 [packed = true]; repeated int32 loose = 6; optional Suit suit = 7 [default = HEARTS];
  extensions 100 to 200;
}
extend Old { optional int64 extra = 100; repeated Old olds = 101; }
enum Suit { SPADES = 0; HEARTS = 1; }
`

// new has what editions can say.
const edition = `edition = "2023";
package t;
message New {
  int32 explicit = 1; int32 implicit = 2 [features.field_presence = IMPLICIT];
  int32 required = 3 [features.field_presence = LEGACY_REQUIRED];
  New delimited = 4 [features.message_encoding = DELIMITED]; repeated int32 packed = 5;
  repeated int32 expanded = 6 [features.repeated_field_encoding = EXPANDED];
}
`

// random fills messages.
type random struct{ *rand.Rand }

func (r random) message(m protoreflect.Message, depth int) {
	switch name := m.Descriptor().FullName(); name {
	case "google.protobuf.Timestamp":
		r.set(m, "seconds", protoreflect.ValueOfInt64(firstSecond+r.Int64N(lastSecond-firstSecond)))
		r.set(m, "nanos", protoreflect.ValueOfInt32(r.nanos()))
		return
	case "google.protobuf.Duration":
		sign := 1 - 2*r.Int64N(2)
		r.set(m, "seconds", protoreflect.ValueOfInt64(sign*r.Int64N(mostSeconds>>r.IntN(30))))
		r.set(m, "nanos", protoreflect.ValueOfInt32(int32(sign)*r.nanos()))
		return
	case "google.protobuf.FieldMask":
		list := m.Mutable(m.Descriptor().Fields().ByName("paths")).List()
		for range r.IntN(3) {
			list.Append(protoreflect.ValueOfString([]string{"a", "a_b.c", "long_name.d1"}[r.IntN(3)]))
		}
		return
	case "google.protobuf.Any":
		if r.IntN(4) > 0 {
			names := []string{"t.All", "google.protobuf.Duration", "google.protobuf.Value"}
			d, _ := known.FindDescriptorByName(protoreflect.FullName(names[r.IntN(3)]))
			inner := dynamicpb.NewMessage(d.(protoreflect.MessageDescriptor))
			r.message(inner, depth-2)
			b, _ := proto.Marshal(inner.Interface())
			r.set(m, "type_url", protoreflect.ValueOfString("type.googleapis.com/"+string(inner.Descriptor().FullName())))
			r.set(m, "value", protoreflect.ValueOfBytes(b))
		}
		return
	case "google.protobuf.Value":
		fields := m.Descriptor().Fields()
		f := fields.Get(r.IntN(4))
		if depth > 0 {
			f = fields.Get(r.IntN(fields.Len()))
		}
		switch {
		case f.Name() == "number_value":
			m.Set(f, protoreflect.ValueOfFloat64(r.NormFloat64()))
		case f.Message() != nil:
			r.message(m.Mutable(f).Message(), depth-1)
		default:
			m.Set(f, r.scalar(f))
		}
		return
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		nested := f.Message() != nil && !f.IsMap()
		if r.IntN(3) > 0 || depth <= 0 && nested {
			if f.Cardinality() != protoreflect.Required {
				continue
			}
		}
		switch {
		case f.IsMap():
			value := f.MapValue()
			if value.Message() != nil && depth <= 0 {
				continue
			}
			for range r.IntN(20) {
				of := m.Mutable(f).Map().NewValue()
				if value.Message() != nil {
					r.message(of.Message(), depth-2)
				} else {
					of = r.scalar(value)
				}
				m.Mutable(f).Map().Set(r.scalar(f.MapKey()).MapKey(), of)
			}
		case f.IsList():
			for range r.IntN(4) {
				if nested {
					r.message(m.Mutable(f).List().AppendMutable().Message(), depth-2)
				} else {
					m.Mutable(f).List().Append(r.scalar(f))
				}
			}
		case nested:
			r.message(m.Mutable(f).Message(), depth-1)
		default:
			m.Set(f, r.scalar(f))
		}
	}
}

func (r random) set(m protoreflect.Message, name protoreflect.Name, v protoreflect.Value) {
	m.Set(m.Descriptor().Fields().ByName(name), v)
}

func (r random) nanos() int32 { return []int32{0, 1, 1_000, 500_000_000, 123_456_789}[r.IntN(5)] }

func (r random) scalar(f protoreflect.FieldDescriptor) protoreflect.Value {
	bits := r.Uint64() >> r.IntN(64)
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(bits&1 > 0)
	case protoreflect.EnumKind:
		values := f.Enum().Values()
		if f.Enum().FullName() != "google.protobuf.NullValue" && r.IntN(5) == 0 {
			return protoreflect.ValueOfEnum(77) // without a name
		}
		return protoreflect.ValueOfEnum(values.Get(r.IntN(values.Len())).Number())
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(bits))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(bits))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(int64(bits))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(bits)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32([]float32{float32(r.NormFloat64()), float32(math.Inf(-1)), 0}[r.IntN(3)])
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64([]float64{r.NormFloat64() * 1e200, math.Inf(1), math.Copysign(0, -1)}[r.IntN(3)])
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{byte(bits), 0xff, byte(bits >> 8)}[:r.IntN(4)])
	}
	return protoreflect.ValueOfString([]string{"", "x", "é\n\"<", "\u2028\x00"}[r.IntN(4)] + strings.Repeat("a", int(bits%200)))
}

// known has the types of the schemas for the other implementation.
var known = new(protoregistry.Files)

type resolver struct {
	*dynamicpb.Types
}

// TestItSaysWhatTheOtherImplementationSays writes and reads random messages, and compares
// with Google's.
func TestItSaysWhatTheOtherImplementationSays(t *testing.T) {
	for _, s := range []struct{ schema, message string }{{everything, "t.All"}, {old, "t.Old"}, {edition, "t.New"}} {
		known = new(protoregistry.Files)
		for _, f := range mustFiles(t, s.schema) {
			if err := known.RegisterFile(f); err != nil {
				t.Fatal(err)
			}
		}
		types := resolver{dynamicpb.NewTypes(known)}
		d, err := known.FindDescriptorByName(protoreflect.FullName(s.message))
		if err != nil {
			t.Fatal(err)
		}
		var programs [4]*Program
		for i := range programs {
			programs[i] = program(t, s.schema, s.message, Options{Defaults: i&1 > 0, JSONNames: i&2 > 0})
		}
		for seed := range uint64(40) {
			r := random{rand.New(rand.NewPCG(seed, 0))}
			m := dynamicpb.NewMessage(d.(protoreflect.MessageDescriptor))
			r.message(m, 3)
			if extra, err := types.FindExtensionByName("t.extra"); err == nil && s.message == "t.Old" && seed%2 == 0 {
				m.Set(extra.TypeDescriptor(), protoreflect.ValueOfInt64(int64(seed)<<50))
			}
			p := programs[seed%4]
			wire, err := proto.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := protojson.MarshalOptions{UseProtoNames: seed%5 == 0, Resolver: types}.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			same := func(what string, wire []byte) {
				t.Helper()
				got := dynamicpb.NewMessage(d.(protoreflect.MessageDescriptor))
				if err := (proto.UnmarshalOptions{Resolver: types}).Unmarshal(wire, got); err != nil || !proto.Equal(unpacked(m, types), unpacked(got,
					types)) {
					t.Fatalf("seed %d, %s: %v\n%s\n%v\n%v", seed, what, err, theirs, m, got)
				}
			}
			shown, err := p.Decode(nil, shuffled(r, wire))
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, theirs)
			}
			var v doc.Doc
			if v.Reset(shown, nil); v.Valid() != nil {
				t.Fatalf("seed %d: %v: %s", seed, v.Valid(), shown)
			}
			read := dynamicpb.NewMessage(d.(protoreflect.MessageDescriptor))
			if err := (protojson.UnmarshalOptions{Resolver: types}).Unmarshal(shown, read); err != nil {
				t.Fatalf("seed %d: %v\n%s\n%s", seed, err, shown, theirs)
			}
			wire, _ = proto.Marshal(read)
			same("as they read it", wire)
			if wire, err = p.Encode(nil, shown); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, shown)
			}
			same("written again", wire)
			if wire, err = p.Encode(nil, theirs); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, theirs)
			}
			same("as they show it", wire)
		}
	}
}

// unpacked has each Any written the same way, as the order of their maps is not the same.
func unpacked(m proto.Message, types resolver) proto.Message {
	m = proto.Clone(m)
	var walk func(m protoreflect.Message)
	walk = func(m protoreflect.Message) {
		if m.Descriptor().FullName() == "google.protobuf.Any" {
			url, of := m.Descriptor().Fields().Get(0), m.Descriptor().Fields().Get(1)
			if kind, err := types.FindMessageByURL(m.Get(url).String()); err == nil {
				inner := kind.New()
				_ = proto.Unmarshal(m.Get(of).Bytes(), inner.Interface())
				walk(inner)
				b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(inner.Interface())
				m.Set(of, protoreflect.ValueOfBytes(b))
			}
			return
		}
		m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			switch {
			case f.IsMap() && f.MapValue().Message() != nil:
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { walk(v.Message()); return true })
			case f.IsList() && f.Message() != nil:
				for i := range v.List().Len() {
					walk(v.List().Get(i).Message())
				}
			case f.Message() != nil && !f.IsMap():
				walk(v.Message())
			}
			return true
		})
	}
	walk(m.ProtoReflect())
	return m
}

// shuffled has the fields of a message in another order, those of one number aside, and
// some that no schema has.
func shuffled(r random, wire []byte) []byte {
	var parts [][]byte
	for b := wire; len(b) > 0; {
		_, _, n := protowire.ConsumeField(b)
		parts, b = append(parts, b[:n]), b[n:]
	}
	number := func(b []byte) protowire.Number { n, _, _ := protowire.ConsumeTag(b); return n }
	out := protowire.AppendVarint(protowire.AppendTag(nil, 9999, protowire.VarintType), 7)
	for len(parts) > 0 {
		i := r.IntN(len(parts))
		for j := range i {
			if number(parts[j]) == number(parts[i]) {
				i = j
				break
			}
		}
		out = append(out, parts[i]...)
		parts = append(parts[:i:i], parts[i+1:]...)
	}
	return out
}

func mustFiles(t testing.TB, schema string) []protoreflect.FileDescriptor {
	t.Helper()
	files, err := compile("t.proto", "t.proto", schema, func(string) (string, string, error) { t.Fatal("no imports"); return "", "", nil },
		false)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func program(t testing.TB, schema, message string, o Options) *Program {
	t.Helper()
	files := mustFiles(t, schema)
	p, err := newTypes(files[0], files, o).Program(message)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
