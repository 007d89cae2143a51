package sql

import (
	"context"
	"hash/maphash"
	"strconv"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/sqldb"
)

// unsure has the rows of failed writes that the database may have stored all the same: the answer was lost.
type unsure struct {
	mu   sync.Mutex // guards the field below
	rows map[uint64]struct{}
}

// mostUnsure bounds the rows that are remembered.
const mostUnsure = 100_000

var seed = maphash.MakeSeed()

// sum identifies a row by its values.
func (r *row) sum() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, v := range r.given {
		_ = h.WriteByte(byte(v.Kind))
		_, _ = h.Write(strconv.AppendInt(nil, int64(len(v.Text)), 10))
		_ = h.WriteByte(':')
		_, _ = h.Write(v.Text)
	}
	return h.Sum64()
}

// note remembers rows, or forgets them.
func (u *unsure) note(rows []*row, are bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !are && len(u.rows) == 0 {
		return
	}
	for _, r := range rows {
		if !are {
			delete(u.rows, r.sum())
			continue
		}
		if u.rows == nil || len(u.rows) >= mostUnsure {
			u.rows = map[uint64]struct{}{}
		}
		u.rows[r.sum()] = struct{}{}
	}
}

func (u *unsure) has(r *row) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, has := u.rows[r.sum()]
	return has
}

// isOpen reports whether the database may have stored the rows of a write that returned err.
func isOpen(err error) bool {
	if err == nil {
		return false
	}
	class := engine.ErrorOf(err, engine.Transient).Class
	return class == engine.Transient || class == engine.Timeout
}

// refuse fails a row that the database has refused. If an earlier attempt may have stored the row, [writing.find] decides
// after the transaction.
func (w *writing) refuse(r *row, err error) {
	if w.cfg.Table != "" && sqldb.Duplicates(err) && w.unsure.has(r) {
		r.err = err
		w.doubtful = append(w.doubtful, r)
		return
	}
	r.m.Fail(w.explain(err))
}

// find looks for the rows that an earlier attempt may have stored. A row that is there with all its values is written.
func (w *writing) find(ctx context.Context) error {
	for _, r := range w.doubtful {
		found, err := w.isThere(ctx, r)
		switch {
		case isOpen(err):
			return err
		case !found: // or the database can't compare the values
			r.m.Fail(w.explain(r.err))
		}
	}
	return nil
}

func (w *writing) isThere(ctx context.Context, r *row) (bool, error) {
	var s strings.Builder
	s.WriteString("SELECT 1 AS found FROM " + w.cfg.Config.Table(w.cfg.Table) + " WHERE ")
	var args []sqldb.Value
	for i, v := range r.values {
		if i > 0 {
			s.WriteString(" AND ")
		}
		s.WriteString(w.cfg.Quote(w.names[i]))
		if v.Kind == sqldb.Null {
			s.WriteString(" IS NULL")
			continue
		}
		args = append(args, v)
		s.WriteString(" = " + w.placeholder(len(args)))
	}
	rows, err := w.conn.Query(ctx, s.String(), args)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	return rows.Next(), rows.Err()
}
