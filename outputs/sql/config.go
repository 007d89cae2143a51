// Package sql writes messages to a table of a database. Start at [output.Write]. bisect.go finds one bad row among many, and
// statement.go makes the statements.
package sql

import (
	"fmt"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/systems/sqldb"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the output.
type Config struct {
	sqldb.Config `yaml:",inline"`
	Table        string                 `yaml:"table" doc:"Table to insert into; SCHEMA.TABLE names one elsewhere."`
	Columns      schema.Map[expr.Value] `yaml:"columns" doc:"Values by column. Other columns get their defaults from the database."`
	Upsert       []string               `yaml:"upsert" doc:"Key columns, on which the table has a primary key or a unique index: a row with the key of an existing one replaces its columns."`
	Copy         bool                   `yaml:"copy" doc:"Insert with COPY, which is faster; PostgreSQL only."`
	Query        string                 `yaml:"query" doc:"Statement to run for each message, instead of table and columns. Parameters are $1, $2 in PostgreSQL and ? elsewhere."`
	Args         []expr.Value           `yaml:"args" doc:"Values of the parameters of query, in order."`
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Config.CheckConfig(report)
	if c.Query != "" {
		if c.Table != "" || c.Columns.Len() > 0 || len(c.Upsert) > 0 || c.Copy {
			report("query", "replaces table, columns, upsert and copy", "keep the query, or what it replaces")
		}
		return
	}
	switch {
	case c.Table == "":
		report("table", "required", "name the table to insert into, or write a query")
	case c.Columns.Len() == 0:
		report("columns", "required", "write columns: {NAME: EXPRESSION}")
	}
	if len(c.Args) > 0 {
		report("args", "are the parameters of a query", "write query, or columns instead")
	}
	c.CheckTable(c.Table, report)
	var names []string
	for name := range c.Columns.All() {
		names = append(names, name)
		if why := c.CheckName(name); why != "" {
			report("columns", fmt.Sprintf("%q %s", name, why), "write the name of a column")
		}
	}
	for _, key := range c.Upsert {
		if !slices.Contains(names, key) {
			report("upsert", fmt.Sprintf("%q is not one of columns", key), "add it to columns, or remove it here")
		}
	}
	if len(c.Upsert) > 0 && c.ClickHouse() {
		report("upsert", "ClickHouse has no unique keys",
			"remove it, and let a table of the engine ReplacingMergeTree replace rows by its ORDER BY")
	}
	if c.Copy && !c.Postgres() {
		report("copy", "only PostgreSQL has COPY", "remove it")
	}
	if c.Copy && len(c.Upsert) > 0 {
		report("copy", "COPY can't replace rows", "remove copy, or upsert")
	}
}

// Words returns what users of other systems may write, and what to write instead.
func (c *Config) Words() map[string]string {
	words := c.Config.Words()
	for word, remedy := range map[string]string{
		"args_mapping": "write `columns: {NAME: EXPRESSION}`, or `args` with `query`", "suffix": "write `upsert`, or `query`",
		"on_conflict": "write `upsert: [KEY COLUMNS]`", "primary_key": "write `upsert: [KEY COLUMNS]`",
		"unsafe_dynamic_query": "remove it: a statement is never made of data",
		"batching":             "write `batchers`", "max_in_flight": "write `concurrency` beside the type",
	} {
		words[word] = remedy
	}
	return words
}

const about = `
Writes messages to a table in PostgreSQL, MySQL, MariaDB, SQLite or ClickHouse, one row each.

A write is one transaction, with many rows per statement; ClickHouse has no transactions,
and gets one block (flowd docs clickhouse). If the database refuses a row, it is found by
bisection, also if a deferred constraint refuses it: it fails alone (class rejected, with the
database's code), and the others are written once. A row may refer to a later one of the same
write. Outages, a server that takes no writes, a full disk, refused logins and a missing table
hold the output until they are resolved; deadlocks and timeouts are retried. After a refusal by
a server that takes no writes, all connections are dialed again. If a column is altered,
flowd sees its new type at the next refused row, or within 10 seconds.

Values stay exact: a numeric column gets all digits that the message has, lists become
arrays or JSON, objects become JSON, RFC 3339 times become points in time;
a column without a time zone gets them in UTC. Text goes into
a column of bytes as it is; for base64, write from_base64(field). In PostgreSQL, anything
can go into a json column; MySQL and MariaDB run in strict mode, so nothing is truncated.
Names of tables and columns are quoted, and never come from data.

A message may be written again after a crash: with upsert, that changes nothing. It is written
again, too, when a connection breaks during a commit. If its key is there then, with all its
values, it counts as written. Of messages with the same key in a write, the last one
wins. MySQL and MariaDB replace by any unique key of the table.

    outputs:
      orders:
        sql:
          driver: postgres
          dsn: "postgres://flowd:${PGPASSWORD:-secret}@db.example/shop"
          table: orders
          columns: {id: id, customer: customer.name, total: total, lines: lines}
          upsert: [id]
      seen:
        sql:
          driver: sqlite
          dsn: shop.db
          query: "UPDATE orders SET seen = ? WHERE id = ?"
          args: [now(), id]
    batchers:
      all: {batch: {size: 500, timeout: 1s}, output: [orders, seen]}
`

func init() {
	engine.Register(engine.Outputs, "sql", about, Config{Config: sqldb.Defaults}, newOutput)
}
