// Package pipe links outputs `pipe` to inputs `pipe` of the same process. Start at [Of]. A [Link] hands messages over
// by rendezvous: a write ends when readers have taken all of its messages.
package pipe

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/flowd-io/flowd/engine"
)

// Link connects all writers and readers of one pipe. It is safe for concurrent use.
type Link struct {
	name   string
	offers chan *offer

	mu      sync.Mutex // guards the fields below
	writers side
	readers side
}

// side is the writers or the readers of a link.
type side struct {
	n     int           // built and not yet closed
	known bool          // one was built
	none  chan struct{} // closed when the last one is closed
}

// Of returns the link with a name in this process.
func Of(shared *engine.Shared, name string) *Link {
	return engine.Common(shared, linkName(name), func() *Link {
		return &Link{name: name, offers: make(chan *offer), writers: side{none: make(chan struct{})},
			readers: side{none: make(chan struct{})}}
	})
}

type linkName string

// AddWriter registers a writer when it is built. A process builds all writers and readers before it opens the first
// one. A new one may also arrive after the last was closed.
func (l *Link) AddWriter() { l.add(&l.writers) }

// AddReader registers a reader, likewise.
func (l *Link) AddReader() { l.add(&l.readers) }

func (l *Link) add(s *side) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.n++
	s.known = true
	select {
	case <-s.none:
		s.none = make(chan struct{})
	default:
	}
}

// EndWriter says that a writer is closed.
func (l *Link) EndWriter() { l.end(&l.writers) }

// EndReader says that a reader is closed.
func (l *Link) EndReader() { l.end(&l.readers) }

func (l *Link) end(s *side) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.n--; s.n == 0 {
		close(s.none)
	}
}

// none returns a channel that is closed when a side has no members.
func (l *Link) none(s *side) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.none
}

// CheckWriters returns an error if nothing has ever written to the pipe. Writers that are closed make readers end.
func (l *Link) CheckWriters() error {
	return l.check("nothing writes to", "output", func() bool { return l.writers.known })
}

// CheckReaders returns an error if nothing reads from the pipe.
func (l *Link) CheckReaders() error {
	return l.check("nothing reads from", "input", func() bool { return l.readers.n > 0 })
}

func (l *Link) check(nothing, kind string, ok func() bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ok() {
		return nil
	}
	return fmt.Errorf("%s pipe %q (a pipeline of the same process needs an %s pipe: %s)", nothing, l.name, kind, l.name)
}

// item is a message on its way to a reader. resume reports its fate to the writer.
type item struct {
	body   []byte
	meta   engine.Meta
	key    []byte
	resume func(edit func(*engine.Message) error)
}

// offer is a write that waits for readers.
type offer struct {
	taken chan struct{} // closed when all items are taken
	back  chan struct{} // room for one: its reader was closed, so others may continue

	mu    sync.Mutex // guards the fields below
	items []item     // not yet taken
}

var errGone = errors.New("its reading pipeline has ended")

// Write offers a batch, and waits until readers have taken it or ctx ends. Its messages are parked until their fate
// is known.
func (l *Link) Write(ctx context.Context, b *engine.Batch) {
	o := &offer{taken: make(chan struct{}), back: make(chan struct{}, 1)}
	for m := range b.All() {
		it := item{body: m.Bytes(), meta: m.Meta, key: m.Key}
		it.resume = m.Park()
		o.items = append(o.items, it)
	}
	if len(o.items) == 0 {
		return
	}
	gone := l.none(&l.readers)
	for {
		select {
		case l.offers <- o:
		case <-ctx.Done():
		case <-gone:
		}
		select {
		case <-o.taken:
			return
		case <-o.back:
			continue
		case <-ctx.Done():
			o.withdraw(fmt.Errorf("pipe %s: not taken in time: %w", l.name, ctx.Err()))
		case <-gone:
			o.withdraw(engine.Errorf(engine.Transient, "pipe %s: %w", l.name, errGone))
		}
		return
	}
}

// takeItems removes up to n items, and reports whether those were the last ones.
func (o *offer) takeItems(n int) (items []item, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n = min(n, len(o.items))
	items, o.items = o.items[:n], o.items[n:]
	if len(o.items) > 0 {
		return items, false
	}
	if n > 0 { // otherwise it was withdrawn
		close(o.taken)
	}
	return items, true
}

