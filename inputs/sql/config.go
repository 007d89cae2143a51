// Package sql reads the rows of a database query. Start at [input.Read]. fetch.go runs the query; places.go tracks up to
// which cursor rows are settled.
package sql

import (
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/systems/sqldb"
)

// Config configures the input.
type Config struct {
	sqldb.Config `yaml:",inline"`
	Query        string        `yaml:"query" check:"required,nonempty" doc:"Query whose rows are read. Parameters are $1, $2 in PostgreSQL and ? elsewhere."`
	Args         []expr.Value  `yaml:"args" scope:"cursor" doc:"Values of the parameters, in order; cursor() is available in them."`
	Cursor       expr.Value    `yaml:"cursor" doc:"Position of a row, such as id, or [changed, id], from its fields. The query begins after it and orders by it; no two pages of a query may share one."`
	Checkpoint   string        `yaml:"checkpoint" doc:"File that records a cursor: all rows up to it are settled. A restart continues after it."`
	Interval     time.Duration `yaml:"interval" check:"min=1ms" doc:"How long to wait before the query is run again; without it, and without listen, the input ends when there are no more rows."`
	Listen       string        `yaml:"listen" doc:"PostgreSQL channel (NOTIFY): an event on it ends the wait for the next query."`
	QueryTimeout time.Duration `yaml:"query_timeout" check:"min=10ms" doc:"How long to wait for the first row of a query, and for each further one."`
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Config.CheckConfig(report)
	if c.Cursor.IsZero() {
		if c.Checkpoint != "" {
			report("checkpoint", "there is no cursor to record", "add cursor, or remove it")
		}
	} else if !strings.Contains(strings.Join(strings.Fields(strings.ToLower(c.Query)), " "), "order by") {
		report("query", "has no ORDER BY: rows may be missed, since the query continues after the cursor of its last row", "order by the cursor")
	}
	if c.Listen != "" && !c.Postgres() {
		report("listen", "only PostgreSQL has channels", "remove it, and write interval")
	} else if why := c.CheckName(c.Listen); c.Listen != "" && why != "" {
		report("listen", why, "write the name of a channel")
	}
}

// OwnFile returns the field and the path of the checkpoint.
func (c Config) OwnFile() (field, path string) { return "checkpoint", c.Checkpoint }

// Words returns what users of other systems may write, and what to write instead.
func (c *Config) Words() map[string]string {
	words := c.Config.Words()
	for word, remedy := range map[string]string{
		"schedule": "write `interval`", "statement": "write `query`", "tracking_column": "write `cursor`",
		"table": "write `query: SELECT … FROM …`", "last_run_metadata_path": "write `checkpoint`",
		"incrementing_column_name": "write `cursor`", "poll_interval": "write `interval`",
	} {
		words[word] = remedy
	}
	return words
}

const about = `
Reads the rows of a query on PostgreSQL, MySQL, MariaDB, SQLite or ClickHouse, as documents.

Values are exact: numbers keep their digits, json is a document, an array a list, bytes are
base64, a point in time is RFC 3339 (UTC), a time without zone has none, and anything else is
the database's own text, as are the times of SQLite. MariaDB's JSON is text: write from_json(field). For more on
ClickHouse, see flowd docs clickhouse.

With cursor, the query is repeated until it returns no rows, so LIMIT makes pages. Then the
input ends, or waits for interval or for an event on the channel listen. cursor() is that of
the last row, nil at first; after a restart, it is that of the checkpoint: rows that were not
settled are read again. Rows that are not ordered by the cursor, or that others commit behind
it, are missed.

    inputs:
      orders:
        sql:
          driver: postgres
          dsn: "postgres://flowd:${PGPASSWORD:-secret}@db.example/shop"
          query: "SELECT * FROM orders WHERE id > $1 ORDER BY id LIMIT 1000"
          args: ["cursor() ?? 0"]
          cursor: id
          checkpoint: orders.checkpoint
          interval: 10s
          listen: orders
`

func init() {
	engine.Register(engine.Inputs, "sql", about, Config{Config: sqldb.Defaults, QueryTimeout: 5 * time.Minute}, newInput)
}
