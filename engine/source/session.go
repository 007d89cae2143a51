package source

import (
	"context"
	"sync/atomic"

	"github.com/flowd-io/flowd/engine"
)

// Connection is one connection to a source.
type Connection interface {
	// Close ends the connection; it is called once. If last is false, the input has failed and is opened again: what was
	// read and has no result yet stays with the input. If last is true, no Read follows and all results that will ever
	// come have come: what is left goes back to the source.
	Close(ctx context.Context, last bool) error
}

// Stopper is an optional ability of a [Connection]: no Read follows, but results may. It gives back what was prefetched
// and not read.
type Stopper interface {
	Stop(ctx context.Context) error
}

// Session opens, stops and closes the connections of an input, one at a time. Embedded in an input as a pointer, it
// makes the input an [engine.Opener], [engine.Stopper] and [engine.Closer].
type Session[C Connection] struct {
	connect  func(ctx context.Context) (C, error)
	current  atomic.Pointer[connection[C]]
	stopping atomic.Bool
}

type connection[C Connection] struct {
	to     C
	closed atomic.Bool
}

// NewSession makes a Session without a connection. Open calls connect, which returns an error of package cause, or one
// that says itself what class it has.
func NewSession[C Connection](connect func(ctx context.Context) (C, error)) *Session[C] {
	return &Session[C]{connect: connect}
}

// Open connects.
func (s *Session[C]) Open(ctx context.Context) error {
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	s.stopping.Store(false)
	s.current.Store(&connection[C]{to: c})
	return nil
}

// Conn returns the current connection, or the last one while there is none: results of its messages may still arrive.
// Before the first Open it returns the zero C. It may be called from any goroutine.
func (s *Session[C]) Conn() (c C) {
	if now := s.current.Load(); now != nil {
		return now.to
	}
	return c
}

// Connected returns the current connection, and whether there is one. It may be called from any goroutine.
func (s *Session[C]) Connected() (c C, ok bool) {
	now := s.current.Load()
	if now == nil || now.closed.Load() {
		return c, false
	}
	return now.to, true
}

// Stopping reports whether no Read follows: the pipeline drains or stops, so messages that come back are wanted
// elsewhere at once. It may be called from any goroutine.
func (s *Session[C]) Stopping() bool { return s.stopping.Load() }

// Stop tells the connection that no Read follows.
func (s *Session[C]) Stop(ctx context.Context) error {
	s.stopping.Store(true)
	if c, ok := s.Connected(); ok {
		if stopper, ok := any(c).(Stopper); ok {
			return stopper.Stop(ctx)
		}
	}
	return nil
}

// Close closes the connection, if there is one.
func (s *Session[C]) Close(ctx context.Context) error {
	now := s.current.Load()
	if now == nil || now.closed.Swap(true) {
		return nil
	}
	return now.to.Close(ctx, s.stopping.Load())
}

var (
	_ engine.Opener  = (*Session[Connection])(nil)
	_ engine.Stopper = (*Session[Connection])(nil)
	_ engine.Closer  = (*Session[Connection])(nil)
)