// withdraw fails the messages that no reader has taken.
func (o *offer) withdraw(err error) {
	o.mu.Lock()
	rest := o.items
	o.items = nil
	o.mu.Unlock()
	for _, it := range rest {
		it.resume(func(*engine.Message) error { return err })
	}
}

// Reader is one reader of a link, and the acker of what it read. One goroutine reads; another one may ack.
type Reader struct {
	link *Link
	at   *offer // an offer that is not fully taken yet

	mu     sync.Mutex    // guards the fields below
	yields chan struct{} // closed while it yields to its successor
	out    []func(edit func(*engine.Message) error)
	free   []uint64 // unused indexes of out
}

// NewReader makes a reader, after AddReader.
func (l *Link) NewReader() *Reader { return &Reader{link: l, yields: make(chan struct{})} }

// Yield makes Read return engine.ErrEnd until resume is called.
func (r *Reader) Yield() (resume func()) {
	close(r.yielding())
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.yields = make(chan struct{})
	}
}

func (r *Reader) yielding() chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.yields
}

// Read waits for an offer, and takes as many messages as b has room for. It returns [engine.ErrEnd] if all writers
// are closed, or if it yields.
func (r *Reader) Read(ctx context.Context, b *engine.Batch) error {
	select {
	case <-r.yielding():
		return engine.ErrEnd
	default:
	}
	for taken := false; b.Room() > 0; taken = true {
		if r.at == nil && !r.next(ctx, !taken) {
			if taken {
				return nil
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return engine.ErrEnd
		}
		items, last := r.at.takeItems(b.Room())
		if last {
			r.at = nil
		}
		for _, it := range items {
			m := b.Add(it.body)
			m.Meta, m.Key, m.Ref = it.meta, it.key, r.number(it.resume)
		}
	}
	return nil
}

func (r *Reader) next(ctx context.Context, wait bool) bool {
	if !wait {
		select {
		case r.at = <-r.link.offers:
		default:
		}
		return r.at != nil
	}
	select {
	case r.at = <-r.link.offers:
	case <-ctx.Done():
	case <-r.yielding():
	case <-r.link.none(&r.link.writers):
	}
	return r.at != nil
}

func (r *Reader) number(resume func(func(*engine.Message) error)) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.free); n > 0 {
		i := r.free[n-1]
		r.free = r.free[:n-1]
		r.out[i] = resume
		return i
	}
	r.out = append(r.out, resume)
	return uint64(len(r.out) - 1)
}

// Ack gives messages in the writing pipeline the fate that they had in this one.
func (r *Reader) Ack(_ context.Context, results []engine.Result) ([]engine.Result, error) {
	for _, res := range results {
		r.mu.Lock()
		resume := r.out[res.Ref]
		r.out[res.Ref] = nil
		r.free = append(r.free, res.Ref)
		r.mu.Unlock()
		resume(r.link.fate(res))
	}
	return nil, nil
}

// fate returns what a result does to the message in the writing pipeline.
func (l *Link) fate(res engine.Result) func(*engine.Message) error {
	switch {
	case res.Fate == engine.Delivered:
		return nil
	case res.Fate == engine.Filtered, res.Fate == engine.DeadLettered, res.Fate == engine.Dropped && res.Err == nil:
		return func(m *engine.Message) error {
			m.EndAs(res.Fate)
			return nil
		}
	}
	err := &engine.Error{Class: engine.Transient, Delay: res.Delay, Err: fmt.Errorf("pipe %s: %s", l.name, res.Fate)}
	if res.Err != nil {
		err.Class, err.Err = res.Err.Class, fmt.Errorf("pipe %s: %w", l.name, res.Err.Err)
		if place := res.Err.Place(); place != "" {
			err.Err = fmt.Errorf("pipe %s: %s: %w", l.name, place, res.Err.Err)
		}
	}
	return func(*engine.Message) error { return err }
}

// Close leaves offers to the other readers. If there are none, EndReader fails the offers.
func (r *Reader) Close() {
	if r.at != nil {
		r.at.back <- struct{}{}
		r.at = nil
	}
}
