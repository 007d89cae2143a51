package sql

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/pgtest"
	"github.com/flowd-io/flowd/internal/testing/sqltest"
)

// class returns the class of an error.
func class(err error) (c engine.Class, holds bool) {
	var e *engine.Error
	if errors.As(err, &e) {
		c, holds = e.Class, e.Holds
	}
	return c, holds
}

func TestARestartHoldsTheOutput(t *testing.T) {
	t.Parallel()
	p := pgtest.Own(t)
	conn := sqltest.Connect(t, "postgres", p.URL(""))
	sqltest.Exec(t, conn, "CREATE TABLE t (id int PRIMARY KEY, n int)")
	o := opened(t, "postgres", p.URL(""), plain)
	write(t, o, numbered(3)...)
	p.Stop(t)
	for i := range 2 { // the first write may find a broken connection, the second finds none
		c, holds := class(o.Write(t.Context(), enginetest.Batch(`{"id":4,"n":1}`)))
		if c != engine.Transient || i > 0 && !holds {
			t.Errorf("write %d without a server: class %s, holds %t", i, c, holds)
		}
	}
	if err := o.Probe(t.Context()); err == nil {
		t.Error("the probe succeeds without a server")
	}
	p.Start(t)
	if err := o.Probe(t.Context()); err != nil {
		t.Errorf("the probe fails: %v", err)
	}
	if failed, errs := write(t, o, `{"id":4,"n":1}`); failed != nil {
		t.Errorf("failed: %v", errs)
	}
}

// After a failover, the old primary refuses writes. The next write reaches the new one.
func TestAFailoverIsFollowed(t *testing.T) {
	t.Parallel()
	old, next := pgtest.Own(t), sqltest.Database(t, "postgres")
	u, err := url.Parse(next)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	old.Exec(t, "", "CREATE DATABASE "+name)
	first, err := url.Parse(old.URL(name))
	if err != nil {
		t.Fatal(err)
	}
	const create = "CREATE TABLE t (id int, n int)"
	old.Exec(t, first.String(), create)
	conn := sqltest.Connect(t, "postgres", next, create)
	u.Host, u.RawQuery = first.Host+","+u.Host, "target_session_attrs=read-write"
	o := opened(t, "postgres", u.String(), plain)
	write(t, o, numbered(3)...)
	old.Exec(t, "", "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
	for late := time.Now().Add(10 * time.Second); ; { // until the server has reloaded its configuration
		b := enginetest.Batch(`{"id":4,"n":1}`)
		err := o.Write(t.Context(), b)
		if c, holds := class(err); err != nil && (c != engine.Transient || !holds || !strings.Contains(err.Error(), "target_session_attrs")) {
			t.Fatalf("got %v", err)
		}
		if err != nil {
			break
		}
		if time.Now().After(late) {
			t.Fatal("the old primary still takes writes")
		}
	}
	if err := o.Probe(t.Context()); err != nil {
		t.Errorf("the probe fails: %v", err)
	}
	if failed, errs := write(t, o, `{"id":5,"n":1}`); failed != nil {
		t.Errorf("failed: %v", errs)
	}
	if got := sqltest.Rows(t, conn, "SELECT id FROM t"); len(got) != 1 || got[0] != `{"id":5}` {
		t.Errorf("the new primary has %s", got)
	}
}

func TestAMissingTableHoldsUntilItIsThere(t *testing.T) {
	for _, driver := range sqltest.Drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			dsn := sqltest.Database(t, driver)
			unopened := made(t, driver, dsn, plain)
			if err := unopened.Open(t.Context()); !engine.Passes(err) || !strings.Contains(err.Error(), "create it") {
				t.Errorf("open: %v", err)
			}
			const create = "CREATE TABLE t (id int PRIMARY KEY, n int)"
			sqltest.Exec(t, sqltest.Connect(t, driver, dsn), create)
			o := opened(t, driver, dsn, plain)
			sqltest.Exec(t, sqltest.Connect(t, driver, dsn), "DROP TABLE t")
			if _, holds := class(o.Write(t.Context(), enginetest.Batch(`{"id":4,"n":1}`))); !holds {
				t.Error("the output is not held without a table")
			}
			err := o.Probe(t.Context())
			if err == nil || !strings.Contains(err.Error(), "table t: ") || !strings.Contains(err.Error(), "create it") {
				t.Errorf("the probe says %v", err)
			}
			sqltest.Exec(t, sqltest.Connect(t, driver, dsn), create)
			if err := o.Probe(t.Context()); err != nil {
				t.Errorf("the probe fails: %v", err)
			}
			if failed, errs := write(t, o, `{"id":4,"n":1}`); failed != nil {
				t.Errorf("failed: %v", errs)
			}
		})
	}
}

