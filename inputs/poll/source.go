package poll

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/flowd-io/flowd/engine/polling"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/timing"
)

// The back-off of a source that fails: with full jitter, doubling.
const (
	firstBackoff = time.Second
	mostBackoff  = 30 * time.Second
	// standing is how long a connection must last before the back-off starts over.
	standing = time.Second
)

// state says what happens to a source's next read.
type state uint8

const (
	reads    state = iota
	restarts       // it has failed
	ended          // it has no more messages
	gone           // it failed for good
	retired        // its queue no longer exists
)

// source is one of the inputs. Its goroutine reads when it is granted slots, and reopens the input after a failure.
type source struct {
	in        *input
	polled    *polling.Source
	label     string // the metadata `source`
	part      engine.Input
	withholds bool
	listed    bool       // by a pattern
	grants    chan grant // room for one

	life context.Context // set when it is started, as are end and quit
	end  context.CancelFunc
	quit chan struct{} // closed when its goroutine has ended

	// Of its goroutine, and of Open and Close, which run before and after it.
	opened  bool
	stopped bool
	batch   *engine.Batch // of the last read, to be reused
	told    *acker        // of the current connection
	meta    labelled      // of the message before

	// Guarded by in.mu.
	state     state
	err       error         // why it failed for good
	polling   bool          // a read is in progress
	waits     bool          // and has lasted for longer than patience
	freed     bool          // a message was settled since it began, where the source withholds others
	since     time.Time     // when it began
	dealt     int           // slots for the next read
	expected  int           // messages that the current read may return
	gives     int           // messages that a read brings at the most, going by the last; 0: not known
	slots     int           // granted to the current read
	offered   int           // that were free for all sources then
	cancel    func()        // ends the current read
	quick     time.Duration // a read takes that need not wait; 0: not known
	due       time.Time     // not to be read before
	failures  int           // in a row
	connected time.Time     // when it was opened
	unsettled int           // messages in flight
	received  int64         // messages
	failure   error         // of the last read or opening; nil: it succeeded
	held      *held         // what it has read and no Read has taken; nil: nothing
}

// grant lets a source read: ctx ends when reading pauses or ends.
type grant struct {
	ctx   context.Context
	slots int
}

// held is what a read returned. taken is closed when nothing of it is left.
type held struct {
	batch *engine.Batch
	acker engine.Acker
	next  int // the first message that was not taken
	of    int
	taken chan struct{}
	cut   chan struct{} // closed when the rest must go back
}

func (h *held) left() int { return h.of - h.next }

// result is the outcome of one read.
type result struct {
	batch       *engine.Batch
	n           int
	acker       engine.Acker
	err         error
	interrupted bool // its context has ended
}

func (in *input) newSource(name, label string, weight int, part engine.Input) *source {
	return &source{
		in: in, polled: &polling.Source{Name: name, Weight: weight}, label: label, grants: make(chan grant, 1),
		part: part, withholds: engine.TraitsOf(part).Withholds,
	}
}

// prepare opens the source before its goroutine is started.
func (s *source) prepare(ctx context.Context) error {
	s.stopped, s.polling, s.waits, s.dealt = false, false, false, 0
	select {
	case <-s.grants: // of the time before
	default:
	}
	if s.state == gone || s.state == restarts {
		s.state, s.err = reads, nil
	}
	if s.opened || s.listed || s.state == retired {
		return nil
	}
	switch err := opened(ctx, s.part); {
	case engine.Passes(err) && ctx.Err() == nil:
		s.in.mu.Lock()
		defer s.in.mu.Unlock()
		s.failed(err)
		return nil
	case err != nil:
		return fmt.Errorf("source %s: %w", s.polled.Name, err)
	}
	s.opened, s.connected = true, time.Now()
	return nil
}

// loop reads until ctx ends or the source has.
func (s *source) loop(ctx context.Context) {
	for {
		if !s.opened && !s.restart(ctx) {
			return
		}
		var g grant
		select {
		case g = <-s.grants:
		case <-ctx.Done():
			return
		}
		s.batch = s.batch.Reset(g.slots)
		r := s.read(g)
		s.in.answered(s, r)
		if r.n > 0 {
			s.hold(ctx)
		}
		if r.err != nil && !s.goesOn(ctx) {
			return
		}
	}
}

// over says that its goroutine has ended, or never was; in.mu is held.
func (s *source) over() bool {
	if s.quit == nil {
		return true
	}
	select {
	case <-s.quit:
		return true
	default:
		return false
	}
}

