// Package cache is the processor `cache`: it reads and writes values of a cache.
// Start at [Config].
package cache

import (
	"bytes"
	"context"
	"time"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/components/fields"
	"github.com/flowd-io/flowd/internal/state/twophase"
)

// Config configures the cache processor.
type Config struct {
	Get    engine.CacheName `yaml:"get" doc:"Cache in resources.caches to read from."`
	Set    engine.CacheName `yaml:"set" doc:"Instead: cache to write to."`
	Add    engine.CacheName `yaml:"add" doc:"Instead: cache to write to unless the key already has a value."`
	Delete engine.CacheName `yaml:"delete" doc:"Instead: cache to remove the key from."`
	Key    expr.Expr        `yaml:"key" check:"required" doc:"The key: text as it is, anything else as JSON. nil fails the message."`
	Value  expr.Expr        `yaml:"value" doc:"What set and add write, as JSON; true by default for add."`
	TTL    time.Duration    `yaml:"ttl" check:"min=1ms" doc:"How long the value of set or add is kept; by default the cache's own time."`
	Into   fields.Path      `yaml:"into" doc:"Field for the value from get, null if there is none; for add, whether the key was new."`
}

// CheckConfig requires exactly one operation, and rejects fields that it does not use.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	verbs := c.verbs()
	switch len(verbs) {
	case 1:
	case 0:
		report("", "has no operation", "write one of `get: CACHE`, `set: CACHE`, `add: CACHE`, `delete: CACHE`")
		return
	default:
		report(verbs[1], verbs[0]+" and "+verbs[1]+" exclude each other", "write a separate step for each")
		return
	}
	verb := verbs[0]
	writes := verb == "set" || verb == "add"
	if verb == "set" && c.Value.IsZero() {
		report("value", "required", "write what to store, such as `value: this`")
	}
	if verb == "get" && c.Into.IsZero() {
		report("into", "required", "write the field for the value, such as `into: user`")
	}
	if !writes && !c.Value.IsZero() {
		report("value", verb+" writes no value", "remove it, or write `set`")
	}
	if !writes && c.TTL > 0 {
		report("ttl", verb+" writes no value that could expire", "remove it, or set it in the cache")
	}
	if (verb == "set" || verb == "delete") && !c.Into.IsZero() {
		report("into", verb+" has no result", "remove it, or write `get` or `add`")
	}
}

func (c *Config) verbs() (found []string) {
	for _, v := range []struct {
		name  string
		cache engine.CacheName
	}{{"get", c.Get}, {"set", c.Set}, {"add", c.Add}, {"delete", c.Delete}} {
		if v.cache != "" {
			found = append(found, v.name)
		}
	}
	return found
}

// Words returns words of other systems, with what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{
		"resource": "write its name after the operation: `get: CACHE`", "operator": "write it as a key: `get: CACHE`",
		"cache":      "write it after the operation: `get: CACHE`",
		"result_map": "write `into`", "target": "write `into`",
		"default": "write a step `set` after this one: `{x: x ?? DEFAULT}`",
	}
}

const help = `
Reads or writes a value in a cache. Writes reach the cache once their message is
delivered or filtered, and are discarded if it fails, even into a dead letter; this
pipeline's steps see them at once. While another message is about to add a key, it is
not known whether the key is new: a message that asks for it waits. This includes other
processes that add keys to the same redis, nats_kv or sql cache.

With engine.order_by, a step sees what earlier messages with the same order key wrote;
messages of a key then go through the steps one at a time, and wait for one that is
retried. Messages of other keys, and those of a batch or group, go through a
step together: a step does not see values that a later step sets.

    - cache: {get: users, key: user_id, into: user}
    - cache: {set: last, key: id, value: this, ttl: 1h}
    - cache: {add: seen, key: id, into: is_new}
    - cache: {delete: gone, key: id}
`

// Traits reports that the step writes values once their messages are delivered.
func (c Config) Traits() (t engine.Traits) {
	if c.Get == "" {
		t.Effects = engine.EffectsOnDelivery
	}
	return t
}

func init() {
	engine.Register(engine.Processors, "cache", help, Config{}, build)
}

func build(c Config, env engine.Env) (engine.Processor, error) {
	name := string(c.Get + c.Set + c.Add + c.Delete) // exactly one is set
	known, err := env.Cache(name)
	if err != nil {
		return nil, err
	}
	s := &step{Config: c, cache: twophase.Join(env, name, known)}
	s.from, s.bare = c.Value.Path()
	switch {
	case c.Get != "":
		s.run = s.get
	case c.Add != "":
		s.run = s.add
	default:
		s.run = s.write
	}
	return s, nil
}

var (
	_ engine.Closer   = (*step)(nil)
	_ engine.Traited  = (*step)(nil)
	_ engine.Troubled = (*step)(nil)
)

