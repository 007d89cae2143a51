package tables

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/sqldb"
	"github.com/flowd-io/flowd/internal/testing/sqltest"
	"github.com/flowd-io/flowd/schema"
)

// selected is a table that is the answer of a database.
func selected(driver, dsn, query string) *Table {
	c := Config{Key: engine.Names{"id"}, MaxSize: 4096, Timeout: 5 * time.Second,
		SQL: &Query{Config: sqldb.Defaults, Query: query}}
	c.SQL.Driver, c.SQL.DSN = driver, schema.NewSecret(dsn)
	return New("customers", c, nil, nil)
}

// A table in a file has the limits of the other components, not none: without a connection, every query waited for one.
func TestADatabaseHasTheDefaultsOfSQL(t *testing.T) {
	n := &schema.Node{Kind: schema.MapNode}
	for name, text := range map[string]string{"driver": "sqlite", "dsn": "x.db", "query": "SELECT 1 AS id"} {
		n.Keys = append(n.Keys, &schema.Node{Kind: schema.TextNode, Text: name})
		n.Items = append(n.Items, &schema.Node{Kind: schema.TextNode, Text: text})
	}
	var c *Query
	if d := schema.NewDecoder(nil); !d.Decode(n, &c) {
		t.Fatal(d.Problems())
	}
	got, want := c.Config, sqldb.Defaults
	if got.Connections != want.Connections || got.ConnectTimeout != want.ConnectTimeout || got.MaxRow != want.MaxRow {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestADatabaseIsAskedForNewVersions(t *testing.T) {
	for _, driver := range []string{"postgres", "sqlite", "clickhouse"} {
		t.Run(driver, func(t *testing.T) {
			dsn := sqltest.Database(t, driver)
			create := "CREATE TABLE c (id int, name varchar(20))"
			if driver == "clickhouse" {
				create = "CREATE TABLE c (id Int32, name String) ENGINE = Memory"
			}
			conn := sqltest.Connect(t, driver, dsn, create, "INSERT INTO c VALUES (7, 'Ada')")
			made := selected(driver, dsn, "SELECT id, name FROM c")
			if err := made.Check(); err != nil || made.now.Load() != nil {
				t.Fatalf("the check of a configuration asks a server: %v", err)
			}
			for i, want := range []string{"Ada", "Ada", "Bea"} {
				if i == 2 {
					if driver == "clickhouse" { // which updates behind the statement
						sqltest.Exec(t, conn, "DROP TABLE c", create, "INSERT INTO c VALUES (7, 'Bea')")
					} else {
						sqltest.Exec(t, conn, "UPDATE c SET name = 'Bea'")
					}
				}
				before := made.now.Load()
				if err := made.load(t.Context(), made.source.changed); err != nil {
					t.Fatal(err)
				}
				row, err := made.Lookup("7")
				if err != nil || row.(object)["name"] != want {
					t.Errorf("look %d: got %v, %v, want %s", i, row, err, want)
				}
				if again := i != 1; again != (before != made.now.Load()) {
					t.Errorf("look %d: read again: %v", i, !again)
				}
			}
		})
	}
}

func TestAnswersThatAreNoTable(t *testing.T) {
	dsn := filepath.Join(t.TempDir(), "test.db")
	sqltest.Connect(t, "sqlite", dsn, "CREATE TABLE c (id int, name text)",
		"INSERT INTO c VALUES (1, 'Ada'), (1, 'Bea')")
	forever := "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id FROM n"
	tests := []struct {
		name, query, want string
		class             engine.Class
	}{
		{"no such table", "SELECT id FROM d", "no such table", ""},
		{"a key twice", "SELECT * FROM c", `the key "1" is in row 1 and again in row 2`, ""},
		{"no key", "SELECT name FROM c", `row 1 has no "id", which is its key`, ""},
		{"too large", forever, "is larger than 4KiB", engine.TooLarge},
		{"too slow", forever + " WHERE id < 0", "no whole answer within 50ms", engine.Timeout},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			made := selected("sqlite", dsn, tt.query)
			if tt.class == engine.Timeout {
				made.cfg.Timeout = 50 * time.Millisecond
			}
			err := made.load(t.Context(), made.source.read)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "the answer of sqlite") {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if e, ok := errors.AsType[*engine.Error](err); tt.class != "" && (!ok || e.Class != tt.class) {
				t.Errorf("%s: the class is not %v", fmt.Sprint(err), tt.class)
			}
		})
	}
}
