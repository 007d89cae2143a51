package engine

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/schema"
)

// Registry holds the plugins of one kind by name. Plugins are registered from
// init functions and read ever after.
type Registry[T any] struct {
	kind  string
	words map[string]string // a peer's word: what to write here

	mu      sync.Mutex
	plugins map[string]*Spec[T]
}

// Middlewares are the Go wrappers for `engine.middleware`, which names them: they
// have no configuration.
var Middlewares = NewRegistry[Middleware]("middleware", nil)

// The registries, one per kind of plugin.
var (
	Inputs     = NewRegistry[Input]("input", nil)
	Processors = NewRegistry[Processor]("processor", map[string]string{
		"mapping": "write `set` or `map`", "bloblang": "write `set` or `map`", "remap": "write `set` or `map`",
		"unarchive": "write `split`", "catch": "write `on_error` on the step that may fail",
		"throttle": "write `dedupe` or `rate_limit`", "broker": "write `batchers`", "mutation": "write `set`",
	})
	Batchers = NewRegistry[Batcher]("batcher", nil)
	Outputs  = NewRegistry[Output]("output", map[string]string{
		"broker": "write `batchers`", "fan_out": "write `batchers`", "switch": "write `batchers` with `match`",
		"nack": "write `on_failure: {then: return}`", "reject": "write `on_failure: {then: return}`",
	})
)

// NewRegistry makes a registry; words are those of peers, with what to write instead.
func NewRegistry[T any](kind string, words map[string]string) *Registry[T] {
	return &Registry[T]{kind: kind, words: words, plugins: map[string]*Spec[T]{}}
}

// Spec is a registered plugin: its documentation, its configuration, and how it is built.
type Spec[T any] struct {
	Name  string
	Doc   string       // the first sentence is the summary
	Type  *schema.Type // of its configuration
	Build func(config any, env Env) (T, error)
}

// Env is what a plugin gets in addition to its configuration.
type Env struct {
	Log   *slog.Logger // carries pipeline and name
	Name  string       // of the component in the configuration: "orders"
	Index int          // of the instance, from 0, where `concurrency` makes several
	// Instances is how many instances of an input there are; at least 1 in a pipeline.
	Instances int
	// Hands is how many messages the pipeline of an input has in hand at once: those of
	// its workers, and of the batches that its outputs write and gather meanwhile.
	Hands int
	// MaxReplay is `engine.max_replay`, for an input whose traits say Ahead: from the oldest
	// message of a position that is not settled to the newest.
	MaxReplay int
	// ExactlyOnce is `engine.exactly_once`.
	ExactlyOnce bool
	// Ordered says that `engine.order_by` keeps an order.
	Ordered bool
	// MaxBytes is `engine.max_in_flight.bytes`, for an input that reads ahead.
	MaxBytes int
	// Shared holds what the pipelines of one process have in common.
	Shared *Shared
	// Secrets is what must not be shown. The engine masks it in errors and in the log; code
	// that cuts a remote system's text masks it before.
	Secrets *schema.Secrets

	Pipeline string // its name

	// Reads are places to which messages must not choose to write.
	Reads *Reads

	// Whole says of a step that it gets whole batches, Inside that it runs inside another,
	// where nothing can park, and Timeout how long a step without its own timeout may take.
	Whole, Inside bool
	Timeout       time.Duration

	host host // nil: the plugin belongs to no pipeline
}

// Register adds a plugin. defaults is its default configuration and, through
// its field tags, also its decoder, lint rules, schema and docs; build makes an
// instance without any I/O. It panics when the name is taken or a tag makes no sense.
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
			if config == nil { // of what is only named
				config = defaults
			}
			return build(config.(C), env)
		},
	}
}

// Lookup is a plugin by name, or nil.
func (r *Registry[T]) Lookup(name string) *Spec[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plugins[name]
}

// Only forgets all plugins but those named, for a process that may use no others.
// why is what to do about it. An unknown name is an error.
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

// LeftOut says what to do about a plugin that this build of flowd does not have. It is called before
// anything is read, and means nothing for a plugin that is there.
func (r *Registry[T]) LeftOut(name, remedy string) {
	if r.Lookup(name) != nil {
		return
	}
	words := map[string]string{name: remedy}
	maps.Copy(words, r.words)
	r.words = words
}

// Kind is "input", "processor", "batcher" or "output".
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

// Variant is the configuration of a plugin, or nil.
func (r *Registry[T]) Variant(name string) *schema.Type {
	if s := r.Lookup(name); s != nil {
		return s.Type
	}
	return nil
}

// Remedy is what to write instead of a word that users of other systems type.
func (r *Registry[T]) Remedy(name string) string { return r.words[name] }

// Shared holds what the pipelines of one process have in common; see [Common].
type Shared struct {
	mu     sync.Mutex
	values map[any]any
}

// Common is the value of a key in s; the first caller makes it. K is a type of the
// caller's own, so that nobody else can have its keys, and all of its values are of one
// type. A nil Shared makes a new one each time. It is safe for concurrent use; make must
// not call it for s.
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

// registryOf is the registry of the plugins that are a T.
func registryOf[T any]() *Registry[T] {
	for _, r := range []any{Inputs, Processors, Batchers, Outputs, Caches, Middlewares} {
		if r, ok := r.(*Registry[T]); ok {
			return r
		}
	}
	panic("engine: no such kind of plugin")
}
