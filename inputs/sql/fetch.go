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
	blockSize  = 64 << 10 // bytes that several rows share
)

// fetch is a running query. It reads a little ahead of Read.
type fetch struct {
	more source.Signal // set when a row has arrived, or the query has ended
	room source.Signal // set when Read has taken rows

	mu    sync.Mutex // guards the fields below
	rows  [][]byte
	bytes int
	err   error // set when the query has ended: errNoMore, or why it failed
}

func newFetch() *fetch { return &fetch{more: source.NewSignal(), room: source.NewSignal()} }

var errNoMore = errors.New("no more rows")

var errSlow = errors.New("no row within query_timeout (raise it, or make the query faster)")

// run runs the query to its end.
func (f *fetch) run(ctx context.Context, db sqldb.DB, query string, args []sqldb.Value, timeout time.Duration) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(timeout, func() { cancel(errSlow) })
	defer limit.Stop()
	err := f.queryRows(ctx, db, query, args, limit, timeout)
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

// queryRows runs the query and adds its rows to f. limit only runs while it waits for the database, not while it waits for
// room.
func (f *fetch) queryRows(ctx context.Context, db sqldb.DB, query string, args []sqldb.Value, limit *time.Timer,
	timeout time.Duration) (err error) {
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
		limit.Stop()
		if cap(text)-len(text) < size {
			text = make([]byte, 0, blockSize)
		}
		from := len(text)
		if text, err = rows.Append(text); err != nil {
			return err
		}
		size = len(text) - from
		if err := f.addRow(ctx, text[from:len(text):len(text)]); err != nil {
			return err
		}
		if size > blockSize/8 { // a large row must not keep small ones in memory
			text = nil
		}
		limit.Reset(timeout)
	}
	if rows.Err() != nil {
		return fmt.Errorf("query: %w", rows.Err())
	}
	return nil
}

// addRow adds a row. It waits until there is room.
func (f *fetch) addRow(ctx context.Context, row []byte) error {
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

// next returns up to n rows, and waits until there are some. The error comes with the last rows, or after them.
func (f *fetch) next(ctx context.Context, n int) (rows [][]byte, err error) {
	for {
		f.mu.Lock()
		rows = f.takeRows(n)
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

// takeRows removes and returns up to n rows. f.mu is held.
func (f *fetch) takeRows(n int) [][]byte {
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
