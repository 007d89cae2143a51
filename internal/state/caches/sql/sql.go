// Package sql is the cache `sql`: it keeps values in a table of a database, which processes share. Start at [Config].
// Package internal/systems/sqldb manages connections and values.
package sql

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/internal/systems/sqldb"
)

// Config configures the sql cache.
type Config struct {
	sqldb.Config `yaml:",inline"`
	Table        string        `yaml:"table" check:"required,nonempty" doc:"Table with the columns key, value and expires; its name may begin with a schema or database and a dot."`
	Create       bool          `yaml:"create" doc:"Create the table if it is missing."`
	TTL          time.Duration `yaml:"ttl" check:"min=1ms" doc:"How long a value is kept if its write sets no time; no limit by default."`
	Purge        time.Duration `yaml:"purge" check:"min=1s" doc:"How often expired rows are deleted."`
}

// CheckConfig reports settings that can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Config.CheckConfig(report)
	c.CheckTable(c.Table, report)
	if c.ClickHouse() {
		report("driver", "ClickHouse has no unique keys: two could both be the first to add a value", "use another database")
	}
}

// Words are words of other systems, with what to write instead.
func (c *Config) Words() map[string]string {
	words := c.Config.Words()
	words["default_ttl"], words["init_statement"] = "write `ttl`", "write `create: true`"
	for _, column := range []string{"key_column", "value_column", "set_suffix"} {
		words[column] = "remove it: the columns are key, value and expires"
	}
	return words
}

const help = `
Keeps values in a table in PostgreSQL, MySQL, MariaDB or SQLite, across restarts and for all
processes that reach it, so several can share a dedupe. The clock of the process that asks
decides whether a value has expired; for a shared dedupe, the clocks must agree to within ten
seconds.

flowd creates the table, unless create is false, with the columns key (primary key) and value,
which are bytea in PostgreSQL, varbinary(700) and longblob in MySQL and MariaDB, and blob in
SQLite; and expires (bigint), milliseconds since 1970. An index on expires makes purging cheap
if many rows expire.

    processors:
      - dedupe: {key: id, window: 24h, cache: seen}
    resources:
      caches:
        seen:
          sql:
            driver: postgres
            dsn: "postgres://flowd:${PGPASSWORD:-secret}@db.example/shop"
            table: flowd_cache
`

func init() {
	engine.Register(engine.Caches, "sql", help, Config{Config: sqldb.Defaults, Create: true, Purge: time.Minute},
		func(c Config, _ engine.Env) (engine.Cache, error) { return &cache{Config: c}, nil })
}

var (
	_ engine.Opener      = (*cache)(nil)
	_ engine.Closer      = (*cache)(nil)
	_ engine.SharedCache = (*cache)(nil)
)

type cache struct {
	Config
	db sqldb.DB

	get, put, add, replace, replaceOld, remove, removeOld, purge string // statements

	mu     sync.Mutex // guards the field below
	purged time.Time
}

// statement fills in the names of table and columns, and the parameters of this kind of database.
func (c *cache) statement(text string) string {
	names := []string{"%t", c.Config.Config.Table(c.Table), "%k", c.Quote("key"), "%v", c.Quote("value"),
		"%e", c.Quote("expires")}
	if !c.Postgres() {
		names = append(names, "$1", "?", "$2", "?", "$3", "?", "$4", "?", "$5", "?")
	}
	return strings.NewReplacer(names...).Replace(text)
}

// Open makes the table if it is missing and create is set.
func (c *cache) Open(ctx context.Context) error {
	// Parameters are in the order of their numbers, since only PostgreSQL numbers them.
	columns, insert := "%k bytea PRIMARY KEY, %v bytea NOT NULL, %e bigint", "INSERT INTO %t (%k, %v, %e) VALUES ($1, $2, $3)"
	replace, ignore := " ON CONFLICT (%k) DO UPDATE SET %v = EXCLUDED.%v, %e = EXCLUDED.%e", " ON CONFLICT (%k) DO NOTHING"
	switch {
	case c.SQLite():
		columns = "%k blob PRIMARY KEY, %v blob NOT NULL, %e bigint"
	case !c.Postgres():
		columns = "%k varbinary(700) PRIMARY KEY, %v longblob NOT NULL, %e bigint"
		replace, ignore = " ON DUPLICATE KEY UPDATE %v = VALUES(%v), %e = VALUES(%e)", " ON DUPLICATE KEY UPDATE %k = %k"
	}
	c.get = c.statement("SELECT %v AS v FROM %t WHERE %k = $1 AND (%e IS NULL OR %e > $2)")
	c.put, c.add = c.statement(insert+replace), c.statement(insert+ignore)
	c.replace = c.statement("UPDATE %t SET %v = $1, %e = $2 WHERE %k = $3 AND %e <= $4")
	c.replaceOld = c.statement("UPDATE %t SET %v = $1, %e = $2 WHERE %k = $3 AND %v = $4 AND (%e IS NULL OR %e > $5)")
	c.removeOld = c.statement("DELETE FROM %t WHERE %k = $1 AND %v = $2 AND (%e IS NULL OR %e > $3)")
	c.remove, c.purge = c.statement("DELETE FROM %t WHERE %k = $1"), c.statement("DELETE FROM %t WHERE %e <= $1")
	c.purged = time.Now()
	var err error
	if c.db, err = c.Config.Config.Open(); err != nil {
		return engine.WithClass(engine.Permanent, err)
	}
	query := c.statement("SELECT %k, %v, %e FROM %t WHERE 1 = 0")
	if c.Create {
		query = c.statement("CREATE TABLE IF NOT EXISTS %t (" + columns + ")")
	}
	_, err = c.exec(ctx, query)
	return err
}

