package sql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/systems/sqldb"
	"github.com/flowd-io/flowd/internal/testing/sqltest"
)

// opened returns an open output. It is closed when the test ends.
func opened(t *testing.T, driver, dsn, more string) *output {
	t.Helper()
	o := made(t, driver, dsn, more)
	if err := o.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close(context.Background()) })
	return o
}

func made(t *testing.T, driver, dsn, more string) *output {
	t.Helper()
	return enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"sql": {"driver": %q, "dsn": %q, %s}}`, driver, dsn, more)).(*output)
}

const plain = `"table": "t", "columns": {"id": "id", "n": "n"}`

// numbered returns documents with ids from 1 on.
func numbered(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf(`{"id":%d,"n":%d}`, i+1, i))
	}
	return all
}

// write writes a batch, and returns the indexes of failed messages, and their errors.
func write(t *testing.T, o *output, payloads ...string) (failed []int, errs []error) {
	t.Helper()
	b := enginetest.Batch(payloads...)
	var all []*engine.Message
	for m := range b.All() {
		all = append(all, m)
	}
	if err := o.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for i, m := range all {
		if m.Err() != nil {
			failed, errs = append(failed, i), append(errs, m.Err())
		}
	}
	return failed, errs
}

func TestOutput(t *testing.T) {
	for _, driver := range sqltest.Drivers {
		t.Run(driver, func(t *testing.T) {
			dsn := sqltest.Database(t, driver)
			sqltest.Exec(t, sqltest.Connect(t, driver, dsn), "CREATE TABLE t (id int, n int)")
			enginetest.Output(t, func(t *testing.T) engine.Output {
				return enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"sql": {"driver": %q, "dsn": %q, %s}}`, driver, dsn, plain))
			}, `{"id":1,"n":1}`, `{"id":2}`, `{"id":3,"n":null}`)
		})
	}
}

