package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flowd-io/flowd/internal/testing/pgtest"
)

// sqlRows are about a PostgreSQL on this machine, which contestants reach over TCP.
var sqlRows = []row{
	{
		name: "sql-insert", does: "file → rows of a table, 500 in an INSERT", data: orders, fixed: 100_000, run: toTable,
		needs: postgres, contestants: []contestant{inFlowd("sql-insert"), theLimit("pgx", "sql-insert $dsn $table $in")},
		goals: []goal{{than: "pgx", atLeast: 0.7}},
	},
	{
		name: "sql-copy", does: "file → rows of a table, 10,000 in a COPY", data: orders, fixed: 200_000, run: toTable,
		needs: postgres, contestants: []contestant{inFlowd("sql-copy"), theLimit("pgx", "sql-copy $dsn $table $in")},
		goals: []goal{{than: "pgx", atLeast: 0.7}},
	},
	{
		name: "sql-read", does: "rows of a table, 10,000 in a query → drop", data: orders, fixed: 400_000, run: fromTable,
		needs: postgres, contestants: []contestant{inFlowd("sql-read"), theLimit("pgx", "sql-read $dsn $table")},
		goals: []goal{{than: "pgx", atLeast: 0.5}},
	},
	{
		name: "postgres-cdc", does: "changes of a table, 1,000 in a transaction → drop, settled", data: orders,
		fixed: 200_000, run: changes, needs: postgres,
		contestants: []contestant{inFlowd("postgres-cdc"), theLimit("pgoutput", "postgres-cdc $dsn $table")},
		goals:       []goal{{than: "pgoutput", atLeast: 0.7}},
	},
}

// postgres starts the server with the first row that needs it; it ends with this process.
func postgres(w *world) error {
	if w.postgres != "" {
		return nil
	}
	var t tb
	done := make(chan struct{})
	go func() { // Skip ends it
		defer close(done)
		w.postgres = pgtest.Server(&t).URL("")
	}()
	<-done
	if w.postgres == "" {
		return errors.New(t.why)
	}
	conn, err := pgx.Connect(w.ctx, w.postgres) // one of others' may be down
	if err != nil {
		w.postgres = ""
		return fmt.Errorf("PostgreSQL does not answer: %w (look at %s)", err, pgtest.Variable)
	}
	return conn.Close(w.ctx)
}

// table is one for a run.
type table struct {
	*pgx.Conn
	name string
}

var tables atomic.Int64

const orderColumns = "id, number, name, path, trace"

func (w *world) table() (t table, err error) {
	t.name = fmt.Sprintf("flowd_bench_%d_%d", os.Getpid(), tables.Add(1))
	if t.Conn, err = pgx.Connect(w.ctx, w.postgres); err != nil {
		return t, err
	}
	return t, t.do(w.ctx, "CREATE TABLE $t (id bigint PRIMARY KEY, number int, name text, path text, trace text)")
}

// do runs statements, in which $t is the table.
func (t table) do(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := t.Exec(ctx, strings.ReplaceAll(s, "$t", t.name)); err != nil {
			return err
		}
	}
	return nil
}

// fill adds n rows that are orders, and commits after each of so many.
func (t table) fill(ctx context.Context, n, each int) error {
	for from := 0; from < n; from += each {
		if err := t.do(ctx, fmt.Sprintf("INSERT INTO $t SELECT i, i %% 997, 'Customer ' || i %% 997, "+
			"'/api/v1/orders/' || i %% 9973, '4bf92f3577b34da6a3ce929d0e0e4736' FROM generate_series(%d, %d) i",
			from, min(from+each, n)-1)); err != nil {
			return err
		}
	}
	return nil
}

// drop removes it and ends the connection.
func (t table) drop() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = t.do(ctx, "DROP TABLE $t")
	_ = t.Close(ctx)
}

func (w *world) reach(t table) map[string]string {
	return map[string]string{"dsn": w.postgres, "table": t.name}
}

