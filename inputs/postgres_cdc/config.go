// Package postgrescdc reads the changes of tables of PostgreSQL. Start at [input]. snapshot.go reads existing rows, stream.go reads
// changes, and progress.go tracks which are settled.
package postgrescdc

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the input.
type Config struct {
	DSN          schema.Secret   `yaml:"dsn" check:"required,nonempty" doc:"Connection string: postgres://USER:PASSWORD@HOST:5432/DATABASE, or host=HOST dbname=DATABASE …, with libpq parameters."`
	TLS          *tlsconf.Client `yaml:"tls" doc:"Encrypt connections; {} trusts what the system trusts. By default the dsn's sslmode decides."`
	Slot         string          `yaml:"slot" check:"required" doc:"Replication slot, in which the server records what is settled and keeps the changes since then. Each pipeline needs its own."`
	Tables       engine.Names    `yaml:"tables" doc:"Tables to read, as SCHEMA.TABLE, spelled as in the catalog; by default all of the publication, or of the database if flowd creates it."`
	Publication  string          `yaml:"publication" doc:"Publication of the tables; by default it has the name of the slot."`
	Create       bool            `yaml:"create" doc:"Create the slot and the publication if they are missing. With false, that is an error: changes written since a slot was dropped would never be read."`
	Snapshot     string          `yaml:"snapshot" check:"oneof=initial|never" doc:"What to read before the changes, when the slot is created: initial, all rows then in the tables; or never."`
	Transactions bool            `yaml:"transactions" doc:"Also emit messages when a transaction begins and when it ends, with op begin and commit."`
	AckInterval  time.Duration   `yaml:"ack_interval" check:"min=10ms,max=10m" doc:"How often the settled position is reported to the server. If the process is killed, changes settled since are read again."`
	MaxReplay    int             `yaml:"max_replay" check:"min=1" doc:"Number of settled changes after which the position is reported at once. If the process is killed, no more than these are read again, apart from the transaction in progress."`
	MaxSlotLag   schema.Size     `yaml:"max_slot_lag" doc:"Bytes of log that the server may keep for the slot before flowd warns; 0 means never."`
	MaxRow       schema.Size     `yaml:"max_row" check:"min=64KiB,max=1GiB" doc:"Largest change, or row. A larger one ends the pipeline, since nothing after it can be settled."`
	Timeout      time.Duration   `yaml:"timeout" check:"min=1s,max=10m" doc:"How long to wait for a connection, and for the response to a request. A server that is silent for six times as long is given up."`
}

const initial = "initial"

var defaults = Config{
	Create: true, Snapshot: initial, AckInterval: time.Second, MaxReplay: 1000,
	MaxSlotLag: 1 << 30, MaxRow: 64 << 20, Timeout: 10 * time.Second,
}

// maxSlotName leaves room for the suffix of the snapshot's slot: PostgreSQL allows 63 characters.
const maxSlotName = 63 - len(snapshotSuffix)

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	dsn := c.DSN.Reveal()
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") && !strings.Contains(dsn, "=") {
		report("dsn", "is neither a URL nor a list of settings", "write postgres://USER:PASSWORD@HOST:5432/DATABASE")
	}
	switch {
	case len(c.Slot) > maxSlotName:
		report("slot", fmt.Sprintf("is longer than %d characters", maxSlotName), "choose a shorter name")
	case c.Slot == "" || strings.Trim(c.Slot, "abcdefghijklmnopqrstuvwxyz0123456789_") != "":
		report("slot", fmt.Sprintf("%q is not a valid slot name", c.Slot), "use lower-case letters, digits and underscores")
	}
	if len(c.Publication) > 63 {
		report("publication", "is longer than 63 characters", "choose a shorter name")
	}
	for _, t := range c.Tables {
		if schema, name, ok := strings.Cut(t, "."); !ok || schema == "" || name == "" {
			report("tables", fmt.Sprintf("%q is not SCHEMA.TABLE", t), "add the schema, such as public."+cmp.Or(t, "orders"))
		}
	}
}

// Words returns what users of other systems may write, and what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{
		"url": "write `dsn`", "connection_string": "write `dsn`", "slot_name": "write `slot`", "table": "write `tables`",
		"stream_snapshot": "write `snapshot: initial` or `snapshot: never`", "snapshot_mode": "write `snapshot`",
		"publication_name": "write `publication`", "include_transaction_markers": "write `transactions: true`",
		"schema": "name it in `tables`: SCHEMA.TABLE", "checkpoint_limit": "write `engine.max_replay`",
		"table_include_list": "write `tables`", "temporary_slot": "remove it: the server would forget which changes are settled",
	}
}

// publication returns the name of the publication.
func (c *Config) publication() string { return cmp.Or(c.Publication, c.Slot) }

// Traits says that changes are settled up to one position, and that the changes of a row arrive in order.
func (c Config) Traits() engine.Traits {
	return engine.Traits{TakesBack: engine.TakesPosition, OrderBy: `meta("key")`}
}

const about = `
Reads changes to PostgreSQL tables, from version 13 on, as they are committed.

The server decodes its log for a replication slot (plugin pgoutput), and keeps what is not
settled. A transaction is reported as settled when all of its changes, and those of all
transactions before it, are settled. When the slot is created, the rows then in the tables are
read first. The slot only becomes permanent when all of these are delivered, so an interrupted
start begins again. The postgres guide explains what the server needs, what is guaranteed, and
how large a slot can grow.

Each change is a document, as the example below shows. Its op is insert, update, delete,
key_change, truncate, or read for a row of the snapshot. before is what REPLICA IDENTITY provides: the key
of what was deleted, or the whole row with FULL. A column that is stored out of line and not
touched by an update is not sent: it is absent from after, and named in the list unchanged. An
update that changes the key becomes a delete, with new_key, and an insert, with old_key; where
a column is unchanged, it is one key_change instead, whose metadata key is the old one. lsn is
the position of the transaction's commit; together with position it identifies a change, and it
only increases.
Numbers are exact, json and arrays are documents, bytea is base64, timestamps are RFC 3339;
NaN, infinity and everything else are text.

Metadata: op, schema, table, lsn, position, xid, commit_time (a time), last (whether it is the
last change of its transaction), and, as JSON text, key (the key columns) and columns (the
types of all columns, which show when the table has changed). To keep the changes of each row
in order, write order_by: meta("key"). Tables without a key have the key {}: all of their
changes stay in order.

    inputs:
      changes:
        postgres_cdc:
          dsn: "postgres://flowd:${DB_PASSWORD:-}@localhost/shop"
          slot: flowd_orders
          tables: [public.orders, public.customers]
    # {"op": "update", "schema": "public", "table": "orders", "before": null,
    #  "after": {"id": 7, "total": 12.50}, "lsn": "0/16B3748", "position": 1, "xid": 745,
    #  "commit_time": "2026-01-31T12:00:00.5Z"}
    engine: {order_by: 'meta("key")'}
`

func init() { engine.Register(engine.Inputs, "postgres_cdc", about, defaults, newInput) }
