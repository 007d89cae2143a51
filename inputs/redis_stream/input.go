package redisstream

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/queue/redis"
)

// mostFetched bounds what one read asks for.
const mostFetched = 1000

type input struct {
	cfg      Config
	log      *slog.Logger
	consumer string

	start   redis.Starting
	conn    atomic.Pointer[conn] // acks may arrive after it was replaced, or closed
	stopped atomic.Bool          // no Read follows

	mu    sync.Mutex // guards the fields below
	next  uint64
	held  map[uint64]*entry // read and not settled, by Ref
	refs  map[spot]uint64   // of them
	rest  []*entry          // fetched and not yet read; they have no Ref
	place map[string]string // the last new entry of each stream
}

// spot names an entry.
type spot struct{ key, id string }

// entry is one that this consumer has.
type entry struct {
	redis.Entry
	key     string
	count   int       // deliveries
	renewed time.Time // since when it is idle, for Redis
	ref     uint64
}

// conn is one opening of the input.
type conn struct {
	*redis.Session
	fetch fetch // used by one goroutine at a time
}

var (
	_ engine.Opener  = (*input)(nil)
	_ engine.Closer  = (*input)(nil)
	_ engine.Stopper = (*input)(nil)
	_ engine.Traited = (*input)(nil)
	_ engine.Acker   = (*input)(nil)
	_ engine.Leaser  = (*input)(nil)
)

func newInput(c Config, env engine.Env) (engine.Input, error) {
	return &input{cfg: c, log: env.Log, consumer: redis.Consumer(c.Consumer, env), held: map[uint64]*entry{},
		refs:  map[spot]uint64{},
		place: map[string]string{}}, nil
}

// Traits says that each entry is acknowledged by itself.
func (in *input) Traits() engine.Traits { return engine.Traits{TakesBack: engine.TakesOne} }

// Open finds the group of each stream, or creates it.
func (in *input) Open(ctx context.Context) error { return in.start.Opened(in.open(ctx)) }

func (in *input) open(ctx context.Context) error {
	s, err := in.cfg.Session(ctx)
	if err != nil {
		return err
	}
	c := &conn{Session: s}
	c.fetch = fetch{input: in, conn: c, own: map[string]string{}, cursor: map[string]string{}}
	for _, key := range in.cfg.Key {
		if err := in.ensure(ctx, c.Client, key, in.cfg.from()); err != nil {
			c.Leave()
			c.Close()
			return err
		}
		c.fetch.own[key] = "0"
	}
	in.stopped.Store(false)
	in.conn.Store(c)
	return nil
}

// ensure creates the group of a stream if it is missing, unless somebody else is to do that.
func (in *input) ensure(ctx context.Context, client *redis.Client, key, from string) error {
	if !in.cfg.Create {
		return redis.Explain(client.Ping(ctx).Err(), "reach the server") // the first read says whether it is there
	}
	_, err := client.Ask(ctx, 2, "xgroup", "create", key, in.cfg.Group, from, "mkstream")
	if redis.Says(err, "BUSYGROUP") {
		return nil
	}
	return redis.Explain(err, "create group "+in.cfg.Group+" of stream "+key)
}

// Read gives what was fetched, and fetches if there is nothing. What is fetched and not read stays with this consumer.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	if err := in.start.Failed(); err != nil {
		return nil, err
	}
	c, room := in.conn.Load(), min(b.Room(), mostFetched)
	for !in.give(b) && ctx.Err() == nil {
		if err := c.Fetch(ctx, func(ctx context.Context) error { return c.fetch.some(ctx, room) }); err != nil {
			in.give(b)
			return in, err
		}
	}
	return in, nil
}

// give adds what was fetched, as far as there is room; false: there was nothing.
func (in *input) give(b *engine.Batch) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	var s *redis.Source
	key, given, now := "", 0, time.Now()
	for ; len(in.rest) > 0 && b.Room() > 0; in.rest = in.rest[1:] {
		e := in.rest[0]
		if now.Sub(e.renewed) >= in.cfg.ClaimAfter { // another consumer may have it; who looks next finds it
			continue
		}
		if s == nil || key != e.key {
			key, s = e.key, redis.SourceOf(e.key, in.cfg.Field, len(in.rest))
		}
		given++
		in.add(b, s, e)
	}
	if len(in.rest) == 0 {
		in.rest = nil
	}
	return given > 0
}

// add makes a message of an entry. in.mu is held.
func (in *input) add(b *engine.Batch, s *redis.Source, e *entry) {
	payload, err := e.Payload(in.cfg.Field)
	m := b.Add(payload)
	in.next++
	e.ref = in.next
	in.held[e.ref], in.refs[spot{e.key, e.ID}] = e, e.ref
	m.Ref, m.Attempt, m.Meta = e.ref, e.count, s.Add(e.Entry, e.count)
	e.Fields = nil // the metadata has them
	switch most := in.cfg.MaxDeliver; {
	case err != nil:
		m.Fail(err)
	case most > 0 && e.count > most:
		m.Fail(engine.Errorf(engine.Rejected, "entry %s of stream %s was delivered %d times, more than max_deliver, %d",
			e.ID, e.key, e.count, most))
	}
}

// Stop says that no Read follows.
func (in *input) Stop(context.Context) error {
	in.stopped.Store(true)
	return nil
}

// Close ends the connections. What was fetched and not read is handed back, unless the input has failed and goes on.
func (in *input) Close(ctx context.Context) error {
	c := in.conn.Load()
	if c == nil {
		return nil
	}
	c.Leave()
	in.mu.Lock()
	back := in.rest
	in.rest = nil // the next opening reads them as this consumer's own
	in.mu.Unlock()
	var err error
	if in.stopped.Load() {
		_, _, err = in.handBack(ctx, c, back)
	}
	return errors.Join(err, c.Close())
}
