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

// sqlRows use a PostgreSQL on this machine, over TCP.
var sqlRows = []row{
	{
		name: "sql-insert", does: "file → table, 500 rows per INSERT", data: orders, fixed: 100_000, run: runSQLWrite,
		needs: postgres, contestants: []contestant{inFlowd("sql-insert"), theLimit("pgx", "sql-insert $dsn $table $in")},
		goals: []goal{{than: "pgx", atLeast: 0.7}},
	},
	{
		name: "sql-copy", does: "file → table, 10,000 rows per COPY", data: orders, fixed: 200_000, run: runSQLWrite,
		needs: postgres, contestants: []contestant{inFlowd("sql-copy"), theLimit("pgx", "sql-copy $dsn $table $in")},
		goals: []goal{{than: "pgx", atLeast: 0.7}},
	},
	{
		name: "sql-read", does: "table → drop, 10,000 rows per query", data: orders, fixed: 400_000, run: runSQLRead,
		needs: postgres, contestants: []contestant{inFlowd("sql-read"), theLimit("pgx", "sql-read $dsn $table")},
		goals: []goal{{than: "pgx", atLeast: 0.5}},
	},
	{
		name: "postgres-cdc", does: "changes of a table → drop, 1,000 changes per transaction, until all are confirmed", data: orders,
		fixed: 200_000, run: runCDC, needs: postgres,
		contestants: []contestant{inFlowd("postgres-cdc"), theLimit("pgoutput", "postgres-cdc $dsn $table")},
		goals:       []goal{{than: "pgoutput", atLeast: 0.7}},
	},
}

// postgres starts a server, which runs until this process exits, or says why it can't.
func postgres(w *world) error {
	if w.postgres != "" {
		return nil
	}
	var t skipRecorder
	done := make(chan struct{})
	go func() { // Skip ends this goroutine
		defer close(done)
		w.postgres = pgtest.Server(&t).URL("")
	}()
	<-done
	if w.postgres == "" {
		return errors.New(t.why)
	}
	conn, err := pgx.Connect(w.ctx, w.postgres) // a server named by the variable may be down
	if err != nil {
		w.postgres = ""
		return fmt.Errorf("PostgreSQL is not reachable: %w (check %s)", err, pgtest.Variable)
	}
	return conn.Close(w.ctx)
}

// table is a table that a single run uses.
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
	return t, t.exec(w.ctx, "CREATE TABLE $t (id bigint PRIMARY KEY, number int, name text, path text, trace text)")
}

// exec runs statements, in which $t stands for the name of the table.
func (t table) exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := t.Exec(ctx, strings.ReplaceAll(s, "$t", t.name)); err != nil {
			return err
		}
	}
	return nil
}

// fill inserts n orders, with each rows per transaction.
func (t table) fill(ctx context.Context, n, each int) error {
	for from := 0; from < n; from += each {
		if err := t.exec(ctx, fmt.Sprintf("INSERT INTO $t SELECT i, i %% 997, 'Customer ' || i %% 997, "+
			"'/api/v1/orders/' || i %% 9973, '4bf92f3577b34da6a3ce929d0e0e4736' FROM generate_series(%d, %d) i",
			from, min(from+each, n)-1)); err != nil {
			return err
		}
	}
	return nil
}

// drop drops the table and closes the connection.
func (t table) drop() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = t.exec(ctx, "DROP TABLE $t")
	_ = t.Close(ctx)
}

func (w *world) tableVars(t table) map[string]string {
	return map[string]string{"dsn": w.postgres, "table": t.name}
}

// runSQLWrite is the runner of rows that write the lines of a file to a table.
func runSQLWrite(w *world, r *row, c *contestant, n int, _ bool) (s sample, err error) {
	vars, err := w.prepare(r, c, n)
	if err != nil {
		return s, err
	}
	t, err := w.table()
	if err != nil {
		return s, err
	}
	defer t.drop()
	maps.Copy(vars, w.tableVars(t))
	used, err := w.runCommand(c.command, vars)
	if err != nil {
		return s, err
	}
	return used.sample(r.data, n, used.wall), t.checkRows(w.ctx, n)
}

// checkRows checks that the table has the n rows that fill inserts.
func (t table) checkRows(ctx context.Context, n int) error {
	rows := func(query string) (n int, err error) {
		err = t.QueryRow(ctx, strings.ReplaceAll(query, "$t", t.name)).Scan(&n)
		return n, err
	}
	got, err := rows("SELECT count(*) FROM $t")
	if err != nil || got != n {
		return errors.Join(err, fmt.Errorf("the table has %d rows, want %d", got, n))
	}
	all := t
	all.name += "_all"
	if err := all.exec(ctx, "CREATE TEMP TABLE $t (LIKE "+t.name+")"); err != nil {
		return err
	}
	if err := all.fill(ctx, n, n); err != nil {
		return err
	}
	got, err = rows("SELECT count(*) FROM $t NATURAL JOIN $t_all")
	if err == nil && got != n {
		err = fmt.Errorf("%d of %d rows are right", got, n)
	}
	return err
}

// runSQLRead is the runner of rows that read a table with n rows.
func runSQLRead(w *world, r *row, c *contestant, n int, _ bool) (s sample, err error) {
	t, err := w.table()
	if err != nil {
		return s, err
	}
	defer t.drop()
	if err := t.fill(w.ctx, n, n); err != nil {
		return s, err
	}
	if err := t.exec(w.ctx, "ANALYZE $t"); err != nil {
		return s, err
	}
	used, err := w.runCommand(c.command, w.tableVars(t))
	if err != nil {
		return s, err
	}
	return used.sample(r.data, n, used.wall), counted(output{n: n, stderr: used.stderr, flowd: c.isFlowd()})
}

// runCDC is the runner of rows that read n changes from a replication slot. A run ends when all changes have been confirmed
// to the server.
func runCDC(w *world, r *row, c *contestant, n int, _ bool) (s sample, err error) {
	t, err := w.table()
	if err != nil {
		return s, err
	}
	defer t.drop()
	if err := t.exec(w.ctx, "CREATE PUBLICATION $t FOR TABLE $t",
		"SELECT pg_create_logical_replication_slot('$t', 'pgoutput')"); err != nil {
		return s, err
	}
	defer t.dropSlot()
	if err := t.fill(w.ctx, n, 1000); err != nil {
		return s, err
	}
	var end string
	if err := t.QueryRow(w.ctx, "SELECT pg_current_wal_insert_lsn()").Scan(&end); err != nil {
		return s, err
	}
	vars := w.tableVars(t)
	vars["settling"] = settling.String()
	p, err := w.start(c.command, vars, nil, nil)
	if err != nil {
		return s, err
	}
	defer p.kill()
	var broken error
	err = p.waitUntil(func() (settled bool) {
		broken = t.QueryRow(w.ctx, "SELECT confirmed_flush_lsn >= $1::pg_lsn FROM pg_replication_slots WHERE slot_name = $2",
			end, t.name).Scan(&settled)
		return settled || broken != nil
	}, "does not confirm all changes")
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

// dropSlot drops the slot and the publication. It first ends the reader's connection, which may still be open.
func (t table) dropSlot() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = t.exec(ctx, "SELECT pg_terminate_backend(active_pid, 10000) FROM pg_replication_slots "+
		"WHERE slot_name = '$t' AND active",
		"SELECT pg_drop_replication_slot('$t')", "DROP PUBLICATION $t")
}
