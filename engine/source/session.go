package source

import (
	"context"
	"sync/atomic"

	"github.com/flowd-io/flowd/engine"
)

// Connection is one connection to a source.
type Connection interface {
	// Close ends the connection. It is called once. If last is false, the input has failed and will be opened again; messages
	// without a result stay with the input. If last is true, no Read and no result will follow; messages without a result go
	// back to the source.
	Close(ctx context.Context, last bool) error
}

// Stopper is an optional ability of a [Connection]. Stop is called when no Read follows, although results may. It gives
// prefetched messages back to the source.
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

// Open makes a connection.
func (s *Session[C]) Open(ctx context.Context) error {
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	s.stopping.Store(false)
	s.current.Store(&connection[C]{to: c})
	return nil
}

// Conn returns the current connection or, while there is none, the last one, since results of its messages may still arrive.
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

// Stopping reports whether no Read follows, because the pipeline drains or stops. Messages that are returned should then be
// available to other readers at once. It may be called from any goroutine.
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
