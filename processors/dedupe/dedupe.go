// Package dedupe is the processor `dedupe`: it drops messages whose key has been
// delivered before. Start at [Config].
package dedupe

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/state/twophase"
)

// Config configures the dedupe processor.
type Config struct {
	Key     expr.Expr        `yaml:"key,main" check:"required" doc:"Messages with equal keys are duplicates. A message whose key is nil passes."`
	Window  time.Duration    `yaml:"window" check:"min=1ms" default:"10m" doc:"How long a key is remembered, from the delivery of its message."`
	Cache   engine.CacheName `yaml:"cache" doc:"Cache in resources.caches that remembers the keys, shared by all steps that name it; by default the step's own memory, which is lost on a restart or reload."`
	MaxKeys int              `yaml:"max_keys" check:"min=1" doc:"Keys that the step's own memory remembers, 1000000 by default, about 80 bytes each; the oldest are forgotten first. A cache has its own limit."`
}

// CheckConfig rejects a limit that would have no effect.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	if c.Cache != "" && c.MaxKeys > 0 {
		report("max_keys", "limits the step's own memory, but there is a cache", "set it in the cache")
	}
}

// Words returns words of other systems, with what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{"ttl": "write `window`", "fields": "write `key`, or [a, b] for several",
		"id": "write `key`", "drop_on_err": "write `on_error: continue` beside `dedupe`"}
}

const maxKeys = 1_000_000

const help = `
Drops messages whose key has been seen before. A key counts as seen once its message is
delivered or filtered. A message that fails, even into a dead letter, and arrives again
is not a duplicate; an equal one that arrives meanwhile waits until the first has ended.

    - dedupe: id
    - dedupe: {key: "[customer, order]", window: 1h}
    - dedupe: {key: id, window: 24h, cache: seen}

If messages wait for each other in a cycle, such as parts of split messages, one does
not wait: it is dropped, since the other is in flight.

Processes that name the same redis, nats_kv or sql cache share their keys: a message waits
while another process has one with its key in flight. The keys of a process that has died
become free after 30 seconds; see the guide: flowd docs states.
`

// Traits reports that the step stores keys once their messages are delivered.
func (Config) Traits() engine.Traits { return engine.Traits{Effects: engine.EffectsOnDelivery} }

func init() {
	engine.Register(engine.Processors, "dedupe", help, Config{}, build)
}

func build(c Config, env engine.Env) (engine.Processor, error) {
	d := &dedupe{key: c.Key, window: c.Window, cache: string(c.Cache)}
	if c.Cache == "" {
		d.own = true
		d.keys = twophase.Join(env, "", newMemory(cmp.Or(c.MaxKeys, maxKeys)))
		return d, nil
	}
	cache, err := env.Cache(string(c.Cache))
	if err != nil {
		return nil, err
	}
	d.keys = twophase.Join(env, string(c.Cache), cache)
	return d, nil
}

var (
	_ engine.Closer   = (*dedupe)(nil)
	_ engine.Traited  = (*dedupe)(nil)
	_ engine.Troubled = (*dedupe)(nil)
)

type dedupe struct {
	key    expr.Expr
	window time.Duration
	keys   *twophase.Use
	own    bool // keys are in the step's own memory
	cache  string
}

// Traits reports that the step adds keys to a cache.
func (d *dedupe) Traits() engine.Traits {
	return engine.Traits{Undoes: true, Keeps: engine.Keeping{Name: d.cache, Key: &d.key, Reads: true, Writes: true},
		Together: d.keys.Together()}
}

// work is the scratch memory of one call; calls reuse it.
type work struct {
	adds []twophase.Add
	text []byte
}

var works = sync.Pool{New: func() any { return new(work) }}

// Process drops messages that are known to be duplicates.
func (d *dedupe) Process(ctx context.Context, b *engine.Batch) error {
	w := works.Get().(*work)
	for m := range b.All() {
		text, ok, err := d.key.AppendKey(w.text[:0], m)
		w.text = text
		switch {
		case err != nil:
			m.Fail(err)
		case ok:
			w.adds = append(w.adds, twophase.Add{M: m, Key: d.name(text), Value: yes, TTL: d.window})
		}
	}
	if len(w.adds) > 0 {
		d.keys.Add(ctx, w.adds, keep)
	}
	clear(w.adds)
	w.adds = w.adds[:0]
	works.Put(w)
	return nil
}

// yes is the value stored for each key.
var yes = []byte("true")

func keep(m *engine.Message, added bool) error {
	if !added {
		m.Drop()
	}
	return nil
}

// longKey is the length, in bytes, from which a key is replaced by its hash.
const longKey = 64

// name returns a key's name in the cache.
func (d *dedupe) name(text []byte) string {
	switch {
	case d.own:
		f := fingerprintOf(text)
		return string(f[:])
	case len(text) <= longKey:
		return string(text)
	}
	sum := sha256.Sum256(text)
	return "sha256:" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// Close discards the keys of messages that have not been delivered.
func (d *dedupe) Close(ctx context.Context) error { return d.keys.Close(ctx) }

// Trouble reports that the cache can't be written.
func (d *dedupe) Trouble() *engine.Trouble { return d.keys.Trouble() }