// Close closes the connections.
func (c *cache) Close(context.Context) error {
	if c.db == nil {
		return nil
	}
	return c.db.Close()
}

func (c *cache) exec(ctx context.Context, query string, args ...sqldb.Value) (changed int64, err error) {
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	return conn.Exec(ctx, query, args)
}

func bytes(text string) sqldb.Value { return sqldb.Value{Kind: sqldb.Bytes, Text: []byte(text)} }

// moment converts a time to its form in the table.
func moment(at time.Time) sqldb.Value {
	return sqldb.Value{Kind: sqldb.Number, Text: strconv.AppendInt(nil, at.UnixMilli(), 10)}
}

// expiry returns when a value written now expires. A value kept for less than a millisecond expires at once.
func (c *cache) expiry(ttl time.Duration) sqldb.Value {
	if ttl = cmp.Or(ttl, c.TTL); ttl == 0 {
		return sqldb.Value{}
	}
	return moment(time.Now().Add(ttl))
}

// Get reads a value.
func (c *cache) Get(ctx context.Context, key string) ([]byte, bool, error) {
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return nil, false, err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, c.get, []sqldb.Value{bytes(key), moment(time.Now())})
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	if !rows.Next() {
		return nil, false, rows.Err()
	}
	text, err := rows.Append(nil)
	if err != nil {
		return nil, false, err
	}
	var row struct{ V []byte }
	if err := json.Unmarshal(text, &row); err != nil {
		return nil, false, engine.Errorf(engine.Permanent, "table %s: the column value is not one of bytes: %w", c.Table, err)
	}
	return row.V, true, nil
}

// Set writes a value.
func (c *cache) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if err := c.tidy(ctx); err != nil {
		return err
	}
	_, err := c.exec(ctx, c.put, bytes(key), sqldb.Value{Kind: sqldb.Bytes, Text: value}, c.expiry(ttl))
	return err
}

// calls is the maximum number of concurrent swaps, within the number of connections.
const calls = 256

// Swap changes values. Each takes one statement if the key is new.
func (c *cache) Swap(ctx context.Context, all []engine.CacheSwap) {
	err := c.tidy(ctx)
	call.Beside(calls, len(all), func(i int) {
		s := &all[i]
		if s.Err = err; err == nil {
			s.Done, s.Err = c.swap(ctx, s)
		}
		if s.Err == nil && !s.Done {
			var ok bool
			if s.Found, ok, s.Err = c.Get(ctx, s.Key); !ok {
				s.Found = nil
			}
		}
	})
}

func (c *cache) swap(ctx context.Context, s *engine.CacheSwap) (bool, error) {
	value, expires := sqldb.Value{Kind: sqldb.Bytes, Text: s.New}, c.expiry(s.TTL)
	old, now := sqldb.Value{Kind: sqldb.Bytes, Text: s.Old}, moment(time.Now())
	switch {
	case s.Old == nil:
		n, err := c.exec(ctx, c.add, bytes(s.Key), value, expires)
		if err == nil && n == 0 {
			n, err = c.exec(ctx, c.replace, value, expires, bytes(s.Key), now)
		}
		return n > 0, err
	case s.New == nil:
		n, err := c.exec(ctx, c.removeOld, bytes(s.Key), old, now)
		return n > 0, err
	}
	n, err := c.exec(ctx, c.replaceOld, value, expires, bytes(s.Key), old, now)
	return n > 0, err
}

// Delete deletes a value.
func (c *cache) Delete(ctx context.Context, key string) error {
	_, err := c.exec(ctx, c.remove, bytes(key))
	return err
}

// tidy deletes expired rows, if it is time.
func (c *cache) tidy(ctx context.Context) error {
	c.mu.Lock()
	now := time.Now()
	due := now.Sub(c.purged) >= c.Purge
	if due {
		c.purged = now
	}
	c.mu.Unlock()
	if !due {
		return nil
	}
	_, err := c.exec(ctx, c.purge, moment(now))
	return err
}
