package pgtest

import "testing"

// A server is the same after it was started again, and each test has a database of its own.
func TestPostgres(t *testing.T) {
	p := Own(t)
	first, second := p.Database(t), p.Database(t)
	p.Exec(t, first, "CREATE TABLE t (n int)", "INSERT INTO t VALUES (7)")
	p.Exec(t, second, "CREATE TABLE t (n int)")
	p.Stop(t)
	p.Start(t)
	if got := p.Exec(t, first, "SELECT n FROM t"); got != "7" {
		t.Errorf("got %q after a restart, want 7", got)
	}
	if got := p.Exec(t, "", "SHOW wal_level"); got != "logical" {
		t.Errorf("wal_level is %q", got)
	}
}
