// Package nats_kv is the cache `nats_kv`: it keeps values in a key-value bucket of JetStream, which processes share.
// Start at [Config].
package nats_kv //nolint:revive // as the component is called

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/cause"
	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/internal/systems/queue/nats"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Config configures the nats_kv cache.
type Config struct {
	nats.Connect `yaml:",inline"`
	Bucket       string        `yaml:"bucket" check:"required,nonempty" doc:"Bucket with the values."`
	Create       bool          `yaml:"create" doc:"Create the bucket if it is missing. An existing one stays as it is."`
	TTL          time.Duration `yaml:"ttl" check:"min=1ms" doc:"How long a value is kept if its write sets no time; no limit by default."`
	Replicas     int           `yaml:"replicas" check:"min=1,max=5" doc:"Servers in a cluster that keep a new bucket."`
	Storage      string        `yaml:"storage" check:"oneof=file|memory" doc:"Where a new bucket is stored: file, or memory, which a restart of the server empties."`
}

// CheckConfig reports settings that can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Connect.CheckConfig(report)
	if c.Bucket != "" && strings.Trim(c.Bucket, letters) != "" {
		report("bucket", fmt.Sprintf("%q is not a valid bucket name", c.Bucket), "use letters, digits, - and _")
	}
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

// Words are words of other systems, with what to write instead.
func (c *Config) Words() map[string]string {
	words := c.Connect.Words()
	words["default_ttl"], words["history"] = "write `ttl`", "remove it: a new bucket keeps the last value of a key"
	return words
}

const help = `
Keeps values in a NATS JetStream key-value bucket, across restarts and for all processes that reach it, so several can
share a dedupe. The clock of the process that asks decides whether a value has expired; a server from NATS 2.11 on
also removes it. For a shared dedupe, the clocks must agree to within ten seconds.

flowd creates the bucket, unless create is false. An existing bucket may have a TTL of its own, after which its values
are gone whatever ttl is requested. A key with bytes other than letters, digits and - / _ = . is stored as = followed
by its base64url.

    processors:
      - dedupe: {key: id, window: 24h, cache: seen}
    resources:
      caches:
        seen: {nats_kv: {url: "nats://localhost:4222", bucket: seen}}
`

func init() {
	engine.Register(engine.Caches, "nats_kv", help,
		Config{Connect: nats.Defaults, Create: true, Replicas: 1, Storage: "file"},
		func(c Config, env engine.Env) (engine.Cache, error) {
			return &cache{Config: c, log: env.Log, name: env.Name, turn: make(chan struct{}, 1)}, nil
		})
}

var (
	_ engine.Opener      = (*cache)(nil)
	_ engine.Closer      = (*cache)(nil)
	_ engine.Troubled    = (*cache)(nil)
	_ engine.SharedCache = (*cache)(nil)
)

type cache struct {
	Config
	log  *slog.Logger
	name string

	conn   atomic.Pointer[nats.Conn] // for Trouble
	turn   chan struct{}             // room for one: the goroutine that may use opened
	opened *bucket                   // nil: not reached yet
}

// bucket is an opened bucket.
type bucket struct {
	conn    *nats.Conn
	pub     *nats.Publisher
	stream  jetstream.Stream
	prefix  string // of subjects
	expires bool   // the server removes expired values
	gone    atomic.Bool
}

// Open opens or creates the bucket. It does not fail if the server is unreachable.
func (c *cache) Open(ctx context.Context) error {
	_, err := c.bucket(ctx)
	if engine.Passes(err) {
		c.log.Warn("the bucket can't be used yet", "bucket", c.Bucket, "err", err)
		return nil
	}
	return err
}

// Close closes the connection.
func (c *cache) Close(context.Context) error {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	if b := c.opened; b != nil {
		b.pub.Close()
		b.conn.Close()
		c.opened = nil
	}
	return nil
}

// Trouble reports a missing connection.
func (c *cache) Trouble() *engine.Trouble {
	if conn := c.conn.Load(); conn != nil {
		return conn.Trouble("messages wait")
	}
	return nil
}

