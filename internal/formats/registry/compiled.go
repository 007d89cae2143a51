package registry

import (
	"context"
	"fmt"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/call"
)

// Compiled keeps what a step has made of a registry's schemas, by id. It is safe for
// concurrent use.
type Compiled[T any] struct {
	registry engine.SchemaRegistry
	kind     string // "AVRO"
	compile  func(*engine.Schema) (T, error)

	mu   sync.Mutex // guards the field below
	made *kept[int, Entry[T]]
}

// mostSaid bounds the error of a schema, which may quote a name of any length.
const mostSaid = 1 << 10

// Entry is a compiled schema.
type Entry[T any] struct {
	Made   T
	ID     any    // its id, as a value for metadata
	Header []byte // what a payload begins with
	err    error
}

// NewCompiled makes one for schemas of a kind; compile may be called at once from several
// goroutines.
func NewCompiled[T any](r engine.SchemaRegistry, kind string, compile func(*engine.Schema) (T, error)) *Compiled[T] {
	return &Compiled[T]{registry: r, kind: kind, compile: compile, made: newKept[int, Entry[T]](mostMadeBytes)}
}

// Of is what was made of the schema of an id. What can't be made is class decode.
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

// Read is what was made of the schema that a payload begins with the id of, and the rest of
// the payload. What can't be read is class decode.
func (c *Compiled[T]) Read(ctx context.Context, payload []byte) (e Entry[T], body []byte, err error) {
	id, body, err := cut(payload)
	if err != nil {
		return e, nil, engine.WithClass(engine.Decode, err)
	}
	e, err = c.Of(ctx, id)
	return e, body, err
}

// Make is Of for a schema that is at hand.
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
