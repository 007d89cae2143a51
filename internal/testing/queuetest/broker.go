// Package queuetest is a message broker in memory, for tests of what is written
// against package queue.
package queuetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue"
)

// Broker holds queues. Set the exported fields before it is used; its methods may
// be called at once from several goroutines.
type Broker struct {
	FailRead  func(queue string) error                          // nil or an error instead of a read
	FailWrite func(queue string, m queue.Message) error         // nil or an error for this message
	FailDone  func(queue string, refs []uint64) error           // nil or an error, and nothing is removed
	OnRead    func(queue string, n int)                         // called after n messages were read
	Came      func(dlq string, m queue.Message) (string, error) // where a dead letter came from

	mu     sync.Mutex // guards the fields below
	queues map[string]*state
	ref    uint64
	open   int // readers, writers and servers
}

// state is one queue.
type state struct {
	info  queue.Info
	ready []queue.Message
	taken map[uint64]queue.Message
}

// New makes a broker with empty queues.
func New(names ...string) *Broker {
	b := &Broker{queues: map[string]*state{}}
	for _, name := range names {
		b.queues[name] = &state{info: queue.Info{Name: name, Kind: "memory"}, taken: map[uint64]queue.Message{}}
	}
	return b
}

// Put appends messages to a queue.
func (b *Broker) Put(name string, payloads ...string) {
	for _, p := range payloads {
		b.PutMessage(name, queue.Message{Payload: []byte(p)})
	}
}

// PutMessage appends one message to a queue.
func (b *Broker) PutMessage(name string, m queue.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.put(b.queues[name], m)
}

func (b *Broker) put(q *state, m queue.Message) {
	b.ref++
	m.Ref = b.ref
	q.ready = append(q.ready, m)
}

// DeadLetters says to which queue the dead letters of another go.
func (b *Broker) DeadLetters(name, dlq string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queues[name].info.DeadLetters = dlq
}

// Payloads are those that can be read from a queue, in order.
func (b *Broker) Payloads(name string) []string {
	all := []string{}
	for _, m := range b.Messages(name) {
		all = append(all, string(m.Payload))
	}
	return all
}

// Messages are those that can be read from a queue, in order.
func (b *Broker) Messages(name string) []queue.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.queues[name].ready)
}

// InFlight is how many messages of a queue are read, and neither done nor returned.
func (b *Broker) InFlight(name string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queues[name].taken)
}

// Open is how many servers, readers and writers are not closed.
func (b *Broker) Open() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open
}

// Dial makes a connection, for queue.Register.
func (b *Broker) Dial(context.Context, *url.URL) (queue.Server, error) {
	b.opened(1)
	if b.Came != nil {
		return originServer{&server{b}}, nil
	}
	return &server{b}, nil
}

func (b *Broker) opened(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open += n
}

// queue finds a queue; b.mu is held.
func (b *Broker) queue(name string) (*state, error) {
	q, ok := b.queues[name]
	if !ok {
		return nil, fmt.Errorf("there is no queue %q", name)
	}
	return q, nil
}

type server struct{ b *Broker }

// originServer knows where dead letters came from.
type originServer struct{ *server }

var (
	_ queue.Server = (*server)(nil)
	_ queue.Origin = originServer{}
)

func (s originServer) Origin(_ context.Context, dlq string, m queue.Message) (string, error) {
	return s.b.Came(dlq, m)
}

func (s *server) List(_ context.Context, pattern string) ([]queue.Info, error) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	var all []queue.Info
	for name, q := range s.b.queues {
		ok, err := path.Match(pattern, name)
		if err != nil {
			return nil, err
		}
		if ok || pattern == "" {
			info := q.info
			info.Ready, info.InFlight = int64(len(q.ready)), int64(len(q.taken))
			all = append(all, info)
		}
	}
	slices.SortFunc(all, func(a, b queue.Info) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

func (s *server) Purge(_ context.Context, name string) (int64, error) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	q, err := s.b.queue(name)
	if err != nil {
		return 0, err
	}
	n := len(q.ready)
	q.ready = nil
	return int64(n), nil
}

func (s *server) Close() error {
	s.b.opened(-1)
	return nil
}

func (s *server) Reader(_ context.Context, name string) (queue.Reader, error) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	q, err := s.b.queue(name)
	if err != nil {
		return nil, err
	}
	s.b.open++
	return &reader{s.b, q, name, map[uint64]bool{}}, nil
}

func (s *server) Writer(_ context.Context, name string) (queue.Writer, error) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	q, err := s.b.queue(name)
	if err != nil {
		return nil, err
	}
	s.b.open++
	return &writer{s.b, q, name}, nil
}

type reader struct {
	b    *Broker
	q    *state
	name string
	has  map[uint64]bool // read, and neither done nor returned
}

func (r *reader) Read(ctx context.Context, most int) ([]queue.Message, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.b.FailRead != nil {
		if err := r.b.FailRead(r.name); err != nil {
			return nil, err
		}
	}
	ms, err := r.take(most)
	if err == nil && r.b.OnRead != nil {
		r.b.OnRead(r.name, len(ms))
	}
	return ms, err
}

func (r *reader) take(most int) ([]queue.Message, error) {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	n := min(most, len(r.q.ready))
	if n == 0 {
		return nil, engine.ErrEnd
	}
	ms := slices.Clone(r.q.ready[:n])
	r.q.ready = r.q.ready[n:]
	for _, m := range ms {
		r.q.taken[m.Ref] = m
		r.has[m.Ref] = true
	}
	return ms, nil
}

func (r *reader) Done(ctx context.Context, refs []uint64) error {
	if r.b.FailDone != nil {
		if err := r.b.FailDone(r.name, refs); err != nil {
			return err
		}
	}
	return r.end(ctx, refs, false)
}

func (r *reader) Return(ctx context.Context, refs []uint64) error { return r.end(ctx, refs, true) }

// end removes messages, or puts them back where they were read: in front.
func (r *reader) end(ctx context.Context, refs []uint64, back bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	var again []queue.Message
	for _, ref := range refs {
		m, ok := r.q.taken[ref]
		if !ok || !r.has[ref] {
			return errors.New("a message was ended that this reader does not have")
		}
		delete(r.q.taken, ref)
		delete(r.has, ref)
		if back {
			again = append(again, m)
		}
	}
	slices.SortFunc(again, func(a, b queue.Message) int { return cmp.Compare(a.Ref, b.Ref) })
	r.q.ready = append(again, r.q.ready...)
	return nil
}

func (r *reader) Close() error {
	err := r.end(context.Background(), slices.Collect(maps.Keys(r.has)), true)
	r.b.opened(-1)
	return err
}

type writer struct {
	b    *Broker
	q    *state
	name string
}

func (w *writer) Write(ctx context.Context, ms []queue.Message) []error {
	errs := make([]error, len(ms))
	ok := true
	for i, m := range ms {
		if errs[i] = ctx.Err(); errs[i] == nil && w.b.FailWrite != nil {
			errs[i] = w.b.FailWrite(w.name, m)
		}
		if errs[i] != nil {
			ok = false
			continue
		}
		w.b.mu.Lock()
		w.b.put(w.q, queue.Message{Payload: slices.Clone(m.Payload), Meta: m.Meta})
		w.b.mu.Unlock()
	}
	if ok {
		return nil
	}
	return errs
}

func (w *writer) Close() error {
	w.b.opened(-1)
	return nil
}
