// Package file is the cache `file`: it keeps values in a file, which survive restarts and crashes. Start at [Config].
package file

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"go.etcd.io/bbolt"
)

// Config configures the file cache.
type Config struct {
	Path    string        `yaml:"path,main" check:"required,nonempty" doc:"The file; it and its directory are created if missing. Only one process can use it at a time."`
	TTL     time.Duration `yaml:"ttl" check:"min=1ms" doc:"How long a value is kept if its write sets no time; no limit by default."`
	MaxKeys int           `yaml:"max_keys" check:"min=1" default:"1000000" doc:"Maximum number of keys; the oldest are evicted first."`
	Sync    bool          `yaml:"sync" default:"true" doc:"Writes survive a crash of the machine. With false, they are faster but survive only a crash of flowd: after a crash of the machine the file may have to be removed."`
}

// OwnFile returns the cache's file.
func (c Config) OwnFile() (field, path string) { return "path", c.Path }

// Words are words of other systems, with what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{"directory": "write `path`: it is one file", "default_ttl": "write `ttl`"}
}

const help = `
Keeps values in a file, across restarts. Concurrent writes are made durable together.
The space of removed values is reused; the file does not shrink. If it is deleted while
it is open, the next write or the end creates it again, with all values; if another file takes its
place, that one is used.

    processors:
      - dedupe: {key: id, window: 24h, cache: seen}
    resources:
      caches:
        seen: {file: {path: state/seen.db}}
`

func init() {
	engine.Register(engine.Caches, "file", help, Config{}, build)
}

func build(c Config, env engine.Env) (engine.Cache, error) {
	return &file{Config: c, log: cmp.Or(env.Log, slog.New(slog.DiscardHandler))}, nil
}

var (
	_ engine.Opener = (*file)(nil)
	_ engine.Closer = (*file)(nil)
)

type file struct {
	Config
	log  *slog.Logger
	wake chan struct{} // room for one
	done chan struct{} // closed when the writing loop has ended

	mu     sync.Mutex // guards the fields below
	next   *group     // the next transaction
	closed bool

	swap sync.RWMutex // held while db is used; for writing while it is replaced
	db   *store

	hand []byte // where the sweep continues in order; only for the loop
}

// group is one transaction.
type group struct {
	ops  []*op
	done chan struct{} // closed when err is known
	err  error
}

type op struct {
	kind  kind
	key   string
	value []byte
	due   int64 // Unix time in nanoseconds; 0: never
}

type kind uint8

const (
	set kind = iota
	del
)

// maxKey leaves room for what is stored with a key.
const maxKey = bbolt.MaxKeySize - 64

var errClosed = errors.New("the cache is closed")

// Open opens and locks the file, and starts the writing loop.
func (f *file) Open(context.Context) error {
	db, lost, err := open(f.Path, f.Sync)
	if err != nil {
		return err
	}
	f.warnIf(lost)
	f.db, f.hand, f.closed = db, nil, false
	f.next = &group{done: make(chan struct{})}
	f.wake, f.done = make(chan struct{}, 1), make(chan struct{})
	go f.loop()
	return nil
}

func (f *file) warnIf(lost bool) {
	if lost {
		f.log.Warn("the cache's file was damaged: its last writes may be lost, and their keys are new again", "path",
			f.Path)
	}
}

// Close finishes all writes and releases the file.
func (f *file) Close(ctx context.Context) error {
	f.mu.Lock()
	if f.closed || f.next == nil {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	f.mu.Unlock()
	f.poke()
	select {
	case <-f.done:
		if err := f.find(); err != nil {
			f.log.Warn("the cache's file was renamed or deleted: what it holds is not found at the next start",
				"path", f.Path, "err", explain(f.Path, err))
		}
		return f.db.Close()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *file) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// loop writes group after group. While one is written, the next one fills.
func (f *file) loop() {
	defer close(f.done)
	for range f.wake {
		f.mu.Lock()
		g, closed := f.next, f.closed
		f.next = &group{done: make(chan struct{})}
		f.mu.Unlock()
		if len(g.ops) > 0 {
			g.err = f.save(g.ops)
		}
		close(g.done)
		if closed {
			return
		}
	}
}

// write adds o to the next group and waits for it. If ctx ends first, o may or may not be written.
func (f *file) write(ctx context.Context, o *op) error {
	switch {
	case o.key == "":
		return engine.Errorf(engine.Permanent, "a key of the cache is empty")
	case len(o.key) > maxKey:
		return engine.Errorf(engine.Permanent,
			"a key of %d bytes is too long for a cache of type file, which allows %d (use its hash: `hash(…)`)",
			len(o.key), maxKey)
	}
	f.mu.Lock()
	if f.closed || f.next == nil {
		f.mu.Unlock()
		return errClosed
	}
	g := f.next
	g.ops = append(g.ops, o)
	f.mu.Unlock()
	f.poke()
	select {
	case <-g.done:
		return g.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *file) due(ttl time.Duration) int64 {
	if ttl = cmp.Or(ttl, f.TTL); ttl == 0 {
		return 0
	}
	return time.Now().Add(ttl).UnixNano()
}

func (f *file) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	return f.write(ctx, &op{kind: set, key: key, value: value, due: f.due(ttl)})
}

func (f *file) Delete(ctx context.Context, key string) error {
	return f.write(ctx, &op{kind: del, key: key})
}

func (f *file) Get(ctx context.Context, key string) (value []byte, ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	err = f.guard(func(db *store) error {
		return db.View(func(tx *bbolt.Tx) error {
			value, ok, err = get(tx, key)
			return err
		})
	})
	return value, ok, err
}
