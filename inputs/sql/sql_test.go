package sql

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/systems/sqldb"
	"github.com/flowd-io/flowd/internal/testing/pgtest"
	"github.com/flowd-io/flowd/internal/testing/sqltest"
)

func made(t *testing.T, driver, dsn, more string) *input {
	t.Helper()
	return enginetest.New(t, engine.Inputs, fmt.Sprintf(`{"sql": {"driver": %q, "dsn": %q, %s}}`, driver, dsn, more)).(*input)
}

// opened returns an open input. It is closed when the test ends.
func opened(t *testing.T, driver, dsn, more string) *input {
	t.Helper()
	in := made(t, driver, dsn, more)
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(context.Background()) })
	return in
}

// read calls Read once, with room for n messages, and returns their documents and Refs.
func read(t *testing.T, in *input, n int) (docs []string, refs []uint64, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	b := engine.NewBatch(n)
	_, err = in.Read(ctx, b)
	for m := range b.All() {
		docs, refs = append(docs, string(m.Bytes())), append(refs, m.Ref)
	}
	return docs, refs, err
}

// rest reads and settles all rows until the input ends.
func rest(t *testing.T, in *input) (all []string) {
	t.Helper()
	for {
		docs, refs, err := read(t, in, 100)
		all = append(all, docs...)
		settle(t, in, refs...)
		if err == engine.ErrEnd {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func settle(t *testing.T, in *input, refs ...uint64) {
	t.Helper()
	var rs []engine.Result
	for _, ref := range refs {
		rs = append(rs, engine.Result{Ref: ref, Fate: engine.Delivered})
	}
	if _, err := in.places.Ack(t.Context(), rs); err != nil {
		t.Fatal(err)
	}
}

// ids returns the documents {"id":from} to {"id":to}.
func ids(from, to int) (all []string) {
	for i := from; i <= to; i++ {
		all = append(all, fmt.Sprintf(`{"id":%d}`, i))
	}
	return all
}

func equal(t *testing.T, got, want []string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %d %.300v, want %d %.300v", len(got), got, len(want), want)
	}
}

// insert inserts rows with the ids from to to.
func insert(t *testing.T, conn sqldb.Conn, from, to int) {
	t.Helper()
	var values []string
	for i := from; i <= to; i++ {
		values = append(values, fmt.Sprintf("(%d)", i))
	}
	sqltest.Exec(t, conn, "INSERT INTO t (id) VALUES "+strings.Join(values, ", "))
}

// databases are the drivers to test.
var databases = append(sqltest.Drivers[:len(sqltest.Drivers):len(sqltest.Drivers)], "clickhouse")

// create returns a statement that creates a table of ids.
func create(driver string) string {
	if driver == "clickhouse" {
		return "CREATE TABLE t (id Int32) ENGINE = MergeTree ORDER BY id"
	}
	return "CREATE TABLE t (id int PRIMARY KEY)"
}

// after returns the fields of a query for rows after the cursor.
func after(driver, more string) string {
	mark := map[bool]string{true: "$1", false: "?"}[driver == "postgres"]
	return `"query": "SELECT id FROM t WHERE id > ` + mark + ` ORDER BY id ` + more + `", "args": ["cursor() ?? 0"], "cursor": "id"`
}

func TestInput(t *testing.T) {
	for _, driver := range databases {
		t.Run(driver, func(t *testing.T) {
			dsn := sqltest.Database(t, driver)
			sqltest.Connect(t, driver, dsn, create(driver), "INSERT INTO t VALUES (1), (2), (3)")
			enginetest.Input(t, func(t *testing.T) engine.Input {
				return made(t, driver, dsn, `"query": "SELECT id FROM t ORDER BY id"`)
			},
				ids(1, 3)...)
			enginetest.Input(t, func(t *testing.T) engine.Input {
				return made(t, driver, dsn, after(driver, "LIMIT 2")+`, "checkpoint": "`+filepath.Join(t.TempDir(), "c")+`"`)
			}, ids(1, 3)...)
		})
	}
}

func TestPages(t *testing.T) {
	for _, driver := range databases {
		for _, limit := range []string{"", "LIMIT 7", "LIMIT 1000"} {
			t.Run(driver+" "+limit, func(t *testing.T) {
				t.Parallel()
				dsn := sqltest.Database(t, driver)
				insert(t, sqltest.Connect(t, driver, dsn, create(driver)), 1, 3000)
				equal(t, rest(t, opened(t, driver, dsn, after(driver, limit))), ids(1, 3000))
			})
		}
	}
}

func TestACheckpointCoversSettledRowsOnly(t *testing.T) {
	for _, driver := range databases {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			dsn := sqltest.Database(t, driver)
			insert(t, sqltest.Connect(t, driver, dsn, create(driver)), 1, 20)
			config := after(driver, "LIMIT 8") + `, "checkpoint": "` + filepath.Join(t.TempDir(), "c") + `"`
			in := opened(t, driver, dsn, config)
			var refs []uint64
			for len(refs) < 10 {
				_, more, err := read(t, in, 1)
				if err != nil {
					t.Fatal(err)
				}
				refs = append(refs, more...)
			}
			settle(t, in, append(refs[:5:5], refs[6:]...)...) // all but the sixth, which is returned
			if _, err := in.places.Ack(t.Context(), []engine.Result{{Ref: refs[5], Fate: engine.Returned}}); err != nil {
				t.Fatal(err)
			}
			if err := in.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			again := opened(t, driver, dsn, config)
			equal(t, rest(t, again), ids(6, 20))
			if err := again.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			equal(t, rest(t, opened(t, driver, dsn, config)), nil)
		})
	}
}