// read is one read of the source.
func (s *source) read(g grant) (r result) {
	ctx, cancel := context.WithCancel(g.ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	r.acker, r.err = s.call(ctx, s.batch)
	r.batch, r.n, r.interrupted = s.batch, s.batch.Len(), ctx.Err() != nil
	for m := range s.batch.All() {
		m.Meta = s.meta.of(m.Meta, s.label)
	}
	for m := range s.batch.Ended() {
		m.Meta = s.meta.of(m.Meta, s.label)
	}
	if r.interrupted && errors.Is(r.err, context.Canceled) {
		r.err = nil // it was told to return
	}
	if r.acker != nil && !reflect.TypeOf(r.acker).Comparable() {
		r.acker, r.err = nil, engine.Errorf(engine.Permanent,
			"Read returned a %T: Ackers are compared with ==, so it must be a pointer", r.acker)
	}
	return r
}

func (s *source) call(ctx context.Context, b *engine.Batch) (a engine.Acker, err error) {
	if s.told != nil {
		a = s.told.to // of what was added before a panic
	}
	defer recovered(&err)
	return s.part.Read(ctx, b)
}

// labelled is metadata with and without the source's name. Messages with the same
// metadata share it.
type labelled struct{ plain, with engine.Meta }

func (l *labelled) of(m engine.Meta, label string) engine.Meta {
	if m != l.plain || l.with.Len() == 0 {
		*l = labelled{m, m.WithOwn("source", label)}
	}
	return l.with
}

// hold waits until what was read is taken, and hands back what is not.
func (s *source) hold(ctx context.Context) {
	s.in.mu.Lock()
	h := s.held
	s.in.mu.Unlock()
	if h == nil {
		return // it is taken already
	}
	var late <-chan time.Time
	if s.in.traits.TakesBack == engine.TakesOne {
		t := time.NewTimer(holding)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-h.taken:
		return
	case <-h.cut:
	case <-late:
	case <-ctx.Done():
	}
	s.giveBack(h)
}

// letGo says that all that is held was taken; in.mu is held.
func (s *source) letGo() {
	close(s.held.taken)
	s.held = nil
}

// failed records that a read failed, or the source has ended; in.mu is held.
func (s *source) failed(err error) {
	var e *engine.Error
	if err != engine.ErrEnd {
		s.failure = err
	}
	switch {
	case s.state == retired:
	case err == engine.ErrEnd:
		s.state = ended
	case errors.Is(err, engine.ErrGone), errors.As(err, &e) && e.Class == engine.Permanent:
		s.state, s.err = gone, fmt.Errorf("source %s: %w", s.polled.Name, err)
		s.in.log.Error("source has failed for good; the others continue", "source", s.polled.Name, "err", err)
		s.lost(err)
	default:
		s.state = restarts
		s.failures++
		if powerOfTen(s.failures) { // in a row of failures ever less often
			s.in.log.Error("source failed and is restarted", "source", s.polled.Name, "err", err, "attempt", s.failures)
		}
		s.lost(err)
	}
}

func (s *source) lost(err error) {
	s.in.env.Emit(engine.Event{Kind: engine.EventLost, Name: s.event(), Err: err})
}

// event is how events call the source.
func (s *source) event() string { return s.in.env.Name + "." + s.polled.Name }

// goesOn starts the source again if that can help.
func (s *source) goesOn(ctx context.Context) bool {
	s.in.mu.Lock()
	again := s.state == restarts
	s.in.mu.Unlock()
	if !again {
		return false
	}
	if err := s.close(context.WithoutCancel(ctx)); err != nil {
		s.in.log.Debug("close of a failed source", "source", s.polled.Name, "err", err)
	}
	return s.restart(ctx)
}

// restart opens a source that is closed, each time after a longer back-off.
func (s *source) restart(ctx context.Context) bool {
	for {
		s.in.mu.Lock()
		failures := s.failures
		s.in.mu.Unlock()
		if failures > 0 && timing.Sleep(ctx, backoff(failures)) != nil {
			return false
		}
		err := opened(ctx, s.part)
		if ctx.Err() != nil {
			s.opened = s.opened || err == nil
			return false
		}
		s.in.mu.Lock()
		switch {
		case err != nil:
			s.failed(err)
		case s.state != retired:
			s.opened, s.connected, s.state = true, time.Now(), reads
		default:
			s.opened = true
		}
		state := s.state
		s.in.mu.Unlock()
		s.in.poke()
		switch state {
		case restarts:
			continue
		case reads:
			if failures > 0 {
				s.in.env.Emit(engine.Event{Kind: engine.EventConnected, Name: s.event()})
			}
			return true
		}
		return false
	}
}

// stop tells the source that no read follows.
func (s *source) stop(ctx context.Context) error {
	t, ok := s.part.(engine.Stopper)
	if !ok || !s.opened || s.stopped {
		return nil
	}
	s.stopped = true
	return s.named(within(ctx, t.Stop))
}

func (s *source) close(ctx context.Context) error {
	if !s.opened {
		return nil
	}
	s.opened = false
	return s.named(closed(ctx, s.part))
}

func (s *source) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("source %s: %w", s.polled.Name, err)
}

func backoff(failures int) time.Duration {
	return 1 + rand.N(min(firstBackoff<<min(failures-1, 10), mostBackoff))
}

func powerOfTen(n int) bool {
	for n%10 == 0 {
		n /= 10
	}
	return n == 1
}
