package registry

import (
	"context"
	"fmt"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/call"
)

// Compiled caches what a step has compiled from a registry's schemas, by id. It is safe for concurrent use.
// concurrent use.
type Compiled[T any] struct {
	registry engine.SchemaRegistry
	kind     string // "AVRO"
	compile  func(*engine.Schema) (T, error)

	mu   sync.Mutex // guards the field below
	made *kept[int, Entry[T]]
}

// mostSaid bounds the error of a schema, which may quote a long name.
const mostSaid = 1 << 10

// Entry is a compiled schema.
type Entry[T any] struct {
	Made   T
	ID     any    // its id, for metadata
	Header []byte // prefix of payloads
	err    error
}

// NewCompiled makes a cache for schemas of a kind. compile may be called concurrently.
func NewCompiled[T any](r engine.SchemaRegistry, kind string, compile func(*engine.Schema) (T, error)) *Compiled[T] {
	return &Compiled[T]{registry: r, kind: kind, compile: compile, made: newKept[int, Entry[T]](mostMadeBytes)}
}

// Of returns the compiled schema of an id. If it can't be compiled, the error has class decode.
func (c *Compiled[T]) Of(ctx context.Context, id int) (Entry[T], error) {
	if e, ok := c.known(id); ok {
		return e, e.err
	}
	s, err := c.registry.Schema(ctx, id)
	if err != nil {
		return Entry[T]{}, err
	}
	return c.Make(s)
}

// Read returns the compiled schema whose id a payload begins with, and the rest of the payload. If it can't be read,
// the error has class decode.
func (c *Compiled[T]) Read(ctx context.Context, payload []byte) (e Entry[T], body []byte, err error) {
	id, body, err := cut(payload)
	if err != nil {
		return e, nil, engine.WithClass(engine.Decode, err)
	}
	e, err = c.Of(ctx, id)
	return e, body, err
}

// Make compiles a schema that the caller has.
func (c *Compiled[T]) Make(s *engine.Schema) (Entry[T], error) {
	if e, ok := c.known(s.ID); ok {
		return e, e.err
	}
	e := Entry[T]{ID: s.ID, Header: Header(s.ID)}
	if s.Type != c.kind {
		e.err = engine.Errorf(engine.Decode, "schema id %d is of type %s, not %s", s.ID, s.Type, c.kind)
	} else if e.Made, e.err = c.compile(s); e.err != nil {
		e.err = engine.WithClass(engine.Decode, fmt.Errorf("schema id %d: %s", s.ID,
			call.Head([]byte(e.err.Error()), mostSaid, nil)))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made.add(s.ID, e, size(s)*madeOfText)
	return e, e.err
}

func (c *Compiled[T]) known(id int) (Entry[T], bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made.get(id)
}
