package sql

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/sqltest"
	"github.com/flowd-io/flowd/internal/testing/steptest"
)

// fresh returns the dsn of a new database with a table of customers.
func fresh(t *testing.T, driver string) string {
	t.Helper()
	dsn := sqltest.Database(t, driver)
	sqltest.Connect(t, driver, dsn, "CREATE TABLE c (id int PRIMARY KEY, name varchar(20), credit decimal(30,2))",
		"INSERT INTO c VALUES (1, 'Ada', 12.50), (2, 'Bob', NULL)")
	return dsn
}

func configured(driver, dsn, more string) string {
	return fmt.Sprintf(`{"sql": {"driver": %q, "dsn": %q, %s}}`, driver, dsn, more)
}

// outcomes returns the payloads after a step, or "CLASS: error" for failed ones.
func outcomes(t *testing.T, ctx context.Context, config string, payloads ...string) (got []string) {
	t.Helper()
	p := enginetest.New(t, engine.Processors, config)
	if err := p.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.(engine.Closer).Close(context.Background()) }()
	b := enginetest.Batch(payloads...)
	var all []*engine.Message
	for m := range b.All() {
		all = append(all, m)
	}
	if err := p.Process(ctx, b); err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if e := m.Err(); e != nil {
			got = append(got, string(e.Class)+": "+e.Error())
		} else {
			got = append(got, string(m.Bytes()))
		}
	}
	return got
}

func TestConforms(t *testing.T) {
	dsn := fresh(t, "sqlite")
	steptest.Conforms(t, configured("sqlite", dsn, `"query": "SELECT * FROM c WHERE id = ?", "args": ["id"], "into": "c"`), `{"id":1}`,
		`{"id":9}`)
	steptest.Conforms(t, configured("sqlite", dsn, `"query": "SELECT * FROM c", "rows": "many"`), `{}`, `text`)
}

func TestAnswers(t *testing.T) {
	for _, driver := range []string{"postgres", "mariadb", "sqlite"} {
		credit := map[bool]string{true: "12.5", false: "12.50"}[driver == "sqlite"]
		tests := []struct{ name, more, in, want string }{
			{"a row", `"query": "SELECT name, credit FROM c WHERE id = ?", "args": ["id"], "into": "c"`, `{"id":1}`,
				`{"id":1,"c":{"name":"Ada","credit":` + credit + `}}`},
			{"no row", `"query": "SELECT name FROM c WHERE id = ?", "args": ["id"], "into": "a.b"`, `{"id":7}`, `{"id":7,"a":{"b":null}}`},
			{"rows", `"query": "SELECT id FROM c ORDER BY id", "rows": "many", "into": "all"`, `{}`, `{"all":[{"id":1},{"id":2}]}`},
			{"no rows", `"query": "SELECT id FROM c WHERE id > 9", "rows": "many", "into": "all"`, `{}`, `{"all":[]}`},
			{"the payload", `"query": "SELECT id FROM c WHERE id = ?", "args": ["2"]`, `text`, `{"id":2}`},
			{"several rows", `"query": "SELECT id FROM c", "into": "c"`, `{}`, "rejected: the answer has several rows"},
			{"a change", `"query": "UPDATE c SET name = ? WHERE id = ?", "args": ["n", "2"], "rows": "none"`, `{"n":"x"}`, `{"n":"x"}`},
			{"a duplicate", `"query": "INSERT INTO c (id) VALUES (?)", "args": ["id"], "rows": "none"`, `{"id":1}`, "rejected: "},
			{"no table", `"query": "SELECT 1 AS a FROM d", "into": "c"`, `{}`, "transient: "},
			{"no SQL", `"query": "SELEC", "into": "c"`, `{}`, "permanent: "},
			{"no document", `"query": "SELECT 1 AS a", "into": "c"`, `text`, ": not a JSON document"},
			{"a long answer", `"query": "SELECT * FROM c", "rows": "many", "max_answer": 10, "into": "c"`, `{}`,
				"permanent: the answer is longer than max_answer"},
		}
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			dsn := fresh(t, driver)
			for _, tt := range tests {
				more := tt.more
				if driver == "postgres" {
					more = strings.Replace(strings.Replace(more, "?", "$1", 1), "?", "$2", 1)
				}
				got := outcomes(t, t.Context(), configured(driver, dsn, more), tt.in)[0]
				if got != tt.want && (!strings.Contains(tt.want, ": ") || !strings.Contains(got, tt.want)) {
					t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
				}
			}
		})
	}
}

