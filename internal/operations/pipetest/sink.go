package pipetest

import (
	"context"
	"sync"
	"time"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
)

// Message is a message that arrived at an output.
type Message struct {
	Body []byte         `json:"body"`
	Meta map[string]any `json:"-"`
	Err  *Failure       `json:"error,omitempty"`

	mocked []map[string]any // fields set by mocks; a test need not list them
}

// Write is the content of one write.
type Write struct {
	At       time.Duration  `json:"at"` // since the start
	Trigger  engine.Trigger `json:"trigger,omitempty"`
	Key      string         `json:"key,omitempty"` // of the batcher, as JSON
	Messages []Message      `json:"messages"`
}

// Failure says why a message failed.
type Failure struct {
	Class   engine.Class `json:"class"`
	Place   string       `json:"place"`
	Message string       `json:"message"`
}

func failureOf(e *engine.Error) *Failure { return &Failure{e.Class, e.Place(), e.Error()} }

// sink replaces one output. It keeps what is written.
type sink struct {
	start time.Time
	fault *fault                      // nil: no fault
	fits  func(*engine.Message) error // nil: the output takes every message

	mu     sync.Mutex // guards the field below
	writes []Write
}

// Write keeps the messages that the fault does not fail.
func (s *sink) Write(_ context.Context, b *engine.Batch) error {
	if err := s.fault.write(b); err != nil {
		return err
	}
	w := Write{At: time.Since(s.start), Trigger: b.Trigger()}
	for m := range b.All() {
		if s.fits != nil {
			if err := s.fits(m); err != nil {
				m.Fail(err)
				continue
			}
		}
		if w.Messages == nil {
			w.Key = m.BatchKey()
		}
		got := Message{Body: m.Bytes(), Meta: m.Meta.Map()}
		if e := m.Err(); e != nil {
			got.Err = failureOf(e)
		}
		w.Messages = append(w.Messages, got)
	}
	if len(w.Messages) > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.writes = append(s.writes, w)
	}
	return nil
}

// fault fails messages as the test says. A nil fault fails none.
type fault struct {
	spec  config.Fault
	start time.Time

	mu   sync.Mutex // guards the field below
	used int        // failed attempts
}

// active reports whether the next attempt fails.
func (f *fault) active() bool {
	switch {
	case f == nil:
		return false
	case f.spec.Times > 0:
		return f.used < f.spec.Times
	case f.spec.For > 0:
		return time.Since(f.start) < f.spec.For
	}
	return true
}

// hits reports whether the fault applies to m. A condition that can't be evaluated fails m.
func (f *fault) hits(m *engine.Message) bool {
	if f.spec.Match.IsZero() {
		return true
	}
	ok, err := f.spec.Match.Test(m)
	if err != nil {
		m.Fail(err)
	}
	return ok
}

func (f *fault) error() error { return engine.Errorf(engine.Class(f.spec.Class), "%s", f.spec.Message) }

// write fails one write: the whole write, by returning an error, or only the messages that the fault applies to.
func (f *fault) write(b *engine.Batch) error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.active() {
		return nil
	}
	var hit []*engine.Message
	n := 0
	for m := range b.All() {
		n++
		if f.hits(m) {
			hit = append(hit, m)
		}
	}
	if len(hit) == 0 {
		return nil
	}
	f.used++
	if len(hit) == n {
		return f.error()
	}
	for _, m := range hit {
		m.Fail(f.error())
	}
	return nil
}

// faulty is a step that fails as the test says, and otherwise does its work.
type faulty struct {
	engine.Processor
	fault *fault
}

// Process fails messages, each of which counts as an attempt, and passes the rest to the step.
func (f *faulty) Process(ctx context.Context, b *engine.Batch) error {
	left := 0
	f.fault.mu.Lock()
	for m := range b.All() {
		if f.fault.active() && f.fault.hits(m) {
			f.fault.used++
			m.Fail(f.fault.error())
			continue
		}
		left++
	}
	f.fault.mu.Unlock()
	if left == 0 {
		return nil
	}
	return f.Processor.Process(ctx, b)
}

// Open opens the step.
func (f *faulty) Open(ctx context.Context) error {
	if o, ok := f.Processor.(engine.Opener); ok {
		return o.Open(ctx)
	}
	return nil
}

// Close closes the step.
func (f *faulty) Close(ctx context.Context) error {
	if c, ok := f.Processor.(engine.Closer); ok {
		return c.Close(ctx)
	}
	return nil
}
