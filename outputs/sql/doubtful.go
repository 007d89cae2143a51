package sql

import (
	"context"
	"hash/maphash"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/internal/systems/doubt"
	"github.com/flowd-io/flowd/internal/systems/sqldb"
)

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

// noteDoubt remembers the rows of a write that ended with err if it is in doubt, and otherwise forgets them.
func (o *output) noteDoubt(err error, rows []*row) {
	if !doubt.MayHaveWritten(err) && o.doubt.IsEmpty() {
		return
	}
	sums := make([]uint64, len(rows))
	for i, r := range rows {
		sums[i] = r.sum()
	}
	o.doubt.Note(err, sums...)
}

// refuse fails a row that the database has refused. If an earlier attempt may have stored the row, [writing.find] decides
// after the transaction.
func (w *writing) refuse(r *row, err error) {
	if w.cfg.Table != "" && sqldb.IsDuplicate(err) && w.doubt.Has(r.sum()) {
		r.err = err
		w.doubtful = append(w.doubtful, r)
		return
	}
	r.m.Fail(w.explain(err))
}

// find looks for rows that an earlier attempt may have stored. A row counts as written if the table has it with all its values.
func (w *writing) find(ctx context.Context) error {
	for _, r := range w.doubtful {
		found, err := w.isThere(ctx, r)
		switch {
		case doubt.MayHaveWritten(err):
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