func TestManyAtOnceFailAlone(t *testing.T) {
	for _, driver := range []string{"postgres", "mariadb", "sqlite"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			dsn := fresh(t, driver)
			mark := map[bool]string{true: "$1", false: "?"}[driver == "postgres"]
			var in []string
			for i := range 100 {
				in = append(in, fmt.Sprintf(`{"id":%d}`, i))
			}
			in[50] = `{"id":1}` // a duplicate
			got := outcomes(t, t.Context(), configured(driver, dsn, `"query": "INSERT INTO c (id) VALUES (`+mark+
				`)", "args": ["id"], "rows": "none", "connections": 3`), in...)
			for i, g := range got {
				if bad := i == 50 || i == 1 || i == 2; bad != strings.HasPrefix(g, "rejected: ") {
					t.Errorf("message %d: %s", i, g)
				}
			}
		})
	}
}

func TestAStatementEndsWithTheDeadline(t *testing.T) {
	tests := map[string]string{
		"postgres": "SELECT pg_sleep(30)", "mariadb": "SELECT SLEEP(30)",
		"sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0",
	}
	for driver, query := range tests {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			dsn := fresh(t, driver)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			began := time.Now()
			got := outcomes(t, ctx, configured(driver, dsn, `"query": "`+query+`", "into": "c"`), `{}`)[0]
			if strings.HasPrefix(got, "{") || strings.HasPrefix(got, "permanent") || strings.HasPrefix(got, "rejected") {
				t.Errorf("got %s", got)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// ClickHouse has neither UPDATE as other databases do, nor unique keys.
func TestAnswersOfClickHouse(t *testing.T) {
	t.Parallel()
	dsn := sqltest.Database(t, "clickhouse")
	sqltest.Connect(t, "clickhouse", dsn,
		"CREATE TABLE c (id Int32, name String, credit Nullable(Decimal(18,2))) ENGINE = MergeTree ORDER BY id",
		"INSERT INTO c VALUES (1, 'Ada', 12.50), (2, 'Bob', NULL)")
	tests := []struct{ name, more, in, want string }{
		{"a row", `"query": "SELECT name, credit FROM c WHERE id = ?", "args": ["id"], "into": "c"`, `{"id":1}`,
			`{"id":1,"c":{"name":"Ada","credit":12.50}}`},
		{"no row", `"query": "SELECT name FROM c WHERE id = ?", "args": ["id"], "into": "a.b"`, `{"id":7}`, `{"id":7,"a":{"b":null}}`},
		{"rows", `"query": "SELECT id FROM c WHERE has(?, name) ORDER BY id", "args": ["names"], "rows": "many", "into": "all"`,
			`{"names":["Ada","Bob"]}`,
			`{"names":["Ada","Bob"],"all":[{"id":1},{"id":2}]}`},
		{"several rows", `"query": "SELECT id FROM c", "into": "c"`, `{}`, "rejected: the answer has several rows"},
		{"a change", `"query": "INSERT INTO c (id, name) VALUES (?, ?)", "args": ["3", "n"], "rows": "none"`, `{"n":"'x"}`, `{"n":"'x"}`},
		{"a value that does not fit", `"query": "INSERT INTO c (id) VALUES (?)", "args": ["id"], "rows": "none"`, `{"id":"x"}`, "rejected: "},
		{"no table", `"query": "SELECT 1 AS a FROM d", "into": "c"`, `{}`, "transient: "},
		{"no SQL", `"query": "SELEC", "into": "c"`, `{}`, "permanent: "},
		{"no UTF-8", `"query": "SELECT unhex('ff') AS a", "into": "c"`, `{}`, "permanent: column a has text that is not UTF-8 (write hex(a)"},
		{"a long answer", `"query": "SELECT * FROM c", "rows": "many", "max_answer": 10, "into": "c"`, `{}`,
			"permanent: the answer is longer than max_answer"},
	}
	for _, tt := range tests {
		got := outcomes(t, t.Context(), configured("clickhouse", dsn, tt.more), tt.in)[0]
		if got != tt.want && (strings.HasPrefix(tt.want, "{") || !strings.HasPrefix(got, tt.want)) {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if got := outcomes(t, ctx, configured("clickhouse", dsn, `"query": "SELECT sleep(3) AS s"`), `{}`)[0]; !strings.HasPrefix(got,
		"timeout: ") {
		t.Errorf("got %s", got)
	}
}
