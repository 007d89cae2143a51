package sql

import (
	"bytes"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/servertest"
	"github.com/flowd-io/flowd/internal/testing/sqltest"
)

// The answer to a write may be lost after the rows were stored. The next attempt finds them, and they count as written. A foreign row
// with the same key does not.
func TestAWriteWhoseAnswerIsLost(t *testing.T) {
	for _, tt := range []struct {
		name, driver, on string
		lost             servertest.Loss
		more             string
		failed           []int
	}{
		{"the answer to a statement", "postgres", "INSERT", servertest.Answer, plain, nil},
		{"the answer to COPY", "postgres", "COMMIT", servertest.Answer, plain + `, "copy": true`, nil},
		{"a statement, and somebody else was first", "postgres", "INSERT", servertest.Request, plain, []int{1}},
		{"the answer to a commit", "mariadb", "COMMIT", servertest.Answer, plain, nil},
		{"a commit, and somebody else was first", "mariadb", "COMMIT", servertest.Request, plain, []int{1}},
	} {
		t.Run(tt.driver+": "+tt.name, func(t *testing.T) {
			t.Parallel()
			dsn := sqltest.Database(t, tt.driver)
			conn := sqltest.Connect(t, tt.driver, dsn, "CREATE TABLE t (id int PRIMARY KEY, n int, s varchar(9))",
				"INSERT INTO t VALUES (0, 0, NULL)")
			var armed atomic.Bool
			o := opened(t, tt.driver, over(t, dsn, func(request []byte) servertest.Loss {
				if bytes.Contains(request, []byte(tt.on)) && armed.CompareAndSwap(true, false) {
					return tt.lost
				}
				return servertest.Nothing
			}), strings.Replace(tt.more, `"n": "n"`, `"n": "n", "s": "s"`, 1))
			if failed, errs := write(t, o, `{"id":10,"n":0}`); failed != nil { // the statement is prepared
				t.Fatal(errs)
			}
			rows := []string{`{"id":1,"n":1,"s":"a"}`, `{"id":2,"n":2}`, `{"id":3,"n":null,"s":"c"}`}
			if strings.Contains(tt.more, "copy") { // an invalid row needs a transaction
				rows = append(rows, `{"id":"x"}`)
				tt.failed = []int{3}
			}
			armed.Store(true)
			err := o.Write(t.Context(), enginetest.Batch(rows...))
			if c, _ := class(err); c != engine.Transient {
				t.Fatalf("nothing is lost: %v", err)
			}
			if tt.lost == servertest.Request {
				sqltest.Exec(t, conn, "INSERT INTO t VALUES (2, 99, NULL)")
			}
			if failed, errs := write(t, o, rows...); !slices.Equal(failed, tt.failed) {
				t.Errorf("failed: %v, want %v: %v", failed, tt.failed, errs)
			}
			if got := len(sqltest.Rows(t, conn, "SELECT id FROM t")); got != 5 {
				t.Errorf("%d rows in the table, want 5", got)
			}
			if failed, errs := write(t, o, rows[0]); !slices.Equal(failed, []int{0}) {
				t.Errorf("a duplicate is written: %v", errs)
			}
		})
	}
}

// over returns a dsn for the same server, through a proxy of [servertest.Losing].
func over(t *testing.T, dsn string, lose func([]byte) servertest.Loss) string {
	t.Helper()
	if before, rest, ok := strings.Cut(dsn, "@tcp("); ok {
		server, after, _ := strings.Cut(rest, ")")
		return before + "@tcp(" + servertest.Losing(t, server, lose) + ")" + after
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = servertest.Losing(t, u.Host, lose)
	return u.String()
}
