package sql

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/sqldb"
)

type output struct {
	cfg   Config
	log   *slog.Logger
	names []string // of the columns
	exprs []expr.Value
	keys  []int // columns of upsert, by index
	like  string

	db sqldb.DB // from Open to Close
}

var (
	_ engine.Opener  = (*output)(nil)
	_ engine.Closer  = (*output)(nil)
	_ engine.Prober  = (*output)(nil)
	_ engine.Traited = (*output)(nil)
)

func newOutput(c Config, env engine.Env) (engine.Output, error) {
	o := &output{cfg: c, log: env.Log, exprs: c.Args}
	if c.Query != "" {
		return o, nil
	}
	for name, e := range c.Columns.All() {
		o.names, o.exprs = append(o.names, name), append(o.exprs, e)
	}
	for _, key := range c.Upsert {
		for i, name := range o.names {
			if name == key {
				o.keys = append(o.keys, i)
			}
		}
	}
	o.like = o.insertion(1)
	return o, nil
}

// Traits says that a write costs about the same for many messages as for few.
func (o *output) Traits() engine.Traits { return engine.Traits{Bulk: true} }

// Open looks for the table. A database that can't be reached, or lacks the table, is not a mistake in the
// configuration: the first write tries again.
func (o *output) Open(ctx context.Context) (err error) {
	if o.db, err = o.cfg.Open(); err != nil {
		return engine.WithClass(engine.Permanent, err)
	}
	err = o.Probe(ctx)
	if err != nil && ctx.Err() == nil && engine.ErrorOf(err, engine.Transient).Class == engine.Transient {
		o.log.Warn("the database can't be written to yet", "err", err)
		return nil
	}
	return err
}

// Close closes the connections.
func (o *output) Close(context.Context) error {
	if o.db == nil {
		return nil
	}
	return o.db.Close()
}

// Probe connects and looks for the table and its columns.
func (o *output) Probe(ctx context.Context) error {
	conn, err := o.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if o.cfg.ClickHouse() && o.cfg.Query == "" { // a right to insert is none to read
		_, err := conn.Types(ctx, o.cfg.Table, o.names, false)
		return o.explain(err)
	}
	rows, err := conn.Query(ctx, o.probe(), nil)
	if err != nil {
		return o.explain(err)
	}
	rows.Next()
	rows.Close()
	return o.explain(rows.Err())
}

// explain says which table an error is about.
func (o *output) explain(err error) error {
	if err == nil || o.cfg.Table == "" {
		return err
	}
	return fmt.Errorf("table %s: %w", o.cfg.Table, err)
}

// row is a message and its values.
type row struct {
	m      *engine.Message
	values []sqldb.Value
	newer  *row // that replaces it in the same write
}

// Write writes the batch in one transaction, where there are any.
func (o *output) Write(ctx context.Context, b *engine.Batch) error {
	conn, err := o.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	var types sqldb.Types
	if o.cfg.Table != "" {
		if types, err = conn.Types(ctx, o.cfg.Table, o.names, false); err != nil {
			return o.explain(err)
		}
	}
	rows := make([]*row, 0, b.Len())
	for m := range b.All() {
		r, err := o.rowOf(m, types)
		if err != nil {
			m.Fail(err)
			continue
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return nil
	}
	w := &writing{output: o, conn: conn}
	if o.cfg.ClickHouse() {
		return o.explain(w.blocks(ctx, rows))
	}
	return o.explain(w.all(ctx, rows))
}

func (o *output) rowOf(m *engine.Message, types sqldb.Types) (*row, error) {
	r := &row{m: m, values: make([]sqldb.Value, len(o.exprs))}
	for i := range o.exprs {
		v, err := sqldb.Of(&o.exprs[i], m)
		if err != nil {
			if o.names != nil {
				return nil, fmt.Errorf("column %s: %w", o.names[i], err)
			}
			return nil, fmt.Errorf("args[%d]: %w", i, err)
		}
		if types != nil {
			if v, err = types.Fit(i, v); err != nil {
				return nil, fmt.Errorf("table %s: column %s: %w", o.cfg.Table, o.names[i], err)
			}
		}
		r.values[i] = v
	}
	return r, nil
}

// rollback is how long giving up a transaction may take.
const rollback = 2 * time.Second
