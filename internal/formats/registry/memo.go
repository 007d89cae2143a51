package registry

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
)

const (
	forever = time.Duration(math.MaxInt64)
	// failed is how long an unreachable registry is not asked the same again: the messages of a batch share one
	// attempt.
	failed = time.Second
)

// key is one question to a registry.
type key struct {
	what, subject string
	id            int
	kind, text    string // of a schema
}

// answer is the result of a question, and how long it is valid.
type answer struct {
	schema *engine.Schema
	err    error
	due    time.Time // zero: for ever
}

// memo caches answers. Concurrent callers with the same question share one request.
type memo struct {
	mu      sync.Mutex // guards the fields below
	answers *kept[key, answer]
	asking  map[key]*turn
}

// turn lets one goroutine at a time ask a question.
type turn struct {
	free    chan struct{}
	waiting int
}

func newMemo() *memo {
	return &memo{answers: newKept[key, answer](mostKeptBytes), asking: map[key]*turn{}}
}

// get returns the answer to a question. ask requests a new one, and returns how long it is valid.
func (m *memo) get(ctx context.Context, k key, ask func(context.Context) (*engine.Schema, time.Duration, error)) (
	*engine.Schema, error,
) {
	if a, ok := m.known(k); ok {
		return a.schema, a.err
	}
	t := m.enter(k)
	defer m.leave(k, t)
	select {
	case t.free <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-t.free }()
	if a, ok := m.known(k); ok {
		return a.schema, a.err
	}
	s, holds, err := ask(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, err // says nothing about the registry
	}
	return m.learn(k, s, holds, err)
}

func (m *memo) known(k key) (answer, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.answers.get(k)
	return a, ok && (a.due.IsZero() || time.Now().Before(a.due))
}

// learn stores an answer. A known answer outlives a registry that can't be reached.
func (m *memo) learn(k key, s *engine.Schema, holds time.Duration, err error) (*engine.Schema, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if passes(err) {
		holds = failed
		if old, ok := m.answers.get(k); ok && old.schema != nil {
			s, err = old.schema, nil
		}
	}
	a := answer{schema: s, err: err}
	if holds != forever {
		a.due = time.Now().Add(holds)
	}
	m.answers.add(k, a, len(k.text)+size(s))
	return a.schema, a.err
}

// passes reports whether an error may be temporary.
func passes(err error) bool {
	e, ok := errors.AsType[*engine.Error](err)
	return ok && (e.Class == engine.Transient || e.Class == engine.Timeout || e.Class == engine.Auth)
}

func (m *memo) enter(k key) *turn {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.asking[k]
	if t == nil {
		t = &turn{free: make(chan struct{}, 1)}
		m.asking[k] = t
	}
	t.waiting++
	return t
}

func (m *memo) leave(k key, t *turn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.waiting--; t.waiting == 0 {
		delete(m.asking, k)
	}
}

// size returns the length of a schema, including the schemas that it needs.
func size(s *engine.Schema) int {
	if s == nil {
		return 0
	}
	n := len(s.Text)
	for _, needed := range s.Needs {
		n += len(needed.Text)
	}
	return n
}
