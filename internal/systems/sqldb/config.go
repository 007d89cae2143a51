// Package sqldb has what the SQL components share: [Config] for their configuration, [Config.Open] for a database, [Conn] for
// statements, [Value] for parameters and [Rows] for results, both without loss. The classes of errors are in errors.go.
package sqldb

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/schema"
)

// Config configures a database. The configs of components include it inline.
type Config struct {
	Driver         string          `yaml:"driver" check:"required,oneof=postgres|mysql|mariadb|sqlite|clickhouse" doc:"Kind of database."`
	DSN            schema.Secret   `yaml:"dsn" check:"required,nonempty" doc:"Connection string: postgres://USER:PASSWORD@HOST/DATABASE, USER:PASSWORD@tcp(HOST:3306)/DATABASE for MySQL and MariaDB, http://USER:PASSWORD@HOST:8123/DATABASE for ClickHouse, or the path of a file for SQLite."`
	TLS            *tlsconf.Client `yaml:"tls" doc:"Encrypt connections and check the server's certificate; {} trusts what the system trusts. Without it the dsn decides. Not for sqlite."`
	ConnectTimeout time.Duration   `yaml:"connect_timeout" default:"10s" check:"min=100ms,max=5m" doc:"How long to wait for a connection."`
	Connections    int             `yaml:"connections" default:"8" check:"min=1,max=1000" doc:"Maximum number of connections at once."`
	MaxRow         schema.Size     `yaml:"max_row" default:"64MiB" check:"min=64KiB,max=1GiB" doc:"Largest row that the database may send."`
}

// Defaults are the default values of [Config].
var Defaults = Config{ConnectTimeout: 10 * time.Second, Connections: 8, MaxRow: 64 << 20}

const (
	postgres   = "postgres"
	sqlite     = "sqlite"
	clickhouse = "clickhouse"
)

// Postgres reports whether the database is PostgreSQL.
func (c *Config) Postgres() bool { return c.Driver == postgres }

// SQLite reports whether the database is SQLite, which is a file.
func (c *Config) SQLite() bool { return c.Driver == sqlite }

// ClickHouse reports whether the database is ClickHouse, which has neither transactions nor unique keys.
func (c *Config) ClickHouse() bool { return c.Driver == clickhouse }

// CheckConfig reports a dsn that is not valid.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	if c.SQLite() && c.TLS != nil {
		report("tls", "SQLite is a file, which has no TLS", "remove it")
	}
	if c.DSN.IsZero() || c.Driver == "" {
		return
	}
	db, err := c.open()
	if err != nil {
		report("dsn", err.Error(), "")
		return
	}
	_ = db.Close()
}

// Words returns what users of other systems may write, and what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{
		"data_source_name": "write `dsn`", "url": "write `dsn`", "connection_string": "write `dsn`",
		"connection": "write `dsn`", "args_mapping": "write `args`, a list of expressions",
		"max_open_conns": "write `connections`", "conn_max_open": "write `connections`", "pool_size": "write `connections`",
	}
}

// Open returns a database. It makes connections when they are needed.
func (c *Config) Open() (DB, error) {
	db, err := c.open()
	if err != nil {
		return nil, fmt.Errorf("dsn: %w", err)
	}
	return db, nil
}

func (c *Config) open() (DB, error) {
	switch c.Driver {
	case postgres:
		return openPostgres(c)
	case sqlite:
		return openSQLite(c)
	case clickhouse:
		return openClickHouse(c)
	}
	return openMySQL(c)
}

// DB is a database with a pool of connections. It is safe for concurrent use.
type DB interface {
	// Conn takes a connection from the pool. Only one goroutine at a time may use it. The caller releases it.
	Conn(ctx context.Context) (Conn, error)
	// Close closes idle connections now, and connections in use when they are released.
	Close() error
}

