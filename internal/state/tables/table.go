package tables

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

var (
	_ engine.Opener = (*Table)(nil)
	_ engine.Closer = (*Table)(nil)
	_ engine.Tabled = (*Table)(nil)
)

// Table is a table of a process, whose pipelines share it. It is safe for concurrent use.
type Table struct {
	cfg    Config
	log    *slog.Logger
	format string
	source source

	// Still tables are read once and not again: those of tests.
	still bool

	now atomic.Pointer[version]

	// Of load, which one goroutine at a time calls.
	broken error // why the version that was read last can't be used; nil: it is in use

	life   sync.Mutex // guards the fields below, and is held while the table is opened or closed
	users  int
	forget bool // the configuration has no such table any more
	stop   context.CancelFunc
	ended  chan struct{} // closed when what reads it again has ended

	mu     sync.Mutex // guards the fields below
	tried  error      // why the newest version is not in use
	loads  int64
	failed int64
}

// version is the content of a table, and when it was read.
type version struct {
	content
	read time.Time
}

// source is where a table comes from. One goroutine at a time uses it.
type source interface {
	// changed reads the newest version, which then counts as read. Without an error, nil says
	// that the version read before is still the newest. [errWriting] says that the newest
	// version is still being written.
	changed(ctx context.Context) ([]byte, error)
	// read is changed for the first time: it waits for nothing.
	read(ctx context.Context) ([]byte, error)
	// pause is how long to wait before the next look.
	pause() time.Duration
}

// What a source says of the newest version instead of reading it.
var (
	errWriting = errors.New("the table is still being written")  // until the next look
	errLarge   = errors.New("the table is larger than max_size") // it counts as read
)

// New makes a table; it does no I/O.
func New(name string, c Config, log *slog.Logger, secrets *schema.Secrets) *Table {
	t := &Table{cfg: c, format: c.format(), log: cmp.Or(log, slog.New(slog.DiscardHandler)).With("table", name)}
	switch {
	case c.URL != "":
		t.source = newRemote(&t.cfg, secrets)
	case c.SQL != nil:
		t.source = &answer{cfg: &t.cfg}
	default:
		t.source = &file{cfg: &t.cfg}
	}
	if c.extension() == ".tsv" {
		t.cfg.Delimiter = cmp.Or(t.cfg.Delimiter, '\t')
	}
	return t
}

// ForTest makes a table that is read once, and nothing else. rows, unless nil, are what it has
// instead of its file: a JSON list of objects, or an object by key.
func ForTest(name string, c Config, rows []byte) *Table {
	t := New(name, c, nil, nil)
	t.still = true
	switch {
	case rows != nil:
		t.format, t.source = "json", given(rows)
	case c.remote():
		t.source = refused{fmt.Errorf("tests ask no server for table %q (give rows: `tables: {%[1]s: […]}`)", name)}
	}
	return t
}

// Forget drops the content when nobody uses the table any more.
func (t *Table) Forget() {
	t.life.Lock()
	defer t.life.Unlock()
	if t.forget = true; t.users == 0 {
		t.now.Store(nil)
	}
}

// Check reads a file that is there, before the table is opened: what is wrong with it is known
// at load, and it need not be read again.
func (t *Table) Check() error {
	t.life.Lock()
	defer t.life.Unlock()
	t.forget = false
	if t.now.Load() != nil || t.cfg.remote() {
		return nil
	}
	return t.load(context.Background(), t.source.read)
}

// Open reads the table for its first user, and goes on to look for newer versions.
func (t *Table) Open(ctx context.Context) error {
	t.life.Lock()
	defer t.life.Unlock()
	if t.users > 0 {
		t.users++
		return nil
	}
	read := t.source.read
	if t.now.Load() != nil { // it was checked
		read = t.source.changed
	}
	if err := t.load(ctx, read); err != nil && !errors.Is(err, errWriting) {
		return fmt.Errorf("%v: %w", t.cfg.Place.Pos, err)
	}
	t.users++
	if t.still {
		return nil
	}
	ctx, t.stop = context.WithCancel(context.WithoutCancel(ctx))
	t.ended = make(chan struct{})
	go t.follow(ctx, t.ended)
	return nil
}

