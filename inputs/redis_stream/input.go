package redisstream

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/source"
	"github.com/flowd-io/flowd/internal/systems/queue/redis"
)

// mostFetched bounds what one read asks for.
const mostFetched = 1000

type input struct {
	*source.Session[*conn]
	cfg      Config
	log      *slog.Logger
	consumer string

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

// conn is one connection of the input.
type conn struct {
	*redis.Session
	in    *input
	fetch fetch // used by one goroutine at a time
}

var (
	_ engine.Traited = (*input)(nil)
	_ engine.Acker   = (*input)(nil)
	_ engine.Leaser  = (*input)(nil)
)

func newInput(c Config, env engine.Env) (engine.Input, error) {
	in := &input{cfg: c, log: env.Log, consumer: redis.Consumer(c.Consumer, env), held: map[uint64]*entry{},
		refs:  map[spot]uint64{},
		place: map[string]string{}}
	in.Session = source.NewSession(in.connect)
	return in, nil
}

// Traits says that each entry is acknowledged by itself.
func (in *input) Traits() engine.Traits { return engine.Traits{TakesBack: engine.TakesOne} }

// connect finds the group of each stream, or creates it.
func (in *input) connect(ctx context.Context) (*conn, error) {
	s, err := in.cfg.Session()
	if err != nil {
		return nil, err
	}
	c := &conn{Session: s, in: in}
	c.fetch = fetch{input: in, conn: c, own: map[string]string{}, cursor: map[string]string{}}
	for _, key := range in.cfg.Key {
		if err := in.ensure(ctx, c.Client, key, in.cfg.from()); err != nil {
			return nil, errors.Join(err, c.Close(ctx, false))
		}
		c.fetch.own[key] = "0"
	}
	return c, nil
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
	c, room := in.Conn(), min(b.Room(), mostFetched)
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

// Close ends the connection. After the last one, what was fetched and not read is handed back.
func (c *conn) Close(ctx context.Context, last bool) error {
	in := c.in
	c.Leave()
	in.mu.Lock()
	back := in.rest
	in.rest = nil // the next connection reads them as this consumer's own
	in.mu.Unlock()
	var err error
	if last {
		_, _, err = in.handBack(ctx, c, back)
	}
	return errors.Join(err, c.Client.Close())
}
