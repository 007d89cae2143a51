// Package protobuf converts Protobuf's binary form to JSON text and back. Start at [Compile]. The options of steps
// are [Reads] and [Writes].
package protobuf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// Options control how messages are shown and written.
type Options struct {
	JSONNames   bool // use lowerCamelCase names
	Defaults    bool // show unset fields without presence
	DropUnknown bool
}

// Types are the messages of a schema. It is safe for concurrent use.
type Types struct {
	options    Options
	root       protoreflect.FileDescriptor // nil for a descriptor set
	messages   map[protoreflect.FullName]protoreflect.MessageDescriptor
	extensions map[protoreflect.FullName][]protoreflect.FieldDescriptor

	mu       sync.Mutex // guards the fields below
	compiled map[protoreflect.FullName]*message
	places   map[string]*Program // by the bytes of their places in payloads
}

// Compile compiles a registry's schema. Its needs are named by their import paths.
func Compile(s *engine.Schema, o Options) (*Types, error) {
	needs := map[string]string{}
	for _, n := range s.Needs {
		needs[n.Name] = n.Text
	}
	const name = "the schema"
	files, err := compile(name, name, s.Text, func(name string) (text, shown string, err error) {
		text, ok := needs[name]
		if !ok {
			return "", "", errors.New("it is not one of the schema's references in the registry")
		}
		return text, name, nil
	}, true)
	if err != nil {
		return nil, err
	}
	return newTypes(files[0], files, o), nil
}

// compileSet compiles a descriptor set.
func compileSet(set []byte, o Options) (*Types, error) {
	var all descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(set, &all); err != nil || len(all.File) == 0 {
		return nil,
			errors.New("not a descriptor set (write one with protoc --include_imports --descriptor_set_out, or buf build -o)")
	}
	known, err := protodesc.NewFiles(&all)
	if err != nil {
		return nil, fmt.Errorf("not a whole descriptor set: %s (was it written with --include_imports?)", reason(err))
	}
	var files []protoreflect.FileDescriptor
	known.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		files = append(files, f)
		return true
	})
	return newTypes(nil, files, o), nil
}

// reason removes the library's name, which varies, from an error.
func reason(err error) string {
	return strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0")
}

func newTypes(root protoreflect.FileDescriptor, files []protoreflect.FileDescriptor, o Options) *Types {
	t := &Types{options: o, root: root, messages: map[protoreflect.FullName]protoreflect.MessageDescriptor{},
		extensions: map[protoreflect.FullName][]protoreflect.FieldDescriptor{},
		compiled:   map[protoreflect.FullName]*message{}, places: map[string]*Program{}}
	for _, f := range files {
		t.extend(f.Extensions())
		t.add(f.Messages())
	}
	for _, all := range t.extensions {
		slices.SortFunc(all, func(a, b protoreflect.FieldDescriptor) int { return cmp.Compare(a.Number(), b.Number()) })
	}
	return t
}

func (t *Types) add(all protoreflect.MessageDescriptors) {
	for i := range all.Len() {
		m := all.Get(i)
		t.messages[m.FullName()] = m
		t.extend(m.Extensions())
		t.add(m.Messages())
	}
}

func (t *Types) extend(all protoreflect.ExtensionDescriptors) {
	for i := range all.Len() {
		of := all.Get(i).ContainingMessage().FullName()
		t.extensions[of] = append(t.extensions[of], all.Get(i))
	}
}

// Program returns the codec for a message. An empty name means the only top-level message of the schema's file.
func (t *Types) Program(name string) (*Program, error) {
	if name != "" {
		m, ok := t.messages[protoreflect.FullName(strings.TrimPrefix(name, "."))]
		if !ok || m.IsMapEntry() {
			return nil, fmt.Errorf("there is no message %q (%s)", name,
				schema.Suggest(name, t.names(), "write its package, too"))
		}
		return t.program(m)
	}
	if t.root != nil && t.root.Messages().Len() == 1 {
		return t.program(t.root.Messages().Get(0))
	}
	return nil, fmt.Errorf("the schema has several messages, or none (set `message`: %s)",
		schema.Suggest("", t.names(), "the full name of one"))
}

// names returns the names of the messages, without Protobuf's own.
func (t *Types) names() []string {
	var names []string
	for name, m := range t.messages {
		if !m.IsMapEntry() && !strings.HasPrefix(string(name), "google.protobuf.") {
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	return names
}

func (t *Types) program(m protoreflect.MessageDescriptor) (*Program, error) {
	of, err := t.message(m)
	if err != nil {
		return nil, err
	}
	return &Program{types: t, root: of, descriptor: m}, nil
}

// message compiles a message and its contents, once.
func (t *Types) message(m protoreflect.MessageDescriptor) (*message, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.compiled[m.FullName()]; known != nil {
		return known, nil
	}
	b := builder{Types: t, made: map[protoreflect.FullName]*message{}}
	made, err := b.message(m)
	if err != nil {
		return nil, err
	}
	for name, m := range b.made { // complete, since none of them failed
		t.compiled[name] = m
	}
	return made, nil
}

// named returns the message in the URL of a google.protobuf.Any, or nil.
func (t *Types) named(url string) (*message, error) {
	m := t.messages[protoreflect.FullName(url[strings.LastIndexByte(url, '/')+1:])]
	if m == nil {
		return nil, nil
	}
	return t.message(m)
}
