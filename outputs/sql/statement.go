package sql

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/internal/systems/sqldb"
)

const (
	mostBytes  = 1 << 20 // of values in a statement: less than any server takes by default
	mostParams = 32_000  // SQLite takes 32,766, PostgreSQL 65,535
	mostCopied = 10_000  // rows
	mostAtOnce = 1_000   // rows of a statement

	// For blocks of ClickHouse, which prefers large blocks; its server divides blocks of more than a million rows.
	mostInBlock = 100_000
	blockBytes  = 16 << 20
)

func (o *output) mostRows() int {
	switch {
	case o.cfg.Query != "" && o.cfg.ClickHouse():
		return 1
	case o.cfg.Query != "":
		return mostAtOnce
	case o.cfg.ClickHouse():
		return mostInBlock
	case o.cfg.Copy:
		return mostCopied
	}
	return max(1, min(mostAtOnce, mostParams/len(o.names)))
}

func (o *output) mostBytes() int {
	if o.cfg.ClickHouse() {
		return blockBytes
	}
	return mostBytes
}

// single reports whether rows are written by one statement that is a transaction of its own. MySQL carries out and commits a
// statement even if its client has gone.
func (o *output) single(rows []*row) bool {
	return (o.cfg.Query == "" || len(rows) == 1) && (o.cfg.Postgres() || o.cfg.SQLite())
}

// put writes rows with one statement, or with one statement each if the statement is the user's.
func (w *writing) put(ctx context.Context, rows []*row) error {
	if w.cfg.Query != "" {
		for _, r := range rows {
			if _, err := w.conn.Exec(ctx, w.cfg.Query, r.values); err != nil {
				return err
			}
		}
		return nil
	}
	if w.cfg.Copy || w.cfg.ClickHouse() {
		all := make([][]sqldb.Value, len(rows))
		for i, r := range rows {
			all[i] = r.values
		}
		return w.conn.(sqldb.Copier).Copy(ctx, w.cfg.Table, w.names, all)
	}
	args := make([]sqldb.Value, 0, len(rows)*len(w.names))
	for _, r := range rows {
		args = append(args, r.values...)
	}
	query := w.insertion(len(rows))
	if i, ok := w.conn.(sqldb.Inserter); ok {
		return i.Insert(ctx, w.like, query, args)
	}
	_, err := w.conn.Exec(ctx, query, args)
	return err
}

// insertion returns the statement that inserts n rows.
func (o *output) insertion(n int) string {
	var s strings.Builder
	s.WriteString("INSERT INTO " + o.cfg.Config.Table(o.cfg.Table) + " (" + o.list(o.names, o.cfg.Quote) + ") VALUES ")
	for i := range n {
		if i > 0 {
			s.WriteString(", ")
		}
		s.WriteByte('(')
		for j := range o.names {
			if j > 0 {
				s.WriteString(", ")
			}
			s.WriteString(o.placeholder(i*len(o.names) + j + 1))
		}
		s.WriteByte(')')
	}
	if len(o.cfg.Upsert) > 0 {
		s.WriteString(o.conflict())
	}
	return s.String()
}

// placeholder returns the placeholder of the n-th parameter of a statement, counted from 1.
func (o *output) placeholder(n int) string {
	if o.cfg.Postgres() {
		return "$" + strconv.Itoa(n)
	}
	return "?"
}

// conflict returns the clause for rows whose key another row has.
func (o *output) conflict() string {
	var rest []string
	for _, name := range o.names {
		if !slices.Contains(o.cfg.Upsert, name) {
			rest = append(rest, name)
		}
	}
	quote := o.cfg.Quote
	if !o.cfg.Postgres() && !o.cfg.SQLite() {
		if len(rest) == 0 {
			rest = o.cfg.Upsert[:1]
		}
		return " ON DUPLICATE KEY UPDATE " + o.list(rest, func(name string) string {
			return quote(name) + " = VALUES(" + quote(name) + ")"
		})
	}
	on := " ON CONFLICT (" + o.list(o.cfg.Upsert, quote) + ") DO "
	if len(rest) == 0 {
		return on + "NOTHING"
	}
	return on + "UPDATE SET " + o.list(rest, func(name string) string { return quote(name) + " = EXCLUDED." + quote(name) })
}

// probe returns a statement that changes nothing, and fails if the table or one of its columns does not exist.
func (o *output) probe() string {
	if o.cfg.Query != "" {
		return "SELECT 1"
	}
	return "SELECT " + o.list(o.names, o.cfg.Quote) + " FROM " + o.cfg.Config.Table(o.cfg.Table) + " WHERE 1 = 0"
}

func (*output) list(names []string, each func(string) string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = each(name)
	}
	return strings.Join(all, ", ")
}
