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

// Table is a table of a process, shared by its pipelines. It is safe for concurrent use.
type Table struct {
	cfg    Config
	log    *slog.Logger
	format string
	source source

	// still tables are only read once, in tests.
	still bool

	now atomic.Pointer[version]

	// For load, which one goroutine at a time calls.
	broken error // why the last version read can't be used; nil: it is in use

	life   sync.Mutex // guards the fields below; held while the table is opened or closed
	users  int
	forget bool // the configuration does not contain the table any more
	stop   context.CancelFunc
	ended  chan struct{} // closed when the goroutine that follows changes has ended

	mu     sync.Mutex // guards the fields below
	tried  error      // why the newest version is not in use
	loads  int64
	failed int64
}

// version is the content of a table, with the time when it was read.
type version struct {
	content
	read time.Time
}

// source is where a table comes from. One goroutine at a time uses it.
type source interface {
	// changed reads the newest version. A nil result without an error means that the last version is still the
	// newest. [errWriting] means that the newest version is incomplete.
	changed(ctx context.Context) ([]byte, error)
	// read reads the first version. It does not wait for a file to be complete.
	read(ctx context.Context) ([]byte, error)
	// pause returns the time before the next check.
	pause() time.Duration
}

// Errors of a source about the newest version.
var (
	errWriting = errors.New("the table is still being written")  // until the next check
	errLarge   = errors.New("the table is larger than max_size") // this version is not read again
)

// New makes a table, without I/O.
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

// ForTest makes a table that is read once. rows, unless nil, replace its file: a JSON list of objects, or an object
// by key.
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

// Check reads an existing file before the table is opened: errors are found at load, and the file need not be read
// again.
func (t *Table) Check() error {
	t.life.Lock()
	defer t.life.Unlock()
	t.forget = false
	if t.now.Load() != nil || t.cfg.remote() {
		return nil
	}
	return t.load(context.Background(), t.source.read)
}

// Open reads the table for its first user, and starts to follow newer versions.
func (t *Table) Open(ctx context.Context) error {
	t.life.Lock()
	defer t.life.Unlock()
	if t.users > 0 {
		t.users++
		return nil
	}
	read := t.source.read
	if t.now.Load() != nil { // already read by Check
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

// Close ends following after the last user. The content stays, for messages in flight.
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

// load reads a version, if there is a new one. Only one goroutine at a time calls it.
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

// follow loads new versions until ctx ends. If one can't be used, the last usable version stays, and an error is
// logged once.
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

// fails records why the newest version is not in use, and reports whether the reason is new.
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

// recovers records that the newest version is in use, and reports whether it was not before.
func (t *Table) recovers() (news bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	news = t.tried != nil
	t.tried = nil
	return news
}

// Lookup returns the row of a key, or nil. The caller must not change it.
func (t *Table) Lookup(keys ...any) (any, error) {
	v := t.now.Load()
	if v == nil {
		return nil, errors.New("the table has not been read")
	}
	return v.find(keys)
}

// Keys returns the names of the values in a key. An IP address or the key of an object is one value without a name.
func (t *Table) Keys() []string {
	if len(t.cfg.Key) == 0 {
		return []string{""}
	}
	return t.cfg.Key
}

// Networks reports whether the table is a database of networks.
func (t *Table) Networks() bool { return t.cfg.format() == "mmdb" }

// String describes the size of the table.
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

// Table returns the table's state for snapshots.
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
