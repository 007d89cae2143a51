package sql

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/source"
	"github.com/flowd-io/flowd/internal/systems/sqldb"
)

const (
	aheadRows  = 1024
	aheadBytes = 1 << 20
	block      = 64 << 10 // rows share memory
)

// fetch is a query under way. It reads a little ahead of what Read takes.
type fetch struct {
	more source.Signal // there are rows, or the end
	room source.Signal // rows were taken

	mu    sync.Mutex // guards the fields below
	rows  [][]byte
	bytes int
	err   error // at the end: errNoMore, or why it failed
}

func newFetch() *fetch { return &fetch{more: source.NewSignal(), room: source.NewSignal()} }

var errNoMore = errors.New("no more rows")

var errSlow = errors.New("no row within query_timeout (raise it, or make the query faster)")

// run runs the query to its end.
func (f *fetch) run(ctx context.Context, db sqldb.DB, query string, args []sqldb.Value, timeout time.Duration) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(timeout, func() { cancel(errSlow) })
	defer late.Stop()
	err := f.all(ctx, db, query, args, func() { late.Reset(timeout) }, func() { late.Stop() })
	if errors.Is(context.Cause(ctx), errSlow) {
		err = engine.WithClass(engine.Timeout, errSlow)
	}
	if err == nil {
		err = errNoMore
	}
	f.mu.Lock()
	f.err = err
	f.mu.Unlock()
	f.more.Set()
}

// all puts the rows into f. waits and waited say when it waits for the database.
func (f *fetch) all(ctx context.Context, db sqldb.DB, query string, args []sqldb.Value, waits,
	waited func()) (err error) {
	defer engine.Recovered(&err)
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, query, args)
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	defer rows.Close()
	var text []byte
	size := 0
	for rows.Next() {
		waited()
		if cap(text)-len(text) < size {
			text = make([]byte, 0, block)
		}
		from := len(text)
		if text, err = rows.Append(text); err != nil {
			return err
		}
		size = len(text) - from
		if err := f.put(ctx, text[from:len(text):len(text)]); err != nil {
			return err
		}
		if size > block/8 {
			text = nil
		}
		waits()
	}
	if rows.Err() != nil {
		return fmt.Errorf("query: %w", rows.Err())
	}
	return nil
}

// put waits for room.
func (f *fetch) put(ctx context.Context, row []byte) error {
	for {
		f.mu.Lock()
		fits := len(f.rows) < aheadRows && (f.bytes+len(row) <= aheadBytes || len(f.rows) == 0)
		if fits {
			f.rows = append(f.rows, row)
			f.bytes += len(row)
		}
		f.mu.Unlock()
		if fits {
			f.more.Set()
			return nil
		}
		select {
		case <-f.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// get waits for the first rows, and takes up to n. The error comes with, or after, the last ones.
func (f *fetch) get(ctx context.Context, n int) (rows [][]byte, err error) {
	for {
		f.mu.Lock()
		rows = f.take(n)
		if len(f.rows) == 0 {
			err = f.err
		}
		f.mu.Unlock()
		if len(rows) > 0 || err != nil {
			f.room.Set()
			return rows, err
		}
		select {
		case <-f.more:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take takes up to n rows.
func (f *fetch) take(n int) [][]byte {
	n = min(n, len(f.rows))
	taken := f.rows[:n:n]
	f.rows = f.rows[n:]
	if len(f.rows) == 0 {
		f.rows = nil
	}
	for _, r := range taken {
		f.bytes -= len(r)
	}
	return taken
}