// bucket returns the opened bucket.
func (c *cache) bucket(ctx context.Context) (*bucket, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, nats.Explain(ctx.Err(), "find bucket "+c.Bucket)
	}
	switch b := c.opened; {
	case b == nil:
	case b.conn.Down() != nil:
		return nil, b.conn.Down()
	case !b.gone.Load():
		return b, nil
	default: // it may have been deleted
		again, err := c.open(ctx, b.conn, b.pub)
		if err == nil {
			c.opened = again
		}
		return again, err
	}
	conn, err := c.Dial(ctx, c.log, cmp.Or(c.name, "flowd cache"))
	if err != nil {
		return nil, cause.Held(err)
	}
	pub, err := nats.NewPublisher(conn)
	if err == nil {
		c.opened, err = c.open(ctx, conn, pub)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	c.conn.Store(conn)
	return c.opened, nil
}

// open opens or creates the bucket. If that fails, messages wait.
func (c *cache) open(ctx context.Context, conn *nats.Conn, pub *nats.Publisher) (*bucket, error) {
	s, err := c.find(ctx, conn)
	if err != nil {
		return nil, cause.Held(err)
	}
	return &bucket{conn: conn, pub: pub, stream: s, prefix: "$KV." + c.Bucket + ".",
		expires: s.CachedInfo().Config.AllowMsgTTL}, nil
}

// check reports whether the error of a call affects all calls. If the bucket is gone, the next call looks for it
// again.
func (c *cache) check(b *bucket, err error) error {
	switch {
	case errors.Is(err, client.ErrNoResponders), errors.Is(err, nats.ErrNoStream):
		b.gone.Store(true)
		return cause.Held(engine.Errorf(engine.Transient, "bucket %s, or JetStream, is gone", c.Bucket))
	case nats.IsFull(err):
		return cause.Held(err)
	}
	return err
}

// find returns the stream of the bucket, or creates it.
func (c *cache) find(ctx context.Context, conn *nats.Conn) (s jetstream.Stream, err error) {
	err = conn.API(ctx, "find bucket "+c.Bucket, func(ctx context.Context) error {
		_, err := conn.JS.KeyValue(ctx, c.Bucket)
		if errors.Is(err, jetstream.ErrBucketNotFound) && c.Create {
			err = c.create(ctx, conn)
		}
		if err == nil {
			s, err = conn.JS.Stream(ctx, "KV_"+c.Bucket)
		}
		return err
	})
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, engine.Errorf(engine.Permanent, "there is no bucket %s (create it, or remove `create: false`)", c.Bucket)
	}
	return s, err
}

// marker is how long a server keeps a marker of a removed value.
const marker = time.Minute

// create creates the bucket, with per-key lifetimes if the server supports them.
func (c *cache) create(ctx context.Context, conn *nats.Conn) error {
	to := jetstream.KeyValueConfig{Bucket: c.Bucket, Replicas: c.Replicas, LimitMarkerTTL: marker}
	if c.Storage == "memory" {
		to.Storage = jetstream.MemoryStorage
	}
	_, err := conn.JS.CreateKeyValue(ctx, to)
	if errors.Is(err, jetstream.ErrLimitMarkerTTLNotSupported) {
		to.LimitMarkerTTL = 0
		_, err = conn.JS.CreateKeyValue(ctx, to)
	}
	if errors.Is(err, jetstream.ErrBucketExists) { // created meanwhile
		return nil
	}
	return err
}

// expiryHeader contains when a value expires, in milliseconds since 1970.
const expiryHeader = "Flowd-Expires"

// subject returns the subject of a key. It is unique.
func (b *bucket) subject(key string) string {
	if plain(key) {
		return b.prefix + key
	}
	return b.prefix + "=" + base64.RawURLEncoding.EncodeToString([]byte(key))
}

func plain(key string) bool {
	return key != "" && key[0] != '=' && strings.Trim(key, letters+"/=.") == "" && key[0] != '.' &&
		key[len(key)-1] != '.' && !strings.Contains(key, "..")
}