// Conn is a connection. Its errors are [engine.Error]. If ctx ends during a statement, it is unknown whether the statement was
// executed.
type Conn interface {
	// Exec executes a statement, and returns how many rows it has changed.
	Exec(ctx context.Context, query string, args []Value) (int64, error)
	// Query executes a statement that returns rows. The caller closes them before the next call.
	Query(ctx context.Context, query string, args []Value) (Rows, error)
	// Types returns the types of columns, or nil if values need not be converted. It asks the database unless it has done so a
	// few seconds ago. If anew is true, it always asks.
	Types(ctx context.Context, table string, columns []string, anew bool) (Types, error)
	// Release returns the connection to the pool, or closes it if it is broken.
	Release()
}

// Rows are the rows of an answer, as they arrive.
type Rows interface {
	// Next goes to the next row. It returns false after the last row, and if Err returns an error.
	Next() bool
	// Append appends the current row as a JSON object.
	Append(dst []byte) ([]byte, error)
	// Err returns why Next has returned false, or nil after the last row.
	Err() error
	// Close discards the remaining rows.
	Close()
}

// Copier is a Conn with a fast way to insert rows into a table. For ClickHouse, it is the only one, and the values must come from
// [Types.Fit].
type Copier interface {
	Copy(ctx context.Context, table string, columns []string, rows [][]Value) error
}

// Inserter is a Conn that finds the types of the parameters of an insert with many rows from an insert with one row.
type Inserter interface {
	// Insert executes an insert with several rows. like is the same statement with one row.
	Insert(ctx context.Context, like, query string, args []Value) error
}

// Checker is a Conn of a database that may check constraints at the end of a transaction.
type Checker interface {
	// Check checks the deferred constraints of the transaction, which stay deferred. An error is caused by the rows that were
	// written since the last Check.
	Check(ctx context.Context) error
}

// Listener is a Conn that receives notifications.
type Listener interface {
	// Listen subscribes to a channel.
	Listen(ctx context.Context, channel string) error
	// Notified waits for a notification.
	Notified(ctx context.Context) error
}

// Quote returns an identifier, such as a column, as part of a statement.
func (c *Config) Quote(name string) string {
	switch {
	case c.Postgres(), c.SQLite():
		return quote(name, `"`)
	case c.ClickHouse():
		return chQuoted(name, "`")
	}
	return quote(name, "`")
}

func quote(name, mark string) string { return mark + strings.ReplaceAll(name, mark, mark+mark) + mark }

// Table returns the name of a table as part of a statement. Dots separate the schema or database from the table.
func (c *Config) Table(name string) string {
	parts := strings.Split(name, ".")
	for i, p := range parts {
		parts[i] = c.Quote(p)
	}
	return strings.Join(parts, ".")
}

// CheckTable reports what is wrong with the name of a table.
func (c *Config) CheckTable(name string, report func(path, message, remedy string)) {
	for part := range strings.SplitSeq(name, ".") {
		if problem := c.CheckName(part); name != "" && problem != "" {
			report("table", strconv.Quote(part)+" "+problem, "write the name of the table, or SCHEMA.TABLE")
		}
	}
}

// CheckName returns what is wrong with an identifier, or "".
func (c *Config) CheckName(name string) string {
	most := 64 // MySQL
	if c.Postgres() {
		most = 63
	}
	switch {
	case name == "":
		return "is empty"
	case strings.ContainsRune(name, 0):
		return "has a zero byte"
	case len(name) > most && !c.SQLite() && !c.ClickHouse():
		return fmt.Sprintf("is longer than %d bytes", most)
	}
	return ""
}

var errSameName = errors.New("two columns have the same name (rename one with AS)")

// distinct returns an error if two columns have the same name, since they could not be the fields of a document.
func distinct(columns []string) error {
	seen := make(map[string]bool, len(columns))
	for _, c := range columns {
		if seen[c] {
			return fmt.Errorf("%q: %w", c, errSameName)
		}
		seen[c] = true
	}
	return nil
}
