package protobuf

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/flowd-io/flowd/engine/doc"
)

// Program is a compiled message. It is a codec, safe for concurrent use.
type Program struct {
	types      *Types
	root       *message
	descriptor protoreflect.MessageDescriptor
}

// Message returns the full name of the message.
func (p *Program) Message() string { return p.root.name }

// message is one type of message. It is immutable once compiled.
type message struct {
	name    string
	special special
	fields  []field        // in the order of the schema, followed by extensions
	written []int          // fields by number
	index   map[string]int // of field names of both forms
	low     []int16        // of fields with low numbers, plus one
	high    map[protowire.Number]int
	oneofs  [][]int // fields
	needs   bool    // it has required fields
}

// field is one field of a message.
type field struct {
	name     string
	key      []byte // `"name":`
	number   protowire.Number
	kind     protoreflect.Kind
	wire     protowire.Type
	tag      []byte
	of       *message // of a message or group; for a mapping, of its entries
	enum     *enum
	list     bool // or a mapping
	mapping  bool
	packed   bool
	packable bool
	oneof    int // index plus one
	required bool
	implicit bool   // zero and unset are the same
	null     bool   // null is a value of it
	unset    []byte // its value if it is unset and has no presence
}

// enum maps the numbers of an enum to names.
type enum struct {
	name    string
	numbers map[string]int32
	names   map[int32][]byte // as JSON
}

// lowest bounds the field numbers that are looked up in a slice.
const lowest = 256

func (m *message) find(n protowire.Number) int {
	if n < protowire.Number(len(m.low)) {
		return int(m.low[n]) - 1
	}
	if i, ok := m.high[n]; ok {
		return i
	}
	return -1
}

type builder struct {
	*Types
	made map[protoreflect.FullName]*message
}

func (b *builder) message(d protoreflect.MessageDescriptor) (*message, error) {
	name := d.FullName()
	if m := cmp.Or(b.compiled[name], b.made[name]); m != nil {
		return m, nil
	}
	m := &message{name: string(name), special: specialOf(d), index: map[string]int{}, high: map[protowire.Number]int{}}
	b.made[name] = m
	if o, ok := d.Options().(*descriptorpb.MessageOptions); ok && o.GetMessageSetWireFormat() {
		return nil, fmt.Errorf("message %s has message_set_wire_format, which is not supported", name)
	}
	all := make([]protoreflect.FieldDescriptor, 0, d.Fields().Len())
	for i := range d.Fields().Len() {
		all = append(all, d.Fields().Get(i))
	}
	all = append(all, b.extensions[name]...)
	m.fields = make([]field, len(all))
	oneofs := map[protoreflect.Name]int{}
	for i, f := range all { // a field's own name takes precedence over another's JSON name
		m.index[f.JSONName()] = i
		if f.Kind() == protoreflect.GroupKind && !f.IsExtension() {
			m.index[string(f.Name())] = i
		}
		if in := f.ContainingOneof(); in != nil && !in.IsSynthetic() {
			if oneofs[in.Name()] == 0 {
				m.oneofs = append(m.oneofs, nil)
				oneofs[in.Name()] = len(m.oneofs)
			}
			at := oneofs[in.Name()]
			m.fields[i].oneof = at
			m.oneofs[at-1] = append(m.oneofs[at-1], i)
		}
	}
	for i, f := range all {
		if err := b.field(&m.fields[i], f); err != nil {
			return nil, err
		}
		m.number(i)
		m.needs = m.needs || m.fields[i].required
		m.written = append(m.written, i)
	}
	slices.SortFunc(m.written, func(a, b int) int { return cmp.Compare(m.fields[a].number, m.fields[b].number) })
	return m, nil
}

// number registers a field under its number and name.
func (m *message) number(i int) {
	f := &m.fields[i]
	if f.number >= lowest || i >= 1<<15-1 {
		m.high[f.number] = i
	} else {
		for len(m.low) <= int(f.number) {
			m.low = append(m.low, 0)
		}
		m.low[f.number] = int16(i + 1) // #nosec G115 -- bounded above
	}
	m.index[f.name] = i
}

