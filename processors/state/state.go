// Package state is the processor `state`: it keeps values by key, which each message passes on to the next one with
// the same key. Start at [Config].
//
// A book is the state in a store as the pipelines of this process see it. It has a chain for each key that messages
// in flight have changed, with an entry per message. A chain stores the state that its delivered messages make, one
// after the other, whatever happens to the others.
package state

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/components/fields"
	"github.com/flowd-io/flowd/internal/state/caches/memory"
	"github.com/flowd-io/flowd/internal/state/waits"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the state processor.
type Config struct {
	Key      expr.Expr             `yaml:"key" check:"required" doc:"Messages with equal keys share a state. nil fails the message."`
	Set      schema.Map[expr.Expr] `yaml:"set" check:"required" doc:"Names and their new values, in the order written: state(\"name\") is the value that the previous message has set, or a line above; nil if there is none. nil removes the name."`
	Into     fields.Path           `yaml:"into" doc:"Field for the new state, as an object."`
	Wait     bool                  `yaml:"wait" doc:"Makes a message wait until the earlier messages with its key are delivered, filtered or failed: the state that it finds is then final. Each key is as slow as its deliveries, including the time that batches stay open."`
	TTL      time.Duration         `yaml:"ttl" check:"min=1ms" doc:"How long a state is kept after the delivery of the last message that changed it; by default as long as the cache does, in the step's own memory without a limit."`
	Cache    engine.CacheName      `yaml:"cache" doc:"Cache in resources.caches that keeps the state, by key, shared by all steps that name it; by default the step's own memory, which is lost on a restart or reload."`
	MaxKeys  int                   `yaml:"max_keys" check:"min=1" doc:"Keys that the step's own memory keeps, 100000 by default; the least recently used are forgotten first. A cache has its own limit."`
	MaxBytes schema.Size           `yaml:"max_bytes" check:"min=1MiB" doc:"Bytes that the step's own memory keeps, 64MiB by default; the least recently used keys are forgotten first. A cache has its own limit."`
}

// CheckConfig rejects limits that would have no effect, and a state without values.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	if c.Cache != "" && c.MaxKeys > 0 {
		report("max_keys", "limits the step's own memory, but there is a cache", "set it in the cache")
	}
	if c.Cache != "" && c.MaxBytes > 0 {
		report("max_bytes", "limits the step's own memory, but there is a cache", "set it in the cache")
	}
	if c.Set.Len() == 0 {
		report("set", "needs at least one line", `write name: expression, such as count: '(state("count") ?? 0) + 1'`)
	}
}

// Words returns words of other systems, with what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{"by": "write `key`", "group_by": "write `key`", "window": "write `ttl`",
		"values": "write `set`",
		"size":   "write `max_keys`", "store": "write `cache`"}
}

const help = `
Keeps values per key, which the messages of that key pass on to each other: counters,
sums, the last value. state("name") is the value that the previous message left, or
nil; in later steps and outputs it is the new one.

    processors:
      - state:
          key: customer
          set: {orders: '(state("orders") ?? 0) + 1'}
      - set: {order_number: 'state("orders")'}
    engine:
      order_by: customer

A state changes for good when its message is delivered or filtered. A message that fails,
even into a dead letter, leaves no trace: for those in flight after it, set is evaluated
again, without it. What they have already sent stays as it was. Where that matters, as
for a filter that passes only changes, write wait: true.

With order_by on the same key, messages find what those read before them left; otherwise
they take turns as they arrive. Parts of one message do not wait for each other. If messages
wait for each other in a circle, such as parts of split messages at two steps, one does not
wait: it finds the state as it is.

A message is acknowledged to its source once its state is in the cache. After a crash
messages may be delivered, and counted, again; none that was acknowledged is missing.

See flowd docs states. A state is limited to 1 MiB. Expressions may be evaluated more
than once: received_at() stays the same, now() does not.
`

// Traits reports that state is saved once messages are delivered, and the names in it.
func (c Config) Traits() engine.Traits {
	t := engine.Traits{Effects: engine.EffectsOnDelivery}
	t.Keeps.Waits = c.Wait
	for name := range c.Set.All() {
		t.Keeps.Names = append(t.Keeps.Names, name)
	}
	return t
}

func init() {
	engine.Register(engine.Processors, "state", help, Config{}, build)
}

