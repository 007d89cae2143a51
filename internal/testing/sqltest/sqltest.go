// Package sqltest gives tests databases of every kind, and connections of their own beside the component's.
package sqltest

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/systems/sqldb"
	"github.com/flowd-io/flowd/internal/testing/clickhousetest"
	"github.com/flowd-io/flowd/internal/testing/mariadbtest"
	"github.com/flowd-io/flowd/internal/testing/pgtest"
	"github.com/flowd-io/flowd/schema"
)

// Drivers are the kinds of databases that have transactions and keys; clickhouse has neither.
var Drivers = []string{"postgres", "mariadb", "sqlite"}

// Database is the dsn of an empty database of a kind; it skips the test where no server can be had.
func Database(t testing.TB, driver string) string {
	t.Helper()
	switch driver {
	case "postgres":
		return pgtest.Database(t)
	case "mariadb":
		return mariadbtest.Database(t)
	case "clickhouse":
		return clickhousetest.Database(t)
	}
	return filepath.Join(t.TempDir(), "test.db")
}

// Connect is a connection, which lasts as long as the test; it begins with statements.
func Connect(t testing.TB, driver, dsn string, statements ...string) sqldb.Conn {
	t.Helper()
	c := sqldb.Defaults
	c.Driver, c.DSN = driver, schema.NewSecret(dsn)
	db, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Release()
		_ = db.Close()
	})
	Exec(t, conn, statements...)
	return conn
}

// Exec runs statements.
func Exec(t testing.TB, conn sqldb.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := conn.Exec(t.Context(), s, nil); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// Rows are the rows of a query, as documents.
func Rows(t testing.TB, conn sqldb.Conn, query string) (all []string) {
	t.Helper()
	rows, err := conn.Query(t.Context(), query, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		text, err := rows.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	return all
}

// Over leads a wire to the server of a dsn, and returns a dsn by way of the wire.
func Over(wire *enginetest.Wire, dsn string) string {
	before, rest, isMySQL := strings.Cut(dsn, "@tcp(")
	if !isMySQL {
		return wire.Over(dsn)
	}
	address, after, _ := strings.Cut(rest, ")")
	wire.To(address)
	return before + "@tcp(" + wire.Address + ")" + after
}
