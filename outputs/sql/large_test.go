package sql

import (
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/testing/sqltest"
)

// A row that is larger than a statement may be fails alone, and is not retried.
func TestARowThatIsTooLargeFailsAlone(t *testing.T) {
	t.Parallel()
	dsn := sqltest.Database(t, "mariadb")
	conn := sqltest.Connect(t, "mariadb", dsn, "CREATE TABLE t (id int, s longtext)")
	o := opened(t, "mariadb", dsn, `"table": "t", "columns": {"id": "id", "s": "s"}`)
	large := strings.Repeat("x", 17<<20) // a server accepts 16 MiB by default
	failed, errs := write(t, o, `{"id":1}`, `{"id":2,"s":"`+large+`"}`, `{"id":3}`)
	if !slices.Equal(failed, []int{1}) {
		t.Fatalf("failed: %v, %.300v", failed, errs)
	}
	if c, holds := class(errs[0]); c != "rejected" || holds || !strings.Contains(errs[0].Error(), "max_allowed_packet") {
		t.Errorf("got %.300v of class %s", errs[0], c)
	}
	if got := sqltest.Rows(t, conn, "SELECT id FROM t ORDER BY id"); len(got) != 2 {
		t.Errorf("got %v, want 1 and 3", got)
	}
}