func TestAServerThatIsAway(t *testing.T) {
	for _, driver := range []string{"postgres", "mariadb", house} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			var conn sqldb.Conn
			payloads := numbered(5)
			enginetest.Remote{
				Reach: func(t *testing.T, wire *enginetest.Wire) func() engine.Output {
					dsn := sqltest.Database(t, driver)
					create := "CREATE TABLE t (id int, n int)"
					if driver == house {
						create += " ENGINE = " + merge
					}
					conn = sqltest.Connect(t, driver, dsn, create)
					dsn = sqltest.Over(wire, dsn)
					return func() engine.Output {
						return enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"sql": {"driver": %q, "dsn": %q, %s}}`, driver, dsn, plain))
					}
				},
				Arrived:  func(t *testing.T) []string { return sqltest.Rows(t, conn, "SELECT id, n FROM t ORDER BY id") },
				Payloads: payloads,
				Greets:   driver != house,
			}.Run(t)
		})
	}
}

func TestABadRowOf500FailsAlone(t *testing.T) {
	tests := []struct {
		name, more string
		bad        map[int]string // payloads that replace rows
	}{
		{"one of another type", plain, map[int]string{77: `{"id":78,"n":"many"}`}},
		{"a duplicate of one in the table", plain, map[int]string{0: `{"id":1000,"n":1}`}},
		{"a duplicate in the batch", plain, map[int]string{499: `{"id":3,"n":1}`}},
		{"several", plain, map[int]string{0: `{"id":1,"n":"x"}`, 249: `{"id":2,"n":null}`, 250: `{"id":2.5,"n":2}`, 499: `{"id":1000,"n":"y"}`}},
		{"with upsert", plain + `, "upsert": ["id"]`, map[int]string{77: `{"id":78,"n":"many"}`, 99: `{"id":"x","n":1}`}},
		{"with a query", `"query": "INSERT INTO t VALUES (?, ?)", "args": ["id", "n"]`, map[int]string{300: `{"id":5,"n":1}`,
			301: `{"id":6,"n":"x"}`}},
		{"by COPY", plain + `, "copy": true`, map[int]string{77: `{"id":78,"n":"many"}`, 400: `{"id":1000,"n":1}`}},
	}
	for _, driver := range sqltest.Drivers {
		for _, tt := range tests {
			if strings.Contains(tt.more, "copy") && driver != "postgres" {
				continue
			}
			t.Run(driver+": "+tt.name, func(t *testing.T) {
				t.Parallel()
				dsn := sqltest.Database(t, driver)
				conn := sqltest.Connect(t, driver, dsn)
				sqltest.Exec(t, conn, "CREATE TABLE t (id integer NOT NULL PRIMARY KEY, n integer NOT NULL CHECK (n < 500000))",
					"INSERT INTO t VALUES (1000, 7)")
				if driver == "sqlite" { // SQLite accepts any text as an integer
					sqltest.Exec(t, conn, "DROP TABLE t", "CREATE TABLE t (id integer NOT NULL PRIMARY KEY, n integer NOT NULL) STRICT",
						"INSERT INTO t VALUES (1000, 7)")
				}
				if driver == "postgres" {
					tt.more = strings.Replace(tt.more, "(?, ?)", "($1, $2)", 1)
				}
				o := opened(t, driver, dsn, tt.more)
				payloads := numbered(500)
				var want []int
				for i, bad := range tt.bad {
					payloads[i], want = bad, append(want, i)
				}
				slices.Sort(want)
				failed, errs := write(t, o, payloads...)
				if !slices.Equal(failed, want) {
					t.Errorf("failed: %v, want %v: %v", failed, want, errs)
				}
				for _, err := range errs {
					var e *engine.Error
					if !errors.As(err, &e) || e.Class != engine.Rejected || e.Holds {
						t.Errorf("got %#v, want class rejected", e)
					}
				}
				if got := len(sqltest.Rows(t, conn, "SELECT id FROM t")); got != 501-len(want) {
					t.Errorf("%d rows in the table, want %d", got, 501-len(want))
				}
			})
		}
	}
}

// A document without fields would be a row without values.
func TestADocumentWithoutFieldsIsNotARow(t *testing.T) {
	dsn := sqltest.Database(t, "sqlite")
	conn := sqltest.Connect(t, "sqlite", dsn)
	sqltest.Exec(t, conn, "CREATE TABLE t (id int, n text)")
	for _, more := range []string{plain, `"query": "INSERT INTO t VALUES (?, ?)", "args": ["id ?? 0", "raw()"]`} {
		failed, errs := write(t, opened(t, "sqlite", dsn, more), `{"id":1}`, `5`, `"x"`, `[{"id":1}]`, `null`)
		if !slices.Equal(failed, []int{1, 2, 3, 4}) {
			t.Errorf("%s: failed: %v, %v", more, failed, errs)
		}
		for _, err := range errs {
			if e := engine.ErrorOf(err, ""); e.Class != engine.Permanent || !strings.Contains(err.Error(), "id is not a field: the document is") {
				t.Errorf("class %s: %v", e.Class, err)
			}
		}
	}
	raw := opened(t, "sqlite", dsn, `"table": "t", "columns": {"n": "raw()"}`)
	if failed, errs := write(t, raw, `5`, `text`); failed != nil {
		t.Errorf("a payload as a whole: %v", errs)
	}
	if got := len(sqltest.Rows(t, conn, "SELECT id FROM t")); got != 4 {
		t.Errorf("%d rows in the table, want 4", got)
	}
}

func TestTheLastOfAKeyWins(t *testing.T) {
	for _, driver := range sqltest.Drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			dsn := sqltest.Database(t, driver)
			conn := sqltest.Connect(t, driver, dsn)
			strict := map[bool]string{true: " STRICT"}[driver == "sqlite"]
			sqltest.Exec(t, conn, "CREATE TABLE t (id integer NOT NULL PRIMARY KEY, n integer NOT NULL)"+strict,
				"INSERT INTO t VALUES (1, 0), (2, 0)")
			o := opened(t, driver, dsn, plain+`, "upsert": ["id"]`)
			failed, errs := write(t, o, `{"id":1,"n":1}`, `{"id":2,"n":1}`, `{"id":1,"n":2}`, `{"id":3,"n":3}`, `{"id":2,"n":"x"}`,
				`{"id":1.0,"n":3}`)
			if !slices.Equal(failed, []int{4}) {
				t.Errorf("failed: %v: %v", failed, errs)
			}
			got := strings.Join(sqltest.Rows(t, conn, "SELECT id, n FROM t ORDER BY id"), " ")
			if got != `{"id":1,"n":3} {"id":2,"n":1} {"id":3,"n":3}` {
				t.Errorf("got %s", got)
			}
			only := opened(t, driver, dsn, `"table": "t", "columns": {"id": "id", "n": "n"}, "upsert": ["id", "n"]`)
			if driver != "mariadb" { // in MariaDB, any unique key counts
				sqltest.Exec(t, conn, "DROP TABLE t", "CREATE TABLE t (id integer, n integer, UNIQUE (id, n))")
			}
			if failed, errs := write(t, only, `{"id":9,"n":1}`, `{"id":9,"n":1}`); failed != nil {
				t.Errorf("failed: %v", errs)
			}
		})
	}
}

func TestNamesAreOnlyNames(t *testing.T) {
	for _, driver := range sqltest.Drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			dsn := sqltest.Database(t, driver)
			conn := sqltest.Connect(t, driver, dsn)
			mark := map[bool]string{true: "`", false: `"`}[driver == "mariadb"]
			double := strings.ReplaceAll(`a"b`+"`"+`; DROP TABLE t --`, mark, mark+mark)
			sqltest.Exec(t, conn, "CREATE TABLE t (id int)", "CREATE TABLE "+mark+"select"+mark+" ("+mark+double+mark+" varchar(99))")
			o := opened(t, driver, dsn, `"table": "select", "columns": {"a\"b`+"`"+`; DROP TABLE t --": "v"}`)
			if failed, errs := write(t, o, `{"v":"'; DROP TABLE t; -- \\' \" $1 ?"}`, `{"v":"\\"}`); failed != nil {
				t.Errorf("failed: %v", errs)
			}
			if got := len(sqltest.Rows(t, conn, "SELECT * FROM t")) + len(sqltest.Rows(t, conn, "SELECT * FROM "+mark+"select"+mark)); got != 2 {
				t.Errorf("%d rows, want 2", got)
			}
		})
	}
}