// newest returns the last value of a key, and its revision. ok is false if it is gone or expired.
func (c *cache) newest(ctx context.Context, b *bucket, key string) (value []byte, revision uint64, ok bool, err error) {
	var m *jetstream.RawStreamMsg
	err = b.conn.API(ctx, "read bucket "+c.Bucket, func(ctx context.Context) (err error) {
		m, err = b.stream.GetLastMsgForSubject(ctx, b.subject(key))
		return err
	})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, 0, false, nil
	}
	if err != nil {
		return nil, 0, false, c.check(b, err)
	}
	if m.Header.Get("KV-Operation") != "" || m.Header.Get("Nats-Marker-Reason") != "" {
		return nil, m.Sequence, false, nil
	}
	if text := m.Header.Get(expiryHeader); text != "" {
		at, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, 0, false, engine.Errorf(engine.Permanent, "bucket %s: the header %s of a value is not a number",
				c.Bucket, expiryHeader)
		}
		if time.Now().UnixMilli() >= at {
			return nil, m.Sequence, false, nil
		}
	}
	return m.Data, m.Sequence, true, nil
}

// write publishes the new value of a key.
func (c *cache) write(ctx context.Context, b *bucket, key string, value []byte, ttl time.Duration,
	more ...string) error {
	m := &client.Msg{Subject: b.subject(key), Data: value, Header: client.Header{}}
	if ttl > 0 {
		m.Header[expiryHeader] = []string{strconv.FormatInt(time.Now().Add(ttl).UnixMilli(), 10)}
		if b.expires {
			m.Header["Nats-TTL"] = []string{strconv.Itoa(int(max(ttl, 0)/time.Second)+1) + "s"} // in whole seconds
		}
	}
	for i := 0; i < len(more); i += 2 {
		m.Header[more[i]] = []string{more[i+1]}
	}
	ctx, cancel := context.WithTimeout(ctx, b.conn.Timeout)
	defer cancel()
	o := &nats.Outgoing{Msg: m}
	b.pub.Publish(ctx, []*nats.Outgoing{o})
	return c.check(b, o.Err)
}

// Get reads a value.
func (c *cache) Get(ctx context.Context, key string) ([]byte, bool, error) {
	b, err := c.bucket(ctx)
	if err != nil {
		return nil, false, err
	}
	value, _, ok, err := c.newest(ctx, b, key)
	return value, ok, err
}

// Set writes a value.
func (c *cache) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	b, err := c.bucket(ctx)
	if err != nil {
		return err
	}
	return c.write(ctx, b, key, value, cmp.Or(ttl, c.TTL))
}

// calls is the maximum number of concurrent swaps.
const calls = 256

// Swap changes values. Each takes one request if the key is new, otherwise two.
func (c *cache) Swap(ctx context.Context, all []engine.CacheSwap) {
	b, err := c.bucket(ctx)
	call.Beside(calls, len(all), func(i int) {
		if all[i].Err = err; err == nil {
			c.swap(ctx, b, &all[i])
		}
	})
}

func (c *cache) swap(ctx context.Context, b *bucket, s *engine.CacheSwap) {
	var revision uint64
	for known := s.Old == nil; ; known = true {
		if known {
			s.Err = c.writeAfter(ctx, b, revision, s)
			if !nats.WrongSequence(s.Err) {
				s.Done = s.Err == nil
				return
			}
		}
		found, last, ok, err := c.newest(ctx, b, s.Key)
		if s.Err = err; err != nil {
			return
		}
		if ok != (s.Old != nil) || !bytes.Equal(found, s.Old) {
			if ok {
				s.Found = append([]byte{}, found...)
			}
			return
		}
		revision = last
	}
}

// writeAfter writes the new value of a key whose last revision is known.
func (c *cache) writeAfter(ctx context.Context, b *bucket, revision uint64, s *engine.CacheSwap) error {
	after := []string{"Nats-Expected-Last-Subject-Sequence", strconv.FormatUint(revision, 10)}
	if s.New == nil {
		return c.write(ctx, b, s.Key, nil, 0, append(after, b.removal()...)...)
	}
	return c.write(ctx, b, s.Key, s.New, s.TTL, after...)
}

// Delete deletes a value.
func (c *cache) Delete(ctx context.Context, key string) error {
	b, err := c.bucket(ctx)
	if err != nil {
		return err
	}
	return c.write(ctx, b, key, nil, 0, b.removal()...)
}

// removal returns the headers of a message that removes a value.
func (b *bucket) removal() []string {
	headers := []string{"KV-Operation", "PURGE", "Nats-Rollup", "sub"}
	if b.expires {
		headers = append(headers, "Nats-TTL", marker.String())
	}
	return headers
}
