package clickhousetest

import "testing"

// Each test has a database of its own.
func TestClickHouse(t *testing.T) {
	first, second := Database(t), Database(t)
	Exec(t, first, "CREATE TABLE t (n Int32) ENGINE = Memory", "INSERT INTO t VALUES (7)")
	if got := Exec(t, second, "CREATE TABLE t (n Int32) ENGINE = Memory", "SELECT n FROM t"); got != "" {
		t.Errorf("a database has %q of another", got)
	}
	if got := Exec(t, first, "SELECT n FROM t"); got != "7" {
		t.Errorf("got %q, want 7", got)
	}
}

// A server that was killed has its data when it is started again.
func TestOwn(t *testing.T) {
	s := Own(t, Settings{})
	Exec(t, s.URL(), "CREATE TABLE t (n Int32) ENGINE = TinyLog", "INSERT INTO t VALUES (7)")
	s.Stop()
	s.Start(t)
	if got := Exec(t, s.URL(), "SELECT n FROM t"); got != "7" {
		t.Errorf("got %q, want 7", got)
	}
}
