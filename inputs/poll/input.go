package poll

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine/polling"

	"github.com/flowd-io/flowd/engine"
)

const (
	// After this time, a read counts as one of an empty source: a read that waits for its
	// first message keeps no slots from other sources.
	leastPatience = 20 * time.Millisecond
	firstPatience = 50 * time.Millisecond // while nothing is known about the source
	mostPatience  = 250 * time.Millisecond
	// leastPause is the shortest time between two reads of an empty source.
	leastPause = 100 * time.Millisecond
	// idling is how long a Read with little room waits for empty sources. The next Read may
	// have more room.
	idling = time.Second
	// holding is how long messages that were read wait for room in the pipeline. Then they
	// are returned to their source, if it takes them back.
	holding = 10 * time.Second
)

// input reads from sources. Each source has a goroutine that reads when it is granted slots. Read grants slots and collects the
// messages.
type input struct {
	env      engine.Env
	log      *slog.Logger
	pause    time.Duration // of a source that was empty
	refresh  time.Duration
	listings []*listing
	traits   engine.Traits
	wake     chan struct{} // has room for one: something has changed

	life    context.Context // of the goroutines, from Open to Stop or Close
	end     context.CancelFunc
	pollers sync.WaitGroup

	mu       sync.Mutex // guards the fields below, and the strategy
	strategy polling.Strategy
	sources  []*source // in the order written; those of a listing by name
	known    map[*polling.Source]*source
	ready    []*source // hold messages that they have read, oldest first
	room     int       // of the current Read
	most     int       // the largest so far
	active   context.Context
	rest     context.CancelFunc // ends active
	open     []*polling.Source  // of the last deal; its memory is used again
}

var (
	_ engine.Opener  = (*input)(nil)
	_ engine.Closer  = (*input)(nil)
	_ engine.Stopper = (*input)(nil)
	_ engine.Traited = (*input)(nil)
	_ engine.Sourced = (*input)(nil)
)

func newPoll(s polling.Strategy, env engine.Env) *input {
	return &input{strategy: s, env: env, log: env.Log, known: map[*polling.Source]*source{},
		wake: make(chan struct{}, 1)}
}

// insert inserts a source at a place. in.mu is held, or nothing runs yet.
func (in *input) insert(at int, s *source) {
	in.sources = slices.Insert(in.sources, at, s)
	in.known[s.polled] = s
}

// Open opens all sources, and reports all that do not open. Sources of a pattern are opened by their goroutines: there may be many,
// and some may no longer exist by then.
func (in *input) Open(ctx context.Context) error {
	in.life, in.end = context.WithCancel(context.Background())
	in.active, in.rest = context.WithCancel(in.life)
	var errs []error
	for _, l := range in.listings {
		errs = append(errs, in.first(ctx, l))
	}
	for _, s := range in.sources {
		errs = append(errs, s.prepare(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return errors.Join(err, in.Close(ctx))
	}
	for _, s := range in.sources {
		if s.state != retired {
			in.start(s)
		}
	}
	for _, l := range in.listings {
		in.pollers.Go(func() { in.watch(in.life, l) })
	}
	return nil
}

func (in *input) start(s *source) {
	s.life, s.end = context.WithCancel(in.life)
	s.quit = make(chan struct{})
	in.pollers.Go(func() {
		defer close(s.quit)
		s.loop(s.life)
	})
}

// Read grants slots to sources, and collects what one of them has read. Each batch comes from one source, so that its results go
// to that source's acker.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	until := in.begin(b.Room())
	defer in.finish()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		acker, took, err := in.take(b)
		if took || err != nil {
			return acker, err
		}
		if ctx.Err() != nil {
			return in.leave(b)
		}
		now := time.Now()
		if !until.IsZero() && !now.Before(until) {
			return nil, nil
		}
		timer.Reset(earlier(in.deal(now), until).Sub(now))
		select {
		case <-in.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// begin records the room of a Read, and returns how long the Read should wait: zero means without limit.
func (in *input) begin(room int) (until time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.room = room
	if in.most = max(in.most, room); room < in.most {
		until = time.Now().Add(idling)
	}
	if in.active.Err() != nil && in.life.Err() == nil { // reading was paused
		in.active, in.rest = context.WithCancel(in.life)
	}
	return until
}

func (in *input) finish() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.room = 0
}

// leave ends the reads in progress, because reading pauses or ends, and collects what they still return.
func (in *input) leave(b *engine.Batch) (engine.Acker, error) {
	in.mu.Lock()
	in.rest()
	in.mu.Unlock()
	late := time.NewTimer(time.Second)
	defer late.Stop()
	for in.polling() {
		select {
		case <-in.wake:
		case <-late.C:
			return nil, nil // a source ignores its context
		}
	}
	acker, _, _ := in.take(b)
	return acker, nil
}

func (in *input) polling() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.ContainsFunc(in.sources, func(s *source) bool { return s.polling })
}

// poke wakes Read.
func (in *input) poke() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// take moves the messages of the first ready source to the batch, or of several sources if none needs results. An error says that
// no messages will follow.
func (in *input) take(b *engine.Batch) (acker engine.Acker, took bool, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.ready) > 0 && b.Room() > 0 {
		s := in.ready[0]
		if took && (acker != nil || s.held.acker != nil) {
			break
		}
		n := b.Take(s.held.batch, s.held.next)
		if took, acker = true, s.held.acker; acker != nil {
			s.unsettled += n
		}
		switch s.held.next += n; {
		case s.held.left() == 0:
			s.letGo()
			in.ready = in.ready[1:]
		case s.withholds: // messages that withhold each other must be in one Read
			close(s.held.cut)
			in.ready = in.ready[1:]
		}
	}
	if took {
		return acker, true, nil
	}
	return nil, false, in.over()
}

// over says that all sources have ended, and whether well; in.mu is held.
func (in *input) over() error {
	if len(in.listings) > 0 {
		return nil
	}
	var errs []error
	for _, s := range in.sources {
		if s.state != ended && s.state != gone {
			return nil
		}
		errs = append(errs, s.err)
	}
	if err := errors.Join(errs...); err != nil {
		return engine.WithClass(engine.Permanent, err)
	}
	return engine.ErrEnd
}

// Stop stops the sources and hands back what no Read has taken.
func (in *input) Stop(ctx context.Context) error {
	if in.life == nil {
		return nil
	}
	return errors.Join(in.quit(ctx), in.each(func(s *source) error { return s.stop(ctx) }))
}

// Close closes the sources; it ends their goroutines where Stop has not.
func (in *input) Close(ctx context.Context) error {
	if in.life == nil {
		return nil
	}
	return errors.Join(in.quit(ctx), in.each(func(s *source) error { return s.close(ctx) }))
}

// quit ends all goroutines.
func (in *input) quit(ctx context.Context) error {
	in.end()
	done := make(chan struct{})
	go func() { in.pollers.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.New("a source does not end when told to")
	}
}

func (in *input) each(f func(*source) error) error {
	in.mu.Lock()
	all := slices.Clone(in.sources)
	in.mu.Unlock()
	var errs []error
	for _, s := range all {
		errs = append(errs, f(s))
	}
	return errors.Join(errs...)
}
