package sql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/clickhousetest"
	"github.com/flowd-io/flowd/internal/testing/sqltest"
)

const house = "clickhouse"

// table returns the dsn of a new ClickHouse database with a table.
func table(t *testing.T, engine string) string {
	t.Helper()
	dsn := sqltest.Database(t, house)
	clickhousetest.Exec(t, dsn, "CREATE TABLE t (id Int32, n Int32, e Enum8('a' = 1)) ENGINE = "+engine)
	return dsn
}

const merge = "MergeTree ORDER BY id"

func TestOutputToClickHouse(t *testing.T) {
	dsn := sqltest.Database(t, house)
	clickhousetest.Exec(t, dsn, "CREATE TABLE t (id Int32, n Nullable(Int32)) ENGINE = "+merge)
	enginetest.Output(t, func(t *testing.T) engine.Output {
		return enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"sql": {"driver": "clickhouse", "dsn": %q, %s}}`, dsn, plain))
	}, `{"id":1,"n":1}`, `{"id":2}`, `{"id":3,"n":null}`)
}

// Even without transactions, invalid rows fail alone, and the others are written once.
func TestABadRowFailsAloneInClickHouse(t *testing.T) {
	const columns = `"table": "t", "columns": {"id": "id", "n": "n", "e": "e ?? \"a\""}`
	tests := []struct {
		name, engine, more string
		bad                map[int]string
	}{
		{"what flowd refuses", merge, columns, map[int]string{0: `{"id":1,"n":"x"}`, 249: `{"id":3000000000,"n":1}`, 499: `{"id":1}`}},
		{"what the server refuses", merge, columns, map[int]string{77: `{"id":78,"n":1,"e":"q"}`, 78: `{"id":79,"n":1,"e":"r"}`}},
		{"in many partitions", "MergeTree PARTITION BY id % 7 ORDER BY id", columns, map[int]string{77: `{"id":78,"n":1,"e":"q"}`}},
		{"by a query", "Memory", `"query": "INSERT INTO t (id, n) VALUES (?, ?)", "args": ["id", "n"]`,
			map[int]string{300: `{"id":301,"n":"x"}`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dsn := table(t, tt.engine)
			o := opened(t, house, dsn, tt.more)
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
				if c, holds := class(err); c != engine.Rejected || holds {
					t.Errorf("got %v of class %s, want rejected", err, c)
				}
			}
			wanted := fmt.Sprintf("%d\t%[1]d", 500-len(want))
			if got := clickhousetest.Exec(t, dsn, "SELECT count(), uniqExact(id) FROM t"); got != wanted {
				t.Errorf("rows and ids in the table: %q, want %q", got, wanted)
			}
		})
	}
}

func TestLargeWritesToClickHouse(t *testing.T) {
	t.Parallel()
	dsn := table(t, merge)
	if failed, errs := write(t, opened(t, house, dsn, plain), numbered(120_000)...); failed != nil {
		t.Errorf("failed: %v", errs[0])
	}
	clickhousetest.Exec(t, dsn, "CREATE TABLE s (s String) ENGINE = Memory")
	s := opened(t, house, dsn, `"table": "s", "columns": {"s": "repeat(\"x\", 900000)"}`)
	if failed, errs := write(t, s, slices.Repeat([]string{"{}"}, 30)...); failed != nil {
		t.Errorf("failed: %v", errs[0])
	}
	if got := clickhousetest.Exec(t, dsn, "SELECT (SELECT count() FROM t), (SELECT sum(length(s)) FROM s)"); got != "120000\t27000000" {
		t.Errorf("got %q", got)
	}
}

func TestNamesAreOnlyNamesInClickHouse(t *testing.T) {
	t.Parallel()
	dsn := sqltest.Database(t, house)
	clickhousetest.Exec(t, dsn, "CREATE TABLE `select` (`a\"b\\`; DROP TABLE t --\\\\` String) ENGINE = Memory")
	o := opened(t, house, dsn, `"table": "select", "columns": {"a\"b`+"`"+`; DROP TABLE t --\\": "v"}`)
	if failed, errs := write(t, o, `{"v":"'; DROP TABLE t; -- \\' \" $1 ?"}`, `{"v":"\\"}`); failed != nil {
		t.Errorf("failed: %v", errs)
	}
	if got := clickhousetest.Exec(t, dsn, "SELECT count() FROM `select`"); got != "2" {
		t.Errorf("%s rows, want 2", got)
	}
}

func TestClickHouseHolds(t *testing.T) {
	t.Parallel()
	s := clickhousetest.Own(t, clickhousetest.Settings{})
	dsn := s.URL() + "/default"
	clickhousetest.Exec(t, dsn, "CREATE TABLE t (id Int32, n Int32) ENGINE = TinyLog")
	o := opened(t, house, dsn, plain)
	clickhousetest.Exec(t, dsn, "DROP TABLE t")
	check := func(what, want string) {
		t.Helper()
		err := o.Write(t.Context(), enginetest.Batch(`{"id":4,"n":1}`))
		if c, holds := class(err); c != engine.Transient || !holds || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v of class %s, holds %t; want %q", what, err, c, holds, want)
		}
		if err := o.Probe(t.Context()); err == nil {
			t.Errorf("%s: the probe succeeds", what)
		}
	}
	check("no table", "create it")
	clickhousetest.Exec(t, dsn, "CREATE TABLE t (id Int32, m Int32) ENGINE = TinyLog")
	check("no column", `no column "n"`)
	clickhousetest.Exec(t, dsn, "DROP TABLE t", "CREATE TABLE t (id Int32, n Int32) ENGINE = TinyLog")
	write(t, o, numbered(3)...)
	clickhousetest.Exec(t, dsn, "RENAME TABLE t TO u")
	check("a table that is gone", "create it")
	clickhousetest.Exec(t, dsn, "RENAME TABLE u TO t")
	s.Stop()
	_ = o.Probe(t.Context()) // the probe may find the connection that was kept open
	check("no server", "refused")
	s.Start(t)
	if err := o.Probe(t.Context()); err != nil {
		t.Errorf("the probe fails: %v", err)
	}
	if failed, errs := write(t, o, `{"id":4,"n":1}`); failed != nil {
		t.Errorf("failed: %v", errs)
	}
}