func (b *builder) field(f *field, d protoreflect.FieldDescriptor) error {
	f.name, f.number, f.kind = d.TextName(), d.Number(), d.Kind() // in brackets, for an extension
	shown := f.name
	if b.options.JSONNames && !d.IsExtension() {
		shown = d.JSONName()
	}
	f.key = append(doc.AppendString(nil, shown), ':')
	f.list, f.mapping = d.IsList() || d.IsMap(), d.IsMap()
	f.packed, f.required = d.IsPacked(), d.Cardinality() == protoreflect.Required
	f.implicit = !d.HasPresence() && !f.list
	f.wire = wires[f.kind]
	f.packable = f.wire != protowire.BytesType && f.wire != protowire.StartGroupType
	f.tag = protowire.AppendTag(nil, f.number, f.wire)
	if f.packed {
		f.tag = protowire.AppendTag(nil, f.number, protowire.BytesType)
	}
	var err error
	switch f.kind {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		if f.of, err = b.message(d.Message()); err != nil {
			return err
		}
		f.null = f.of.special == value
	case protoreflect.EnumKind:
		f.enum = enumOf(d.Enum())
		f.null = f.enum.name == "google.protobuf.NullValue"
	}
	f.unset = unset(f)
	return nil
}

// unset returns the value that is shown for a field without presence and value.
func unset(f *field) []byte {
	switch {
	case f.mapping:
		return []byte("{}")
	case f.list:
		return []byte("[]")
	case !f.implicit:
		return nil
	case f.kind == protoreflect.BoolKind:
		return []byte("false")
	case f.kind == protoreflect.StringKind, f.kind == protoreflect.BytesKind:
		return []byte(`""`)
	case f.kind == protoreflect.EnumKind:
		return f.enum.append(nil, 0)
	}
	return []byte("0")
}

// wires maps kinds to wire types.
var wires = map[protoreflect.Kind]protowire.Type{
	protoreflect.BoolKind: protowire.VarintType, protoreflect.EnumKind: protowire.VarintType,
	protoreflect.Int32Kind: protowire.VarintType, protoreflect.Sint32Kind: protowire.VarintType,
	protoreflect.Uint32Kind: protowire.VarintType, protoreflect.Int64Kind: protowire.VarintType,
	protoreflect.Sint64Kind: protowire.VarintType, protoreflect.Uint64Kind: protowire.VarintType,
	protoreflect.Sfixed32Kind: protowire.Fixed32Type, protoreflect.Fixed32Kind: protowire.Fixed32Type,
	protoreflect.FloatKind: protowire.Fixed32Type, protoreflect.Sfixed64Kind: protowire.Fixed64Type,
	protoreflect.Fixed64Kind: protowire.Fixed64Type, protoreflect.DoubleKind: protowire.Fixed64Type,
	protoreflect.StringKind: protowire.BytesType, protoreflect.BytesKind: protowire.BytesType,
	protoreflect.MessageKind: protowire.BytesType, protoreflect.GroupKind: protowire.StartGroupType,
}

func enumOf(d protoreflect.EnumDescriptor) *enum {
	e := &enum{name: string(d.FullName()), numbers: map[string]int32{}, names: map[int32][]byte{}}
	for i := range d.Values().Len() {
		v := d.Values().Get(i)
		n := int32(v.Number())
		e.numbers[string(v.Name())] = n
		if e.names[n] == nil { // others are aliases
			e.names[n] = doc.AppendString(nil, string(v.Name()))
		}
	}
	if e.name == "google.protobuf.NullValue" {
		e.names[0] = []byte("null")
	}
	return e
}

// special marks messages that are not shown as objects of their fields.
type special uint8

const (
	plain special = iota
	anything
	timestamp
	duration
	fieldMask
	object // google.protobuf.Struct
	items  // google.protobuf.ListValue
	value
	wrapper
	empty
)

var specials = map[protoreflect.FullName]special{
	"google.protobuf.Any": anything, "google.protobuf.Timestamp": timestamp, "google.protobuf.Duration": duration,
	"google.protobuf.FieldMask": fieldMask, "google.protobuf.Struct": object, "google.protobuf.ListValue": items,
	"google.protobuf.Value": value, "google.protobuf.DoubleValue": wrapper, "google.protobuf.FloatValue": wrapper,
	"google.protobuf.Int64Value": wrapper, "google.protobuf.UInt64Value": wrapper, "google.protobuf.Int32Value": wrapper,
	"google.protobuf.UInt32Value": wrapper, "google.protobuf.BoolValue": wrapper, "google.protobuf.StringValue": wrapper,
	"google.protobuf.BytesValue": wrapper, "google.protobuf.Empty": empty,
}

// specialOf recognizes special messages by name and fields.
func specialOf(d protoreflect.MessageDescriptor) special {
	s := specials[d.FullName()]
	if s == plain {
		return plain
	}
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(d.FullName())
	if err != nil {
		return plain
	}
	want := found.(protoreflect.MessageDescriptor).Fields()
	if want.Len() != d.Fields().Len() {
		return plain
	}
	for i := range want.Len() {
		w, g := want.Get(i), d.Fields().Get(i)
		if w.Number() != g.Number() || w.Kind() != g.Kind() || w.Cardinality() != g.Cardinality() || w.IsMap() != g.IsMap() {
			return plain
		}
	}
	return s
}