type step struct {
	Config
	cache *twophase.Use
	from  doc.Path // of a value that is just a path, whose text is copied
	bare  bool
	run   func(ctx context.Context, all []call)
}

// call is one message with its key.
type call struct {
	m   *engine.Message
	key string
}

// Process runs the operation for each message.
func (s *step) Process(ctx context.Context, b *engine.Batch) error {
	all := make([]call, 0, b.Len())
	for m := range b.All() {
		key, err := s.key(m)
		if err != nil {
			m.Fail(err)
			continue
		}
		all = append(all, call{m, key})
	}
	s.run(ctx, all)
	return nil
}

func (s *step) key(m *engine.Message) (string, error) {
	v, err := s.Key.Eval(m)
	if err != nil {
		return "", err
	}
	switch v := v.(type) {
	case nil:
		return "", engine.Errorf(engine.Expression,
			"the key %s is nil (if that is intended, guard the step with `when`)", s.Key.String())
	case string:
		if v == "" {
			return "", engine.Errorf(engine.Expression,
				"the key %s is empty (if that is intended, guard the step with `when`)", s.Key.String())
		}
		return v, nil
	}
	text, err := doc.Append(nil, v)
	return string(text), err
}

func (s *step) get(ctx context.Context, all []call) {
	keys := make([]string, len(all))
	for i := range all {
		keys[i] = all[i].key
	}
	type result struct {
		value []byte
		ok    bool
		err   error
	}
	results := make([]result, len(all))
	s.cache.GetAll(ctx, keys, func(i int, value []byte, ok bool, err error) { results[i] = result{value, ok, err} })
	for i, r := range results {
		m, err := all[i].m, r.err
		switch {
		case err != nil:
		case !r.ok:
			err = m.Set(s.Into.Path, nil)
		default:
			err = put(m, s.Into.Path, r.value)
		}
		if err != nil {
			m.Fail(err)
		}
	}
}

// put sets a path to a value, which another program may have written: if it is not JSON, it becomes text.
func put(m *engine.Message, p doc.Path, value []byte) error {
	var d doc.Doc
	d.Reset(value, nil)
	if d.Valid() != nil {
		if !utf8.Valid(value) {
			return engine.Errorf(engine.Decode, "the value in the cache is neither JSON nor UTF-8 text")
		}
		return m.Set(p, string(value))
	}
	return m.Doc().SetRaw(p, bytes.TrimSpace(value))
}

func (s *step) write(ctx context.Context, all []call) {
	writes := make([]twophase.Write, 0, len(all))
	for _, c := range all {
		w := twophase.Write{M: c.m, Key: c.key, TTL: s.TTL, Delete: s.Delete != ""}
		if !w.Delete {
			var err error
			if w.Value, err = s.value(c.m); err != nil {
				c.m.Fail(err)
				continue
			}
		}
		writes = append(writes, w)
	}
	s.cache.Write(ctx, writes)
}

func (s *step) add(ctx context.Context, all []call) {
	adds := make([]twophase.Add, 0, len(all))
	for _, c := range all {
		value, err := s.value(c.m)
		if err != nil {
			c.m.Fail(err)
			continue
		}
		adds = append(adds, twophase.Add{M: c.m, Key: c.key, Value: value, TTL: s.TTL})
	}
	s.cache.Add(ctx, adds, func(m *engine.Message, added bool) error {
		if s.Into.IsZero() {
			return nil
		}
		return m.Set(s.Into.Path, added)
	})
}

// value copies the text: the message's own text would keep the block alive in which it was read.
func (s *step) value(m *engine.Message) ([]byte, error) {
	if s.Value.IsZero() {
		return []byte("true"), nil
	}
	if !s.bare {
		v, err := s.Value.Eval(m)
		if err != nil {
			return nil, err
		}
		return doc.Append(nil, v)
	}
	raw, ok, err := m.Document().Raw(s.from)
	if err != nil || ok {
		return bytes.Clone(raw), err
	}
	return []byte("null"), nil
}

// Traits describes how the step uses its cache.
func (s *step) Traits() engine.Traits {
	t := engine.Traits{Undoes: s.Get == "", Keeps: engine.Keeping{
		Name: string(s.Get + s.Set + s.Add + s.Delete), Key: &s.Key,
		Reads: s.Get != "" || s.Add != "", Writes: s.Get == "",
	}}
	if s.Add != "" {
		t.Together = s.cache.Together()
	}
	return t
}

// Close discards writes of messages that have not been delivered.
func (s *step) Close(ctx context.Context) error { return s.cache.Close(ctx) }

// Trouble reports that the cache can't be written.
func (s *step) Trouble() *engine.Trouble { return s.cache.Trouble() }
