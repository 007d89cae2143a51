package mariadbtest

import "testing"

// Each test has a database of its own.
func TestMariaDB(t *testing.T) {
	first, second := Database(t), Database(t)
	Exec(t, first, "CREATE TABLE t (n int)", "INSERT INTO t VALUES (7)")
	if got := Exec(t, second, "CREATE TABLE t (n int)", "SELECT n FROM t"); got != "" {
		t.Errorf("a database has %q of another", got)
	}
	if got := Exec(t, first, "SELECT n FROM t"); got != "7" {
		t.Errorf("got %q, want 7", got)
	}
}
