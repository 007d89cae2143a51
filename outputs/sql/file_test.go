package sql

import (
	"os"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/systems/sqldb"
	"github.com/flowd-io/flowd/internal/testing/sqltest"
)

const createTable = "CREATE TABLE t (id int, n int)"

// holds writes, and reports whether the error holds the output. No message may fail.
func holds(t *testing.T, o *output, payloads ...string) bool {
	t.Helper()
	b := enginetest.Batch(payloads...)
	err := o.Write(t.Context(), b)
	failed := err != nil
	if failed && !engine.ErrorOf(err, engine.Transient).HoldsOutput() {
		t.Errorf("the messages are to blame: %v", err)
	}
	for m := range b.Ended() {
		if m.Err() == nil {
			continue
		}
		if failed = true; !m.Err().HoldsOutput() {
			t.Errorf("the message is to blame: %v", m.Err())
		}
	}
	return failed
}

func wantIDs(t *testing.T, conn sqldb.Conn, want int) {
	t.Helper()
	if got := sqltest.Rows(t, conn, "SELECT id FROM t"); len(got) != want {
		t.Errorf("rows %v, want %d", got, want)
	}
}

func TestADatabaseFileThatMoves(t *testing.T) {
	for _, journal := range []string{"delete", "wal"} {
		for name, does := range map[string]func(path string) error{
			"renamed": func(path string) error { return os.Rename(path, path+".1") },
			"deleted": os.Remove,
		} {
			t.Run(name+" with journal "+journal, func(t *testing.T) {
				path := sqltest.Database(t, "sqlite")
				dsn := path + "?_pragma=journal_mode(" + journal + ")"
				sqltest.Connect(t, "sqlite", dsn, createTable)
				o := opened(t, "sqlite", dsn, plain)
				if holds(t, o, numbered(2)...) {
					t.Fatal("the first write failed")
				}
				if err := does(path); err != nil {
					t.Fatal(err)
				}
				for _, left := range []string{"-wal", "-shm"} {
					_ = os.Remove(path + left)
				}
				if !holds(t, o, numbered(3)...) {
					t.Error("a write into a file without the table was acknowledged")
				}
				sqltest.Connect(t, "sqlite", dsn, createTable)
				if holds(t, o, numbered(3)...) {
					t.Error("a write failed although the table is there again")
				}
				wantIDs(t, sqltest.Connect(t, "sqlite", dsn), 3)
			})
		}
	}
}

func TestAFullDiskUnderADatabaseFile(t *testing.T) {
	enginetest.InFullDisk(t, func(t *testing.T, limit func(bytes int64)) {
		for room, failed := int64(0), true; failed; room += 512 {
			dsn := sqltest.Database(t, "sqlite")
			conn := sqltest.Connect(t, "sqlite", dsn, createTable)
			o := opened(t, "sqlite", dsn, plain)
			if holds(t, o, numbered(2)...) {
				t.Fatal("the first write failed")
			}
			limit(room)
			failed = holds(t, o, numbered(500)...)
			limit(-1)
			if failed && holds(t, o, numbered(500)...) {
				t.Error("a write failed although there is room again")
			}
			if wantIDs(t, conn, 502); t.Failed() {
				t.Fatalf("with room for %d bytes", room)
			}
		}
	})
}
