package sql

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/testing/clickhousetest"
	"github.com/flowd-io/flowd/internal/testing/sqltest"
)

// An error after some rows, or a server that stops, does not end the input. No row is lost, and no message is made of the error.
func TestABrokenAnswerOfClickHouseIsAnError(t *testing.T) {
	t.Parallel()
	s := clickhousetest.Own(t, clickhousetest.Settings{})
	conn := sqltest.Connect(t, "clickhouse", s.URL(), create("clickhouse"))
	insert(t, conn, 1, 3000)
	tests := []struct {
		name, more string
		cut        bool
		want       string
	}{
		{"an error after rows",
			`"query": "SELECT number AS id, throwIf(number = 100000) AS b FROM system.numbers SETTINGS max_block_size = 1000"`,
			false, "(code 395)"},
		{"a server that stops", `"query": "SELECT number AS id, sleepEachRow(0.0001) AS s FROM system.numbers SETTINGS max_block_size = 1000"`,
			true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := opened(t, "clickhouse", s.URL(), tt.more)
			var err error
			for n := 0; err == nil; {
				var docs []string
				docs, _, err = read(t, in, 1000)
				for _, d := range docs {
					if !strings.HasPrefix(d, fmt.Sprintf(`{"id":%d,`, n)) {
						t.Fatalf("row %d is %s", n, d)
					}
					n++
				}
				if tt.cut && n > 0 {
					s.Stop()
					tt.cut = false
				}
			}
			var e *engine.Error
			if err == engine.ErrEnd || !errors.As(err, &e) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	s.Start(t)
	equal(t, rest(t, opened(t, "clickhouse", s.URL(), after("clickhouse", "LIMIT 700"))), ids(1, 3000))
}