// Close ends with the last user. What was read stays, for messages on their way.
func (t *Table) Close(ctx context.Context) error {
	t.life.Lock()
	defer t.life.Unlock()
	if t.users--; t.users > 0 || t.still {
		return nil
	}
	t.stop()
	select {
	case <-t.ended:
		if t.forget {
			t.now.Store(nil)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// load reads a version, if there is a new one; one goroutine at a time does.
func (t *Table) load(ctx context.Context, read func(context.Context) ([]byte, error)) (err error) {
	defer engine.Recovered(&err)
	data, err := read(ctx)
	if errors.Is(err, errLarge) {
		t.broken = t.cfg.tooLarge()
		return t.broken
	}
	if err != nil || data == nil {
		return err
	}
	c, err := parse(&t.cfg, t.format, data)
	if err != nil {
		t.broken = fmt.Errorf("%s: %w", t.cfg.where(), err)
		return t.broken
	}
	t.broken = nil
	t.now.Store(&version{c, time.Now()})
	return nil
}

// follow reads new versions until ctx ends. A version that can't be used leaves the one before
// in its place; the log says so once.
func (t *Table) follow(ctx context.Context, ended chan<- struct{}) {
	defer close(ended)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(t.source.pause()):
		}
		before := t.now.Load()
		err := t.load(ctx, t.source.changed)
		if ctx.Err() != nil {
			return
		}
		now := t.now.Load()
		unchanged := err == nil && now == before
		if unchanged {
			err = t.broken
		}
		switch {
		case errors.Is(err, errWriting):
		case err != nil:
			if t.fails(err) {
				t.log.Warn("the table can't be read again: the one before stays in use", "err", err)
			}
		case unchanged:
			if t.recovers() {
				t.log.Info("the table can be read again, and has not changed")
			}
		default:
			t.reloaded()
			rows, bytes := now.size()
			t.log.Info("the table was read again", "rows", rows, "memory", bytes)
		}
	}
}

// fails notes why the newest version is not in use, and reports whether that reason is new.
func (t *Table) fails(err error) (news bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if news = t.tried == nil || err.Error() != t.tried.Error(); news {
		t.failed++
	}
	t.tried = err
	return news
}

// reloaded counts a version that has come into use.
func (t *Table) reloaded() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loads++
	t.tried = nil
}

// recovers notes that the newest version is in use, and reports whether it was not before.
func (t *Table) recovers() (news bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	news = t.tried != nil
	t.tried = nil
	return news
}

// Lookup returns the row of a key, nil when there is none. The caller does not change it.
func (t *Table) Lookup(keys ...any) (any, error) {
	v := t.now.Load()
	if v == nil {
		return nil, errors.New("the table has not been read")
	}
	return v.find(keys)
}

// Keys returns the names of the values that a key is made of; an IP address or the key of an
// object is one without a name.
func (t *Table) Keys() []string {
	if len(t.cfg.Key) == 0 {
		return []string{""}
	}
	return t.cfg.Key
}

// Networks reports whether the table is a database of networks.
func (t *Table) Networks() bool { return t.cfg.format() == "mmdb" }

// String says how large the table is.
func (t *Table) String() string {
	v := t.now.Load()
	if v == nil {
		return "not read"
	}
	n, bytes := v.size()
	for _, unit := range []schema.Size{1 << 20, 1 << 10} {
		if bytes >= 10*unit {
			bytes = bytes / unit * unit
			break
		}
	}
	switch n {
	case 0:
		return bytes.String() + " of memory"
	case 1:
		return fmt.Sprintf("1 row, %s of memory", bytes)
	}
	return fmt.Sprintf("%d rows, %s of memory", n, bytes)
}

// Table returns the table as seen from outside.
func (t *Table) Table() engine.TableState {
	s := engine.TableState{Format: t.format}
	if v := t.now.Load(); v != nil {
		rows, bytes := v.size()
		s.Rows, s.Bytes, s.Read = rows, int64(bytes), v.read
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.Reloads, s.Failed = t.loads, t.failed; t.tried != nil {
		s.Err = t.tried.Error()
	}
	return s
}
