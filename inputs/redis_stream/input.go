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

// maxFetched is the maximum number of entries that one read asks for.
const maxFetched = 1000

type input struct {
	*source.Session[*conn]
	cfg      Config
	log      *slog.Logger
	consumer string

	mu       sync.Mutex // guards the fields below
	next     uint64
	held     map[uint64]*entry   // entries that were read and are not settled, by Ref
	refs     map[entryKey]uint64 // their Refs
	rest     []*entry            // entries that were fetched and not yet read; they have no Ref
	lastRead map[string]string   // the id of the last new entry of each stream
}

// entryKey identifies an entry.
type entryKey struct{ key, id string }

// entry is an entry that is delivered to this consumer and not settled.
type entry struct {
	redis.Entry
	key     string
	count   int       // deliveries
	renewed time.Time // Redis counts its idle time from then
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
		refs:     map[entryKey]uint64{},
		lastRead: map[string]string{}}
	in.Session = source.NewSession(in.connect)
	return in, nil
}

// Traits says that the source settles each entry separately.
func (in *input) Traits() engine.Traits { return engine.Traits{TakesBack: engine.TakesOne} }

// connect makes a connection, and creates missing groups.
func (in *input) connect(ctx context.Context) (*conn, error) {
	s, err := in.cfg.Session()
	if err != nil {
		return nil, err
	}
	c := &conn{Session: s, in: in}
	c.fetch = fetch{input: in, conn: c, own: map[string]string{}, cursor: map[string]string{}}
	for _, key := range in.cfg.Key {
		if err := in.ensure(ctx, c.Client, key, in.cfg.startID()); err != nil {
			return nil, errors.Join(err, c.Close(ctx, false))
		}
		c.fetch.own[key] = "0"
	}
	return c, nil
}

// ensure creates the group of a stream if it is missing and create is set. Otherwise it checks that the server answers.
func (in *input) ensure(ctx context.Context, client *redis.Client, key, from string) error {
	if !in.cfg.Create {
		return redis.Explain(client.Ping(ctx).Err(), "reach the server") // the first read reports a missing group
	}
	_, err := client.Ask(ctx, 2, "xgroup", "create", key, in.cfg.Group, from, "mkstream")
	if redis.HasErrorPrefix(err, "BUSYGROUP") {
		return nil
	}
	return redis.Explain(err, "create group "+in.cfg.Group+" of stream "+key)
}

// Read returns fetched entries, and fetches if there are none.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	c, room := in.Conn(), min(b.Room(), maxFetched)
	for !in.addFetched(b) && ctx.Err() == nil {
		if err := c.Fetch(ctx, func(ctx context.Context) error { return c.fetch.fetch(ctx, room) }); err != nil {
			in.addFetched(b)
			return in, err
		}
	}
	return in, nil
}

// addFetched adds fetched entries to b, as many as there is room for. It reports whether it has added any.
func (in *input) addFetched(b *engine.Batch) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	var s *redis.Source
	key, added, now := "", false, time.Now()
	for ; len(in.rest) > 0 && b.Room() > 0; in.rest = in.rest[1:] {
		e := in.rest[0]
		if now.Sub(e.renewed) >= in.cfg.ClaimAfter { // another consumer may have claimed it; if not, the next scan finds it
			continue
		}
		if s == nil || key != e.key {
			key, s = e.key, redis.SourceOf(e.key, in.cfg.Field, len(in.rest))
		}
		added = true
		in.add(b, s, e)
	}
	if len(in.rest) == 0 {
		in.rest = nil
	}
	return added
}

// add adds a message for an entry. in.mu is held.
func (in *input) add(b *engine.Batch, s *redis.Source, e *entry) {
	payload, err := e.Payload(in.cfg.Field)
	m := b.Add(payload)
	in.next++
	e.ref = in.next
	in.held[e.ref], in.refs[entryKey{e.key, e.ID}] = e, e.ref
	m.Ref, m.Attempt, m.Meta = e.ref, e.count, s.Add(e.Entry, e.count)
	e.Fields = nil // the metadata has them
	switch limit := in.cfg.MaxDeliver; {
	case err != nil:
		m.Fail(err)
	case limit > 0 && e.count > limit:
		m.Fail(engine.Errorf(engine.Rejected, "entry %s of stream %s was delivered %d times, more than max_deliver, %d",
			e.ID, e.key, e.count, limit))
	}
}

// Close closes the connection. If it is the last one, entries that were fetched and not read are handed back.
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
