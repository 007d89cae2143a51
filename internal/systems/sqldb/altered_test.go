package sqldb

import (
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
)

// If the type of a parameter has changed, the statement fails once with a retryable error, and then works.
func TestAParameterWhoseTypeHasChanged(t *testing.T) {
	for _, statement := range []string{"SELECT n FROM t WHERE id = $1", "UPDATE t SET n = 'x' WHERE id = $1"} {
		t.Run(statement[:6], func(t *testing.T) {
			t.Parallel()
			conn := connect(t, database(t, "postgres"))
			exec(t, conn, "CREATE TABLE t (id int, n text)")
			run := func(id string) error { return try(t, conn, statement, []Value{{Text, []byte(id)}}) }
			if err := run("1"); err != nil {
				t.Fatal(err)
			}
			exec(t, conn, "ALTER TABLE t ALTER COLUMN id TYPE text")
			if err := run("a"); engine.ErrorOf(err, "").Class != engine.Transient {
				t.Errorf("got %v, want a retryable error", err)
			}
			if err := run("a"); err != nil {
				t.Errorf("the second attempt fails: %v", err)
			}
		})
	}
}

// A value that was made for the old type of a column may also fit the new type, such as quoted text for a json column. So flowd asks for
// the types again regularly.
func TestTypesAreAskedForAgain(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		conn := connect(t, database(t, "postgres"))
		exec(t, conn, "CREATE TABLE t (v json)")
		insert := func() { exec(t, conn, "INSERT INTO t VALUES ($1)", Value{Text, []byte("a")}) }
		insert()
		exec(t, conn, "ALTER TABLE t ALTER COLUMN v TYPE text")
		for _, s := range conn.(*pgConn).statements {
			s.asked = s.asked.Add(-believed)
		}
		insert()
		if got := documents(t, conn, "SELECT v FROM t"); len(got) != 2 || got[1] != `{"v":"a"}` {
			t.Errorf("got %s", got)
		}
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		conn := connect(t, database(t, "sqlite"))
		for _, kind := range []string{"json", "text"} {
			exec(t, conn, "DROP TABLE IF EXISTS t")
			exec(t, conn, "CREATE TABLE t (v "+kind+")")
			all, err := conn.Types(t.Context(), "t", []string{"v"}, false)
			if err != nil {
				t.Fatal(err)
			}
			if v, err := all.Fit(0, Value{Text, []byte("a")}); err != nil || (v.Kind == JSON) != (kind == "json") {
				t.Errorf("%s: got %s of kind %d, %v", kind, v.Text, v.Kind, err)
			}
			known := conn.(*standardConn).types
			for query, k := range known {
				k.asked = k.asked.Add(-believed)
				known[query] = k
			}
		}
	})
}

// After a failover, connections may refuse writes. After the first refusal, the pool uses none of them any more.
func TestConnectionsThatRefuseWritesAreReplaced(t *testing.T) {
	for driver, demote := range map[string]string{"postgres": "SET default_transaction_read_only = on",
		"mariadb": "SET SESSION TRANSACTION READ ONLY", "sqlite": "PRAGMA query_only = 1"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			c := database(t, driver)
			exec(t, connect(t, c), "CREATE TABLE t (id int)")
			db, err := c.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			var all []Conn
			for range 3 {
				conn, err := db.Conn(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				exec(t, conn, demote)
				all = append(all, conn)
			}
			insert := func(conn Conn) error {
				_, err := conn.Exec(t.Context(), "INSERT INTO t VALUES (1)", nil)
				return err
			}
			all[0].Release()
			err = insert(all[1])
			if e := engine.ErrorOf(err, ""); err == nil || e.Class != engine.Transient || !e.Holds || !strings.Contains(err.Error(), "(") {
				t.Errorf("got %v of class %s, holds %t", err, e.Class, e.Holds)
			}
			all[1].Release()
			all[2].Release()
			for range 3 {
				conn, err := db.Conn(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if err := insert(conn); err != nil {
					t.Errorf("after the refusal: %v", err)
				}
				defer conn.Release()
			}
		})
	}
}