func build(c Config, env engine.Env) (engine.Processor, error) {
	if c.Wait && env.Inside {
		return nil, errors.New("messages can't wait inside another step (remove `wait`, or write this under the pipeline's `processors`)")
	}
	s := &step{Config: c, inside: env.Inside}
	for name, e := range c.Set.All() {
		s.lines = append(s.lines, line{name, e})
	}
	if c.Cache != "" {
		cache, err := env.Cache(string(c.Cache))
		if err != nil {
			return nil, err
		}
		graph := waits.Of(env.Shared)
		s.book = engine.Common(env.Shared, bookOf{cache}, func() *book { return newBook(cache, string(c.Cache), graph, env.Log) })
		return s, nil
	}
	own, err := memory.New(memory.Config{MaxKeys: cmp.Or(c.MaxKeys, 100_000), MaxBytes: cmp.Or(c.MaxBytes, 64<<20)})
	if err != nil {
		return nil, err
	}
	s.book = newBook(own, "", waits.Of(env.Shared), env.Log)
	return s, nil
}

// bookOf is the key of a cache's book among shared objects.
type bookOf struct{ cache engine.Cache }

var (
	_ engine.Closer   = (*step)(nil)
	_ engine.Traited  = (*step)(nil)
	_ engine.Troubled = (*step)(nil)
)

type step struct {
	Config
	lines  []line
	book   *book
	inside bool // inside another step, whose failure undoes changes
	joined bool // it has queued a write; guarded by the book's lock
}

// line sets a name to a value.
type line struct {
	name string
	expr expr.Expr
}

// Traits reports whose state the step keeps.
func (s *step) Traits() engine.Traits {
	names := make([]string, len(s.lines))
	for i := range s.lines {
		names[i] = s.lines[i].name
	}
	return engine.Traits{Undoes: true, Keeps: engine.Keeping{
		Name: string(s.Cache), Key: &s.Key, Reads: true, Writes: true, Folds: true, Names: names,
	}}
}

// Process gives each message the state of its key.
func (s *step) Process(ctx context.Context, b *engine.Batch) error {
	messages, keys := make([]*engine.Message, 0, b.Len()), make([]string, 0, b.Len())
	for m := range b.All() {
		key, err := s.key(m)
		if err != nil {
			m.Fail(err)
			continue
		}
		messages, keys = append(messages, m), append(keys, key)
	}
	if s.book.behind != nil {
		if err := s.book.behind.Outage(); err != nil {
			return err
		}
	}
	chains := s.book.acquireChains(ctx, keys)
	defer s.book.release(chains)
	for i, m := range messages {
		if err := s.enter(ctx, m, chains[i]); err != nil {
			m.Fail(err)
		}
	}
	return nil
}

// longKey is the length, in bytes, from which a key is replaced by its hash.
const longKey = 64

// key returns the name of a message's key in the store.
func (s *step) key(m *engine.Message) (string, error) {
	var room [longKey]byte
	text, ok, err := s.Key.AppendKey(room[:0], m)
	switch {
	case err != nil:
		return "", err
	case !ok:
		return "", engine.Errorf(engine.Expression,
			"the key %s is nil (if that is intended, guard the step with `when`)", s.Key.String())
	case len(text) <= longKey:
		return "state:" + string(text), nil
	}
	sum := sha256.Sum256(text)
	return "state:sha256:" + base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// declares reports whether the step sets a name.
func (s *step) declares(name string) bool {
	return slices.ContainsFunc(s.lines, func(l line) bool { return l.name == name })
}

// next evaluates the step for m. m reads the state as it grows, and afterwards the new one.
func (s *step) next(m *engine.Message, now object) (*left, error) {
	before := m.Notes()
	l := &left{step: s, now: slices.Clone(now)}
	m.SetNotes(before.With(noteKey{}, l))
	for i := range s.lines {
		if err := s.lines[i].apply(m, l); err != nil {
			m.SetNotes(before)
			return nil, err
		}
	}
	if n := l.now.size(); n > maxState {
		m.SetNotes(before)
		return nil, engine.Errorf(engine.TooLarge, "the state of this key would take %d bytes, but may take %d (keep less in it)", n,
			maxState)
	}
	return l, nil
}

// Trouble reports that the cache is unreachable.
func (s *step) Trouble() *engine.Trouble {
	if s.book.behind == nil {
		return nil
	}
	return s.book.behind.Trouble()
}

// Close undoes the changes of unsettled messages, and waits until the others are in the cache.
func (s *step) Close(ctx context.Context) error { return s.book.close(ctx, s) }