// toTable is the runner of rows that write the lines of a file to a table.
func toTable(w *world, r *row, c *contestant, n int, _ bool) (s sample, err error) {
	vars, err := w.prepare(r, c, n)
	if err != nil {
		return s, err
	}
	t, err := w.table()
	if err != nil {
		return s, err
	}
	defer t.drop()
	maps.Copy(vars, w.reach(t))
	used, err := w.do(c.command, vars)
	if err != nil {
		return s, err
	}
	return used.sample(r.data, n, used.wall), t.has(w.ctx, n)
}

// has checks that there are n rows, which are those that fill makes.
func (t table) has(ctx context.Context, n int) error {
	rows := func(query string) (n int, err error) {
		err = t.QueryRow(ctx, strings.ReplaceAll(query, "$t", t.name)).Scan(&n)
		return n, err
	}
	got, err := rows("SELECT count(*) FROM $t")
	if err != nil || got != n {
		return errors.Join(err, fmt.Errorf("%d rows arrived of %d", got, n))
	}
	all := t
	all.name += "_all"
	if err := all.do(ctx, "CREATE TEMP TABLE $t (LIKE "+t.name+")"); err != nil {
		return err
	}
	if err := all.fill(ctx, n, n); err != nil {
		return err
	}
	got, err = rows("SELECT count(*) FROM $t NATURAL JOIN $t_all")
	if err == nil && got != n {
		err = fmt.Errorf("%d rows of %d are as they should be", got, n)
	}
	return err
}

// fromTable is the runner of rows that read n rows of a table.
func fromTable(w *world, r *row, c *contestant, n int, _ bool) (s sample, err error) {
	t, err := w.table()
	if err != nil {
		return s, err
	}
	defer t.drop()
	if err := t.fill(w.ctx, n, n); err != nil {
		return s, err
	}
	if err := t.do(w.ctx, "ANALYZE $t"); err != nil {
		return s, err
	}
	used, err := w.do(c.command, w.reach(t))
	if err != nil {
		return s, err
	}
	return used.sample(r.data, n, used.wall), counted(output{n: n, stderr: used.stderr, flowd: c.isFlowd()})
}

// changes is the runner of rows that read n changes from a slot. A run ends when the server has been told that all are
// settled.
func changes(w *world, r *row, c *contestant, n int, _ bool) (s sample, err error) {
	t, err := w.table()
	if err != nil {
		return s, err
	}
	defer t.drop()
	if err := t.do(w.ctx, "CREATE PUBLICATION $t FOR TABLE $t",
		"SELECT pg_create_logical_replication_slot('$t', 'pgoutput')"); err != nil {
		return s, err
	}
	defer t.unslot()
	if err := t.fill(w.ctx, n, 1000); err != nil {
		return s, err
	}
	var end string
	if err := t.QueryRow(w.ctx, "SELECT pg_current_wal_insert_lsn()").Scan(&end); err != nil {
		return s, err
	}
	vars := w.reach(t)
	vars["settling"] = settling.String()
	p, err := w.start(c.command, vars, nil, nil)
	if err != nil {
		return s, err
	}
	defer p.kill()
	var broken error
	err = p.until(func() (settled bool) {
		broken = t.QueryRow(w.ctx, "SELECT confirmed_flush_lsn >= $1::pg_lsn FROM pg_replication_slots WHERE slot_name = $2",
			end, t.name).Scan(&settled)
		return settled || broken != nil
	}, "does not settle all changes")
	took := max(time.Since(p.began), time.Millisecond)
	if err = errors.Join(err, broken); err != nil {
		return s, err
	}
	used, err := p.stop()
	if err != nil {
		return s, err
	}
	return used.sample(r.data, n, took), counted(output{n: n, stderr: used.stderr, flowd: c.isFlowd()})
}

// unslot drops the slot, whose reader's connection the server may not yet have ended.
func (t table) unslot() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = t.do(ctx, "SELECT pg_terminate_backend(active_pid, 10000) FROM pg_replication_slots "+
		"WHERE slot_name = '$t' AND active",
		"SELECT pg_drop_replication_slot('$t')", "DROP PUBLICATION $t")
}