// A query that begins after a cursor misses other rows with the same cursor.
func TestRowsWithEqualCursorsCountAsOnePosition(t *testing.T) {
	t.Parallel()
	dsn := sqltest.Database(t, "sqlite")
	sqltest.Connect(t, "sqlite", dsn, "CREATE TABLE t (id int, at int)", "INSERT INTO t VALUES (1, 1), (2, 5), (3, 5), (4, 5), (5, 6)")
	config := `"query": "SELECT id, at FROM t WHERE at > ? ORDER BY at, id", "args": ["cursor() ?? 0"], "cursor": "at", "checkpoint": "` +
		filepath.Join(t.TempDir(), "c") + `"`
	tests := []struct {
		settled, first int // rows that are settled, and the first after a restart
	}{{1, 2}, {2, 2}, {3, 2}, {4, 5}}
	for _, tt := range tests {
		in := opened(t, "sqlite", dsn, strings.Replace(config, `/c"`, fmt.Sprintf(`/c%d"`, tt.settled), 1))
		_, refs, err := read(t, in, 5)
		for len(refs) < 5 && err == nil {
			var more []uint64
			_, more, err = read(t, in, 5)
			refs = append(refs, more...)
		}
		settle(t, in, refs[:tt.settled]...)
		if err := in.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		again := opened(t, "sqlite", dsn, strings.Replace(config, `/c"`, fmt.Sprintf(`/c%d"`, tt.settled), 1))
		if got := rest(t, again); len(got) == 0 || !strings.HasPrefix(got[0], fmt.Sprintf(`{"id":%d,`, tt.first)) {
			t.Errorf("%d settled: continues with %v, want %d", tt.settled, got, tt.first)
		}
	}
}

func TestNewRowsAreFound(t *testing.T) {
	for _, driver := range databases {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			dsn := sqltest.Database(t, driver)
			conn := sqltest.Connect(t, driver, dsn, create(driver))
			insert(t, conn, 1, 2)
			in := opened(t, driver, dsn, after(driver, "")+`, "interval": "10ms"`)
			var all []string
			for len(all) < 4 {
				docs, _, err := read(t, in, 10)
				if err != nil {
					t.Fatal(err)
				}
				if all = append(all, docs...); len(all) == 2 {
					insert(t, conn, 3, 4)
				}
			}
			equal(t, all, ids(1, 4))
		})
	}
}

