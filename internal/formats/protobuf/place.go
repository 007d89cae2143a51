package protobuf

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

var errIndex = errors.New("the payload ends within the place of its message in the schema")

// mostPlaces bounds the remembered places of messages: one place can be spelled in many ways.
const mostPlaces = 1000

// cut reads the place of a message in the schema: how many numbers there are, then the index on the top level, in
// that message, and so on. A single zero means the first message.
func (t *Types) cut(payload []byte) (*Program, []byte, error) {
	depth, size, err := part(payload)
	for i := 0; i < depth && err == nil; i++ {
		var n int
		_, n, err = part(payload[size:])
		size += n
	}
	if err != nil {
		return nil, nil, err
	}
	place, body := payload[:size], payload[size:]
	t.mu.Lock()
	p := t.places[string(place)]
	t.mu.Unlock()
	if p != nil {
		return p, body, nil
	}
	if p, err = t.at(place); err != nil {
		return nil, nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.places) < mostPlaces {
		t.places[string(place)] = p
	}
	return p, body, nil
}

// part returns a number of a place, and its length.
func part(b []byte) (number, size int, err error) {
	u, n := protowire.ConsumeVarint(b)
	if n < 0 {
		return 0, 0, errIndex
	}
	i := protowire.DecodeZigZag(u)
	if i < 0 || i > mostText {
		return 0, 0, fmt.Errorf("%d can't be a part of the place of a message", i)
	}
	return int(i), n, nil
}

// at returns the message at a complete place.
func (t *Types) at(place []byte) (*Program, error) {
	depth, size, _ := part(place)
	if depth == 0 { // may be spelled with several bytes
		place, size = []byte{0, 0}, 1
	}
	in, of := t.root.Messages(), protoreflect.MessageDescriptor(nil)
	for i := range max(depth, 1) {
		place = place[size:]
		var at int
		at, size, _ = part(place)
		known := declared(in)
		if at >= len(known) {
			return nil, fmt.Errorf("there is no message %d at depth %d of the schema, which has %d there", at, i, len(known))
		}
		of = known[at]
		in = of.Messages()
	}
	return t.program(of)
}

// declared returns the messages in a schema's text. The entries of mappings are messages, too, but have no index, as
// in Confluent's Java client.
func declared(in protoreflect.MessageDescriptors) []protoreflect.MessageDescriptor {
	all := make([]protoreflect.MessageDescriptor, 0, in.Len())
	for i := range in.Len() {
		if m := in.Get(i); !m.IsMapEntry() {
			all = append(all, m)
		}
	}
	return all
}

// place returns the place in the form that cut reads.
func (p *Program) place() ([]byte, error) {
	if p.descriptor.ParentFile() != p.types.root {
		return nil, fmt.Errorf("message %s is not in the schema itself, but in one that it imports", p.Message())
	}
	var path []int
	for d := p.descriptor; d != nil; d, _ = d.Parent().(protoreflect.MessageDescriptor) {
		in := p.types.root.Messages()
		if outer, ok := d.Parent().(protoreflect.MessageDescriptor); ok {
			in = outer.Messages()
		}
		path = append(path, slices.Index(declared(in), d))
	}
	slices.Reverse(path)
	if len(path) == 1 && path[0] == 0 {
		return []byte{0}, nil
	}
	place := protowire.AppendVarint(nil, protowire.EncodeZigZag(int64(len(path))))
	for _, i := range path {
		place = protowire.AppendVarint(place, protowire.EncodeZigZag(int64(i)))
	}
	return place, nil
}
