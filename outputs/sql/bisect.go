package sql

import (
	"context"
	"strings"

	"github.com/flowd-io/flowd/internal/systems/sqldb"
)

// writing is one Write.
type writing struct {
	*output
	conn     sqldb.Conn
	anew     bool   // the types of the columns were read again
	changed  bool   // and that has changed values
	waiting  []*row // refused until the rows that they refer to are written
	doubtful []*row // refused as duplicates, perhaps of rows that an earlier attempt wrote
}

// all writes all rows or none, except for rows that are to blame.
func (w *writing) all(ctx context.Context, rows []*row) error {
	parts := w.parts(w.latest(rows))
	var err error
	if len(parts) == 1 && w.single(parts[0]) { // a transaction of its own
		err = w.put(ctx, parts[0])
	} else {
		err = w.transact(ctx, func() error {
			for _, p := range parts {
				if err := w.put(ctx, p); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if !sqldb.BlamesStatement(err) {
		return err
	}
	blame := sqldb.BlamesValues(err)
	rows, fitErr := w.fit(ctx, rows, true)
	switch {
	case fitErr != nil:
		return fitErr
	case len(rows) == 1 && blame && !w.changed:
		w.refuse(rows[0], err)
		return nil
	case len(rows) == 0:
		return nil
	}
	return w.transact(ctx, func() error { return w.apart(ctx, rows) })
}

// apart writes rows in a transaction, except for rows that are to blame. A row that refers to a later row waits: waiting rows are
// retried until no more of them can be written.
func (w *writing) apart(ctx context.Context, rows []*row) error {
	for {
		w.waiting = nil
		for _, p := range w.parts(rows) {
			if err := w.halve(ctx, p); err != nil {
				return err
			}
		}
		if len(w.waiting) == 0 || len(w.waiting) == len(rows) {
			break
		}
		rows = w.waiting
	}
	for _, r := range w.waiting {
		r.m.Fail(w.explain(r.err))
	}
	return nil
}

// halve writes rows, except for rows that are to blame, by halving them. It stops at an error that no row is to blame for. This also
// separates rows with the same key, which PostgreSQL refuses in one statement.
func (w *writing) halve(ctx context.Context, rows []*row) error {
	if _, err := w.conn.Exec(ctx, "SAVEPOINT flowd", nil); err != nil {
		return err
	}
	err := w.put(ctx, rows)
	refers := sqldb.LacksReference(err)
	if err == nil {
		if c, ok := w.conn.(sqldb.Checker); ok { // a deferred constraint would fail the whole transaction at its end
			err = c.Check(ctx)
			refers = true
		}
	}
	if !sqldb.BlamesValues(err) {
		if err == nil {
			_, err = w.conn.Exec(ctx, "RELEASE SAVEPOINT flowd", nil)
		}
		return err
	}
	if _, err := w.conn.Exec(ctx, "ROLLBACK TO SAVEPOINT flowd", nil); err != nil {
		return err
	}
	switch {
	case len(rows) > 1:
	case refers && w.cfg.Query == "" && rows[0].newer == nil: // or it would be written after its successors
		rows[0].err = err
		w.waiting = append(w.waiting, rows[0])
		return nil
	default:
		w.refuse(rows[0], err)
		return nil
	}
	if err := w.halve(ctx, rows[:len(rows)/2]); err != nil {
		return err
	}
	return w.halve(ctx, rows[len(rows)/2:])
}

// blocks writes rows without transactions. A refused statement has written nothing. Rows of a successful statement are safe and not
// written again, whatever happens to the others.
func (w *writing) blocks(ctx context.Context, rows []*row) error {
	for _, part := range w.parts(rows) {
		if err := w.block(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// block writes rows with one statement, or with several that leave out rows to blame.
func (w *writing) block(ctx context.Context, rows []*row) error {
	err := w.put(ctx, rows)
	if sqldb.BlamesValues(err) && !w.anew {
		var fitErr error
		if rows, fitErr = w.fit(ctx, rows, true); fitErr != nil {
			return fitErr
		}
		if w.changed || len(rows) == 0 {
			return w.blocks(ctx, rows)
		}
	}
	switch {
	case err == nil:
		for _, r := range rows {
			r.m.Done()
		}
		return nil
	case !sqldb.BlamesValues(err):
		return err
	case len(rows) == 1:
		rows[0].m.Fail(w.explain(err))
		return nil
	}
	if err := w.block(ctx, rows[:len(rows)/2]); err != nil {
		return err
	}
	return w.block(ctx, rows[len(rows)/2:])
}

// transact runs do in a transaction.
func (w *writing) transact(ctx context.Context, do func() error) error {
	begin := "BEGIN"
	if w.cfg.SQLite() {
		begin = "BEGIN IMMEDIATE" // waits for its turn, where a later lock would fail at once
	}
	_, err := w.conn.Exec(ctx, begin, nil)
	if err == nil {
		err = do()
	}
	if err == nil {
		_, err = w.conn.Exec(ctx, "COMMIT", nil)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollback)
		defer cancel()
		_, _ = w.conn.Exec(ctx, "ROLLBACK", nil) // a connection that fails here is given up
	}
	return err
}

// latest leaves out rows whose key a later row has.
func (w *writing) latest(rows []*row) []*row {
	if len(w.keys) == 0 {
		return rows
	}
	last := make(map[string]*row, len(rows))
	for _, r := range rows {
		key := w.keyOf(r)
		if older := last[key]; key != "" && older != nil {
			older.newer = r
		}
		last[key] = r
	}
	kept := make([]*row, 0, len(last))
	for _, r := range rows {
		if r.newer == nil {
			kept = append(kept, r)
		}
	}
	return kept
}

// keyOf returns the key of a row as text. "" stands for a key with a null, which equals no other key.
func (w *writing) keyOf(r *row) string {
	var key strings.Builder
	for _, i := range w.keys {
		v := r.values[i]
		if v.Kind == sqldb.Null {
			return ""
		}
		key.Write(v.Text)
		key.WriteByte(0)
	}
	return key.String()
}

// parts divides rows into parts for one statement each.
func (w *writing) parts(rows []*row) (parts [][]*row) {
	most, mostBytes := w.mostRows(), w.mostBytes()
	from, bytes := 0, 0
	for i, r := range rows {
		size := 0
		for _, v := range r.values {
			size += len(v.Text)
		}
		if i > from && (i-from >= most || bytes+size > mostBytes) {
			parts = append(parts, rows[from:i])
			from, bytes = i, 0
		}
		bytes += size
	}
	return append(parts, rows[from:])
}