func TestAnEventEndsTheWait(t *testing.T) {
	t.Parallel()
	dsn := sqltest.Database(t, "postgres")
	conn := sqltest.Connect(t, "postgres", dsn, "CREATE TABLE t (id int PRIMARY KEY)")
	in := opened(t, "postgres", dsn, after("postgres", "")+`, "interval": "1h", "listen": "New Rows", "connections": 1`)
	for i := range 3 {
		insert(t, conn, i, i)
		if i > 0 {
			sqltest.Exec(t, conn, `NOTIFY "New Rows"`)
		}
		if i == 0 {
			continue // found without an event: starting to listen ends the wait
		}
		docs, _, err := read(t, in, 10)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, docs, ids(i, i))
	}
	// A listener whose connection is cut listens again.
	sqltest.Exec(t, conn, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`)
	insert(t, conn, 3, 3)
	docs, _, err := read(t, in, 10)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, docs, ids(3, 3))
}

func TestAFailureLosesNothing(t *testing.T) {
	t.Parallel()
	p := pgtest.Own(t)
	conn := sqltest.Connect(t, "postgres", p.URL(""), "CREATE TABLE t (id int PRIMARY KEY, fill text DEFAULT repeat('x', 10000))")
	insert(t, conn, 1, 5000)
	in := opened(t, "postgres", p.URL(""), after("postgres", "")[:len(after("postgres", ""))-len(`, "cursor": "id"`)]+`, "cursor": "id"`)
	in.cfg.Query = strings.Replace(in.cfg.Query, "SELECT id", "SELECT id, fill", 1)
	seen := map[string]bool{}
	note := func(docs []string) {
		for _, d := range docs {
			seen[d[:strings.IndexByte(d, ',')]] = true
		}
	}
	docs, _, err := read(t, in, 100)
	if err != nil {
		t.Fatal(err)
	}
	note(docs)
	p.Stop(t)
	for err == nil {
		docs, _, err = read(t, in, 100)
		note(docs)
	}
	if err == engine.ErrEnd {
		t.Fatal("the input has ended because the server has stopped")
	}
	if err := in.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := in.Open(t.Context()); err == nil {
		t.Error("it opens without a server")
	}
	p.Start(t)
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	note(rest(t, in))
	if len(seen) != 5000 {
		t.Errorf("%d rows of 5000 were read", len(seen))
	}
}

func TestFaults(t *testing.T) {
	tests := []struct{ name, more, want string }{
		{"a missing table", `"query": "SELECT * FROM u"`, "no such table: u"},
		{"invalid SQL", `"query": "SELEC"`, "syntax error"},
		{"too few args", `"query": "SELECT ?, ?", "args": ["1"]`, "missing argument"},
		{"a missing cursor field", `"query": "SELECT 1 AS a ORDER BY 1", "cursor": "id"`, "cursor: is null in a row"},
		{"an arg that fails", `"query": "SELECT ?", "args": ["1 / len(this)"]`, "args[0]: "},
		{"a slow query",
			`"query": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0", "query_timeout": "100ms"`,
			"no row within query_timeout"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := opened(t, "sqlite", sqltest.Database(t, "sqlite"), tt.more)
			if _, _, err := read(t, in, 10); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestLint(t *testing.T) {
	const server = `"driver": "postgres", "dsn": "postgres://h/d", `
	tests := []struct{ name, config, want string }{
		{"a query", server + `"query": "SELECT 1"`, ""},
		{"with a cursor", server + after("postgres", "") + `, "checkpoint": "c", "listen": "x"`, ""},
		{"a checkpoint without cursor", server + `"query": "SELECT 1", "checkpoint": "c"`, "no cursor to record"},
		{"a cursor without order", server + `"query": "SELECT 1", "cursor": "a"`, "order by the cursor"},
		{"listen without PostgreSQL", `"driver": "sqlite", "dsn": "x.db", "query": "SELECT 1", "listen": "x"`, "only PostgreSQL has channels"},
		{"cursor() in cursor", server + `"query": "SELECT 1 ORDER BY 1", "cursor": "cursor()"`, "cursor"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := fmt.Sprint(enginetest.Problems(t, engine.Inputs, `{"sql": {`+tt.config+`}}`))
			if tt.want == "" && got != "[]" || !strings.Contains(got, tt.want) {
				t.Errorf("got %s, want %q", got, tt.want)
			}
		})
	}
}

func TestConnectionsThatBreak(t *testing.T) {
	for _, driver := range []string{"postgres", "mariadb", "clickhouse"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			var conn sqldb.Conn
			enginetest.RemoteInput{
				Reach: func(t *testing.T, wire *enginetest.Wire) string {
					dsn := sqltest.Database(t, driver)
					conn = sqltest.Connect(t, driver, dsn, strings.ReplaceAll(create(driver), "id", "n"))
					return fmt.Sprintf(`{"sql": {"driver": %q, "dsn": %q, "interval": "10ms", %s}}`, driver, sqltest.Over(wire, dsn),
						strings.NewReplacer("id", "n", "?? 0", "?? -1").Replace(after(driver, "")))
				},
				Send: func(t *testing.T, payloads ...string) {
					for _, p := range payloads {
						sqltest.Exec(t, conn, "INSERT INTO t (n) VALUES ("+strings.Trim(p, `{"n:}`)+")")
					}
				},
				Answers: 5,
			}.Run(t)
		})
	}
}
