package sql

import (
	"fmt"
	"slices"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/clickhousetest"
	"github.com/flowd-io/flowd/internal/testing/sqltest"
)

// referring returns 50 documents. Those with odd ids refer to the next one, and one refers to a document that does not exist.
func referring() (all []string) {
	for id := 1; id <= 50; id += 2 {
		to := id + 1
		if id == 31 {
			to = 1000
		}
		all = append(all, fmt.Sprintf(`{"id":%d,"n":%d}`, id, to), fmt.Sprintf(`{"id":%d}`, id+1))
	}
	return all
}

// A row refers to a row that does not exist. A database reports that row by row, or only at the end of the transaction. Only that row
// fails, but no row that refers to another row of the same write.
func TestARowThatRefersToNothingFailsAlone(t *testing.T) {
	const deferred = "CREATE TABLE t (id integer PRIMARY KEY, n integer REFERENCES t (id) DEFERRABLE INITIALLY DEFERRED)"
	const at = "CREATE TABLE t (id integer PRIMARY KEY, n integer, FOREIGN KEY (n) REFERENCES t (id))"
	tests := []struct{ name, driver, table, more string }{
		{"at the end", "postgres", deferred, plain},
		{"at the end, with COPY", "postgres", deferred, plain + `, "copy": true`},
		{"at the end, with upsert", "postgres", deferred, plain + `, "upsert": ["id"]`},
		{"at the end", "sqlite", deferred, plain},
		{"row by row", "postgres", at, plain},
		{"row by row", "mariadb", at, plain},
		{"row by row", "sqlite", at, plain},
	}
	for _, tt := range tests {
		t.Run(tt.driver+": "+tt.name, func(t *testing.T) {
			t.Parallel()
			dsn := sqltest.Database(t, tt.driver)
			if tt.driver == "sqlite" {
				dsn += "?_pragma=foreign_keys(1)"
			}
			conn := sqltest.Connect(t, tt.driver, dsn, tt.table)
			failed, errs := write(t, opened(t, tt.driver, dsn, tt.more), referring()...)
			if !slices.Equal(failed, []int{30}) {
				t.Fatalf("failed: %v, want [30]: %v", failed, errs)
			}
			if c, holds := class(errs[0]); c != engine.Rejected || holds {
				t.Errorf("got %v of class %s, want rejected", errs[0], c)
			}
			if got := len(sqltest.Rows(t, conn, "SELECT id FROM t")); got != 49 {
				t.Errorf("%d rows in the table, want 49", got)
			}
		})
	}
}

func TestADeferredConstraintOfAQueryFailsOneRow(t *testing.T) {
	t.Parallel()
	dsn := sqltest.Database(t, "postgres")
	conn := sqltest.Connect(t, "postgres", dsn, "CREATE TABLE t (id int, n int UNIQUE DEFERRABLE INITIALLY DEFERRED)",
		"INSERT INTO t VALUES (0, 7)")
	o := opened(t, "postgres", dsn, `"query": "INSERT INTO t VALUES ($1, $2)", "args": ["id", "n"]`)
	if failed, errs := write(t, o, numbered(50)...); !slices.Equal(failed, []int{7}) {
		t.Errorf("failed: %v, want [7]: %v", failed, errs)
	}
	if got := len(sqltest.Rows(t, conn, "SELECT id FROM t")); got != 50 {
		t.Errorf("%d rows in the table, want 50", got)
	}
}

// written writes payloads. None may fail, but the write may have to be repeated.
func written(t *testing.T, o *output, payloads ...string) {
	t.Helper()
	for range 3 {
		b := enginetest.Batch(payloads...)
		err := o.Write(t.Context(), b)
		for m := range b.Ended() {
			t.Errorf("%s failed: %v", m.Bytes(), m.Err())
		}
		if c, _ := class(err); err == nil || c != engine.Transient {
			if err != nil {
				t.Errorf("class %s: %v", c, err)
			}
			return
		}
	}
	t.Error("it is to be tried again and again")
}

// A column may become wider while the pipeline runs. Values that fit now are written.
func TestAColumnThatWasAltered(t *testing.T) {
	const create = "CREATE TABLE t (id int, n int)"
	text := []string{"ALTER TABLE t ALTER COLUMN n TYPE text"}
	toJSON := []string{"ALTER TABLE t ALTER COLUMN n TYPE jsonb USING to_jsonb(n)"}
	many := append(numbered(1200), `{"id":5000,"n":"many"}`) // in several statements
	tests := []struct {
		name, driver, create, more string
		alter, payloads            []string
	}{
		{"to text", "postgres", create, plain, text, []string{`{"id":2,"n":"many"}`}},
		{"to JSON, with COPY", "postgres", "CREATE TABLE t (id int, n text)", plain + `, "copy": true`, toJSON,
			[]string{`{"id":2,"n":"many"}`}},
		{"to text, with a query", "postgres", create, `"query": "INSERT INTO t VALUES ($1, $2)", "args": ["id", "n"]`, text,
			[]string{`{"id":2,"n":"many"}`, `{"id":3,"n":"few"}`}},
		{"to text, in several statements", "postgres", create, plain, text, many},
		{"to JSON, in several statements", "postgres", "CREATE TABLE t (id int, n text)", plain, toJSON,
			append(numbered(1200), `{"id":5000,"n":{"a":1}}`)},
		{"to text", "mariadb", create, plain, []string{"ALTER TABLE t MODIFY n text"}, []string{`{"id":2,"n":1.5}`}},
		{"to another table", "sqlite", "CREATE TABLE t (id int, n json)", plain,
			[]string{"DROP TABLE t", "CREATE TABLE t (id int, n text CHECK (length(n) < 5))"}, []string{`{"id":2,"n":"many"}`}},
	}
	for _, tt := range tests {
		t.Run(tt.driver+": "+tt.name, func(t *testing.T) {
			t.Parallel()
			dsn := sqltest.Database(t, tt.driver)
			conn := sqltest.Connect(t, tt.driver, dsn, tt.create)
			o := opened(t, tt.driver, dsn, tt.more)
			written(t, o, `{"id":1,"n":1}`)
			sqltest.Exec(t, conn, tt.alter...)
			written(t, o, tt.payloads...)
			want := len(tt.payloads) + 1
			if tt.driver == "sqlite" {
				want-- // the first row was in the old table
			}
			if got := len(sqltest.Rows(t, conn, "SELECT id FROM t")); got != want {
				t.Errorf("%d rows in the table, want %d", got, want)
			}
			if tt.driver == "sqlite" {
				return
			}
			b := enginetest.Batch(`{"id":"none","n":1}`)
			if o.Write(t.Context(), b) != nil { // some earlier failures had other causes than the types
				b = enginetest.Batch(`{"id":"none","n":1}`)
				if err := o.Write(t.Context(), b); err != nil {
					t.Error(err)
				}
			}
			if len(slices.Collect(b.Ended())) != 1 {
				t.Error("what does not fit an altered table is written")
			}
		})
	}
}

func TestAColumnOfClickHouseThatWasAltered(t *testing.T) {
	t.Parallel()
	dsn := table(t, merge)
	o := opened(t, house, dsn, plain)
	written(t, o, `{"id":1,"n":1}`)
	clickhousetest.Exec(t, dsn, "ALTER TABLE t MODIFY COLUMN n String")
	written(t, o, `{"id":2,"n":"many"}`, `{"id":3,"n":"few"}`)
	if got := clickhousetest.Exec(t, dsn, "SELECT count() FROM t"); got != "3" {
		t.Errorf("%s rows in the table, want 3", got)
	}
}
