package test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver
)

const tableCopyPipeline = `
inputs:
  old:
    sql:
      driver: sqlite
      dsn: shop.db
      query: "SELECT * FROM orders WHERE id > ? ORDER BY id LIMIT 500"
      args: ["cursor() ?? 0"]
      cursor: id
      checkpoint: cp
      interval: 10ms
batchers:
  all: {batch: {size: 100, timeout: 5ms}, output: new}
outputs:
  new:
    sql: {driver: sqlite, dsn: copy.db, table: orders, columns: {id: id, total: total}, upsert: [id]}
    concurrency: 4
`

// The process that copies a table is killed several times. In the end, the copy has each row once.
func TestAKilledTableCopyLosesNothing(t *testing.T) {
	t.Parallel()
	const lives, each = 4, 4_000
	dir := t.TempDir()
	config := write(t, dir, "p.yaml", tableCopyPipeline)
	open := func(name string) *sql.DB {
		db, err := sql.Open("sqlite", filepath.Join(dir, name)+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		if _, err := db.ExecContext(t.Context(), "CREATE TABLE orders (id INTEGER PRIMARY KEY, total TEXT)"); err != nil {
			t.Fatal(err)
		}
		return db
	}
	shop, mirror := open("shop.db"), open("copy.db")
	rows := 0
	sell := func() {
		t.Helper()
		values := make([]string, each)
		for i := range values {
			values[i] = fmt.Sprintf("(%d, '%d.50')", rows+i+1, rows+i)
		}
		rows += each
		if _, err := shop.ExecContext(t.Context(), "INSERT INTO orders VALUES "+strings.Join(values, ", ")); err != nil {
			t.Fatal(err)
		}
	}
	count := func() (n int) {
		if err := mirror.QueryRowContext(t.Context(), "SELECT count(*) FROM orders").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	reaches := func(n int) {
		t.Helper()
		for late := time.Now().Add(deadline); count() < n; time.Sleep(time.Millisecond) {
			if time.Now().After(late) {
				t.Fatalf("%d rows after %v, want %d", count(), deadline, n)
			}
		}
	}
	for range lives {
		sell()
		p := start(t, dir, "-c", config)
		reaches(rows - each/2)
		sell() // so that there is always work left when it is killed
		p.Signal(syscall.SIGKILL)
		p.Wait()
	}
	p := start(t, dir, "-c", config)
	reaches(rows)
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0, "draining")
	var wrong int
	if err := mirror.QueryRowContext(t.Context(), "SELECT count(*) FROM orders WHERE total <> (id - 1) || '.50'").Scan(&wrong); err != nil ||
		wrong > 0 {
		t.Errorf("%d rows are wrong, %v", wrong, err)
	}
}