func TestAFullDiskOfClickHouseHoldsUntilThereIsRoom(t *testing.T) {
	t.Parallel()
	s := clickhousetest.Cramped(t)
	dsn := s.URL() + "/default"
	conn := sqltest.Connect(t, house, dsn, "CREATE TABLE t (id Int32, n Int32) ENGINE = "+merge,
		"CREATE TABLE filler (n UInt64) ENGINE = TinyLog")
	for full := false; !full; {
		_, err := conn.Exec(t.Context(), "INSERT INTO filler SELECT sipHash64(number) FROM system.numbers LIMIT 50000", nil)
		full = err != nil
	}
	o := opened(t, house, dsn, plain)
	b := enginetest.Batch(numbered(2)...)
	err := o.Write(t.Context(), b)
	if c, holds := class(err); c != engine.Transient || !holds {
		t.Errorf("got %v of class %s, holds %t", err, c, holds)
	}
	for m := range b.All() {
		if m.Err() != nil {
			t.Errorf("a message is to blame: %v", m.Err())
		}
	}
	sqltest.Exec(t, conn, "DROP TABLE filler")
	if failed, errs := write(t, o, numbered(2)...); failed != nil {
		t.Errorf("failed: %v", errs)
	}
	if got := clickhousetest.Exec(t, dsn, "SELECT count() FROM t"); got != "2" {
		t.Errorf("%s rows, want two", got)
	}
}

func TestAStatementOfClickHouseEndsWithTheDeadline(t *testing.T) {
	t.Parallel()
	o := opened(t, house, table(t, merge), `"query": "INSERT INTO t (id) SELECT sleep(1)"`)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := o.Write(ctx, enginetest.Batch(`{}`))
	if c, holds := class(err); c != engine.Timeout || holds || time.Since(began) > 2*time.Second {
		t.Errorf("got %v of class %s after %v", err, c, time.Since(began))
	}
}

func TestLintOfClickHouse(t *testing.T) {
	const at = `"driver": "clickhouse", "dsn": `
	tests := []struct{ name, config, want string }{
		{"a table", at + `"http://u:p@h/d", ` + plain, ""},
		{"by TLS", at + `"https://u:p@h:8443/d?max_execution_time=60", "tls": {}, ` + plain, ""},
		{"another protocol", at + `"clickhouse://u:p@h:9000/d", ` + plain,
			`ClickHouse is called over HTTP, not with the protocol "clickhouse" (write http://`},
		{"no URL", at + `"u:p@tcp(h:9000)/d", ` + plain, "write http://"},
		{"TLS without https", at + `"http://h/d", "tls": {}, ` + plain, "write https://"},
		{"a path", at + `"http://h/d/e", ` + plain, "its path is not a database name"},
		{"upsert", at + `"http://h/d", "upsert": ["id"], ` + plain, "ReplacingMergeTree"},
		{"rows that may be lost", at + `"http://h/d?async_insert=1&wait_for_async_insert=0", ` + plain, "loses rows"},
		{"COPY", at + `"http://h/d", "copy": true, ` + plain, "only PostgreSQL has COPY"},
		{"no name", at + `"http://h/d", "table": "a..b", "columns": {"id": "id"}`, `"" is empty`},
		{"a long name", `"driver": "postgres", "dsn": "postgres://h/d", "table": "a.` + strings.Repeat("x", 64) + `", "columns": {"id": "id"}`,
			"longer than 63 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := fmt.Sprint(enginetest.Problems(t, engine.Outputs, `{"sql": {`+tt.config+`}}`))
			if tt.want == "" && got != "[]" || !strings.Contains(got, tt.want) {
				t.Errorf("got %s, want %q", got, tt.want)
			}
			if strings.Contains(got, "u:p") {
				t.Errorf("the problem has the password: %s", got)
			}
		})
	}
}

func TestRefusedUsers(t *testing.T) {
	t.Parallel()
	dsn := table(t, merge)
	tests := []struct{ name, dsn, want string }{
		{"a wrong password", strings.Replace(dsn, ":secret@", ":guess@", 1), "check the user and password"},
		{"an unknown user", strings.Replace(dsn, "default:", "nobody:", 1), "check the user and password"},
		{"a user who may only read", strings.Replace(dsn, "default:", "reader:", 1), "readonly"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"sql": {"driver": "clickhouse", "dsn": %q, %s}}`, tt.dsn, plain)).(*output)
			err := o.Open(t.Context())
			if err == nil {
				err = o.Write(t.Context(), enginetest.Batch(`{"id":1,"n":1}`))
			}
			defer func() { _ = o.Close(context.Background()) }()
			var e *engine.Error
			if !errors.As(err, &e) || e.Class != engine.Auth || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "guess") {
				t.Errorf("got %#v %v, want %q of class auth", e, err, tt.want)
			}
		})
	}
}