func TestLargeWrites(t *testing.T) {
	for _, driver := range sqltest.Drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			dsn := sqltest.Database(t, driver)
			conn := sqltest.Connect(t, driver, dsn)
			sqltest.Exec(t, conn, "CREATE TABLE t (id int PRIMARY KEY, n int)")
			o := opened(t, driver, dsn, plain)
			if failed, errs := write(t, o, numbered(2500)...); failed != nil {
				t.Errorf("failed: %v", errs[0])
			}
			if got := len(sqltest.Rows(t, conn, "SELECT id FROM t")); got != 2500 {
				t.Errorf("%d rows, want 2500", got)
			}
			sqltest.Exec(t, conn, "CREATE TABLE s (s "+map[string]string{"mariadb": "longtext"}[driver]+
				map[bool]string{true: "text"}[driver != "mariadb"]+")")
			s := opened(t, driver, dsn, `"table": "s", "columns": {"s": "repeat(\"x\", 700000)"}`)
			if failed, errs := write(t, s, "{}", "{}", "{}", "{}"); failed != nil {
				t.Errorf("failed: %v", errs[0])
			}
		})
	}
}

func TestLint(t *testing.T) {
	const at = `"driver": "postgres", "dsn": "postgres://h/d"`
	tests := []struct{ name, config, want string }{
		{"a table", at + `, ` + plain, ""},
		{"a query", at + `, "query": "SELECT $1", "args": ["id"]`, ""},
		{"no table", at + `, "columns": {"a": "a"}`, "name the table"},
		{"no columns", at + `, "table": "t"`, "write columns"},
		{"both", at + `, ` + plain + `, "query": "x"`, "replaces table"},
		{"a key that is no column", at + `, ` + plain + `, "upsert": ["x"]`, `"x" is not one of columns`},
		{"COPY and upsert", at + `, ` + plain + `, "upsert": ["id"], "copy": true`, "can't replace rows"},
		{"COPY elsewhere", `"driver": "sqlite", "dsn": "x.db", "copy": true, ` + plain, "only PostgreSQL has COPY"},
		{"a file by TLS", `"driver": "sqlite", "dsn": "x.db", "tls": {}, ` + plain, "a file, which has no TLS"},
		{"a dsn of another kind", `"driver": "mysql", "dsn": "mysql://u:p@h/d", ` + plain, "USER:PASSWORD@tcp"},
		{"a file that is none", `"driver": "sqlite", "dsn": ":memory:", ` + plain, "write the path of a file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := fmt.Sprint(enginetest.Problems(t, engine.Outputs, `{"sql": {`+tt.config+`}}`))
			if tt.want == "" && got != "[]" || !strings.Contains(got, tt.want) {
				t.Errorf("got %s, want %q", got, tt.want)
			}
		})
	}
}