// A full disk fails no message. All wait until there is room.
func TestAFullDiskHoldsUntilThereIsRoom(t *testing.T) {
	tests := map[string]struct {
		dsn             func(t *testing.T) string
		table, filler   string
		fill, room, say string
	}{
		"postgres": {func(t *testing.T) string { return pgtest.Cramped(t).URL("") },
			"CREATE TABLE t (id int PRIMARY KEY, n int) TABLESPACE small", "CREATE TABLE filler (pad text) TABLESPACE small",
			"INSERT INTO filler VALUES (repeat('x', 1000))", "DROP TABLE filler", "No space left on device (SQLSTATE 53100)"},
		// A full memory table has the same error number as a full disk.
		"mariadb": {func(t *testing.T) string { return sqltest.Database(t, "mariadb") + "&max_heap_table_size=16384" },
			"CREATE TABLE t (id int PRIMARY KEY, n int) ENGINE=MEMORY", "SELECT 1",
			"INSERT INTO t (id) SELECT 1000 + count(*) FROM t", "DELETE FROM t", "is full (error 1114"},
	}
	for driver, tt := range tests {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			dsn := tt.dsn(t)
			conn := sqltest.Connect(t, driver, dsn, tt.table, tt.filler)
			for full := false; !full; {
				_, err := conn.Exec(t.Context(), tt.fill, nil)
				full = err != nil
			}
			o := opened(t, driver, dsn, plain)
			b := enginetest.Batch(`{"id":1,"n":1}`, `{"id":2,"n":1}`)
			err := o.Write(t.Context(), b)
			if c, holds := class(err); c != engine.Transient || !holds || !strings.Contains(err.Error(), tt.say) {
				t.Errorf("got %v of class %s, holds %t; want %q", err, c, holds, tt.say)
			}
			for m := range b.All() {
				if m.Err() != nil {
					t.Errorf("a message is to blame: %v", m.Err())
				}
			}
			sqltest.Exec(t, conn, tt.room)
			if failed, errs := write(t, o, `{"id":1,"n":1}`, `{"id":2,"n":1}`); failed != nil {
				t.Errorf("failed: %v", errs)
			}
			if got := sqltest.Rows(t, conn, "SELECT id FROM t ORDER BY id"); len(got) != 2 {
				t.Errorf("rows %q, want two", got)
			}
		})
	}
}

// A lock fails no message. The whole write is repeated, and none of its rows were stored before.
func TestALockEndsWithTheDeadline(t *testing.T) {
	for _, driver := range sqltest.Drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			dsn := sqltest.Database(t, driver)
			conn := sqltest.Connect(t, driver, dsn)
			sqltest.Exec(t, conn, "CREATE TABLE t (id int PRIMARY KEY, n int)", "INSERT INTO t VALUES (2, 0)")
			o := opened(t, driver, dsn, plain+`, "upsert": ["id"]`)
			sqltest.Exec(t, conn, "BEGIN", "UPDATE t SET n = 7")
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			b := enginetest.Batch(`{"id":1,"n":1}`, `{"id":2,"n":1}`)
			err := o.Write(ctx, b)
			if c, holds := class(err); err == nil || c == engine.Rejected || c == engine.Permanent || holds {
				t.Errorf("got %v, want a passing error", err)
			}
			for m := range b.All() {
				if m.Err() != nil {
					t.Errorf("a message is to blame: %v", m.Err())
				}
			}
			sqltest.Exec(t, conn, "COMMIT")
			if got := sqltest.Rows(t, conn, "SELECT n FROM t"); len(got) != 1 {
				t.Errorf("%d rows, want 1", len(got))
			}
			if failed, errs := write(t, o, `{"id":1,"n":1}`, `{"id":2,"n":1}`); failed != nil {
				t.Errorf("failed: %v", errs)
			}
		})
	}
}

// A transaction whose connection is cut may have been committed. The write is repeated, which counts as an attempt.
func TestACutConnectionIsAnAttempt(t *testing.T) {
	t.Parallel()
	dsn := sqltest.Database(t, "postgres")
	conn := sqltest.Connect(t, "postgres", dsn)
	sqltest.Exec(t, conn, "CREATE TABLE t (id int PRIMARY KEY, n int)",
		"CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.n = 13 THEN PERFORM "+
			"pg_terminate_backend(pg_backend_pid()); END IF; RETURN NEW; END $$",
		"CREATE TRIGGER cut BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION cut()")
	o := opened(t, "postgres", dsn, plain)
	err := o.Write(t.Context(), enginetest.Batch(`{"id":1,"n":1}`, `{"id":2,"n":13}`))
	if c, _ := class(err); c != engine.Transient {
		t.Errorf("got %v of class %s", err, c)
	}
	sqltest.Exec(t, conn, "DROP TRIGGER cut ON t")
	if failed, errs := write(t, o, `{"id":1,"n":1}`, `{"id":2,"n":13}`); failed != nil {
		t.Errorf("failed: %v", errs)
	}
	if got := len(sqltest.Rows(t, conn, "SELECT id FROM t")); got != 2 {
		t.Errorf("%d rows, want 2", got)
	}
}

func TestAnExpressionThatFailsIsOfItsMessage(t *testing.T) {
	t.Parallel()
	dsn := sqltest.Database(t, "sqlite")
	sqltest.Exec(t, sqltest.Connect(t, "sqlite", dsn), "CREATE TABLE t (id int, n int)")
	o := opened(t, "sqlite", dsn, `"table": "t", "columns": {"id": "id", "n": "n + 1"}`)
	failed, errs := write(t, o, `{"id":1,"n":1}`, `{"id":2}`, `text`)
	if len(failed) != 2 || failed[0] != 1 || !strings.Contains(errs[0].Error(), "column n: ") {
		t.Errorf("failed: %v: %v", failed, errs)
	}
}
