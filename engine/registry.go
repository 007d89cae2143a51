package engine

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/schema"
)

// Registry has the plugins of one kind by name. Plugins are registered in init functions. It is safe for concurrent use.
type Registry[T any] struct {
	kind  string
	words map[string]string // what to write instead of a word of another system

	mu      sync.Mutex
	plugins map[string]*Spec[T]
}

// Middlewares are Go wrappers that `engine.middleware` names. They have no configuration.
var Middlewares = NewRegistry[Middleware]("middleware", nil)

// The registries, one per kind of plugin.
var (
	Inputs     = NewRegistry[Input]("input", nil)
	Processors = NewRegistry[Processor]("processor", nil)
	Batchers   = NewRegistry[Batcher]("batcher", nil)
	Outputs    = NewRegistry[Output]("output", nil)
)

// NewRegistry makes a registry for a kind of plugin. words maps words of other systems to what to write instead.
func NewRegistry[T any](kind string, words map[string]string) *Registry[T] {
	return &Registry[T]{kind: kind, words: words, plugins: map[string]*Spec[T]{}}
}

// Spec is a registered plugin: its documentation, its configuration, and how it is built.
type Spec[T any] struct {
	Name  string
	Doc   string       // Markdown; the first sentence is the summary
	Type  *schema.Type // of its configuration
	Build func(config any, env Env) (T, error)

	replaceable bool // of Replace
}

// Env is what a plugin gets when it is built, in addition to its configuration.
type Env struct {
	Log   *slog.Logger // its records have the pipeline and the name
	Name  string       // of the component in the configuration, such as "orders"
	Index int          // of the instance, from 0, if `concurrency` makes several
	// Instances is how many instances of an input there are; at least 1 in a pipeline.
	Instances int
	// Hands is how many messages the pipeline of an input works on at once: in its workers, and in the batches that its
	// batchers collect and its outputs write.
	Hands int
	// MaxReplay is `engine.max_replay`, for an input with the trait Ahead: how many messages may lie between the oldest
	// unsettled message of a position and the newest that was read.
	MaxReplay int
	// ExactlyOnce is `engine.exactly_once`.
	ExactlyOnce bool
	// Ordered says that the pipeline keeps the order of `engine.order_by`.
	Ordered bool
	// MaxBytes is `engine.max_in_flight.bytes`, for an input that reads ahead.
	MaxBytes int
	// Shared has what the pipelines of one process share; see [Common].
	Shared *Shared
	// Secrets are values that must not be shown. The engine masks them in errors and in the log. A plugin that shortens
	// the text of a remote system must mask it first, since the engine can't find half a secret.
	Secrets *schema.Secrets

	Pipeline string // the name of the pipeline

	// Reads are files of the process to which messages must not choose to write.
	Reads *Reads

	// For a step: Whole says that it gets whole batches, Inside that it runs inside another step, where it can't park
	// messages. Timeout is how long a call of a step without its own timeout may take.
	Whole, Inside bool
	Timeout       time.Duration

	host host // nil: the plugin belongs to no pipeline
}

// Register adds a plugin to a registry, in an init function. defaults is its default configuration; the field tags of its
// type also give the decoder, lint rules, JSON Schema and docs. build makes an instance, without any I/O. Register panics
// if the name is taken or a tag is not valid.
func Register[T, C any](r *Registry[T], name, doc string, defaults C, build func(C, Env) (T, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.plugins[name]; taken {
		panic(fmt.Sprintf("%s %q is registered twice", r.kind, name))
	}
	r.plugins[name] = &Spec[T]{
		Name: name,
		Doc:  strings.TrimSpace(doc),
		Type: schema.Of(defaults),
		Build: func(config any, env Env) (T, error) {
			if config == nil { // a plugin that is only named
				config = defaults
			}
			return build(config.(C), env)
		},
	}
}

// Replace adds a plugin that is not known before flowd runs. It takes the place of one that Replace has added before; pipelines
// that were built with that one keep it. If Register has added a plugin of this name, Replace returns false.
func (r *Registry[T]) Replace(s Spec[T]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.plugins[s.Name]; old != nil && !old.replaceable {
		return false
	}
	s.replaceable = true
	r.plugins[s.Name] = &s
	return true
}

// Lookup returns a plugin by name, or nil.
func (r *Registry[T]) Lookup(name string) *Spec[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plugins[name]
}

// Only removes all plugins except those that are named, for a process that may use no others. why is the remedy for users
// of removed plugins. It is an error if there is no plugin of a name.
func (r *Registry[T]) Only(names []string, why string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		if r.plugins[name] == nil {
			return fmt.Errorf("there is no %s %q", r.kind, name)
		}
	}
	words := map[string]string{}
	maps.Copy(words, r.words)
	for name := range r.plugins {
		if !slices.Contains(names, name) {
			delete(r.plugins, name)
			words[name] = why
		}
	}
	r.words = words
	return nil
}

// LeftOut sets the remedy for users of a plugin that this build of flowd does not have. It is called before a configuration
// is read, and does nothing if the build has the plugin.
func (r *Registry[T]) LeftOut(name, remedy string) {
	if r.Lookup(name) != nil {
		return
	}
	words := map[string]string{name: remedy}
	maps.Copy(words, r.words)
	r.words = words
}

// Kind is "input", "processor", "batcher", "output", "cache", "middleware" or "strategy".
func (r *Registry[T]) Kind() string { return r.kind }

// Names are the names of all plugins, sorted.
func (r *Registry[T]) Names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := make([]string, 0, len(r.plugins))
	for n := range r.plugins {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Variant is the type of a plugin's configuration, or nil.
func (r *Registry[T]) Variant(name string) *schema.Type {
	if s := r.Lookup(name); s != nil {
		return s.Type
	}
	return nil
}

// Remedy says what to write instead of a word of another system, or of a plugin that is left out; "": nothing is known.
func (r *Registry[T]) Remedy(name string) string {
	return cmp.Or(r.words[name], peerTypes()[r.kind][name])
}

// Shared has values that the pipelines of one process share; see [Common]. The zero value is empty.
type Shared struct {
	mu     sync.Mutex
	values map[any]any
}

// Common returns the value of a key in s. The first call makes it. K should be a type of the caller's own package, so that
// no other package has its keys, and all values of keys of a type must have one type. If s is nil, Common makes a new
// value each time. It is safe for concurrent use; make must not call it for the same s.
func Common[K comparable, V any](s *Shared, key K, make func() V) V {
	if s == nil {
		return make()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.values[key].(V)
	if !ok {
		v = make()
		if s.values == nil {
			s.values = map[any]any{}
		}
		s.values[key] = v
	}
	return v
}

// registryOf returns the registry of plugins of type T.
func registryOf[T any]() *Registry[T] {
	for _, r := range []any{Inputs, Processors, Batchers, Outputs, Caches, Middlewares} {
		if r, ok := r.(*Registry[T]); ok {
			return r
		}
	}
	panic("engine: no such kind of plugin")
}
