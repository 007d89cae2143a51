package sql

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/systems/doubt"
	"github.com/flowd-io/flowd/internal/systems/sqldb"
)

type output struct {
	cfg   Config
	names []string // of the columns
	exprs []expr.Value
	keys  []int // columns of upsert, by index
	like  string

	db    sqldb.DB          // from Open to Close
	doubt doubt.Set[uint64] // of rows, by their values
}

var (
	_ engine.Opener  = (*output)(nil)
	_ engine.Closer  = (*output)(nil)
	_ engine.Prober  = (*output)(nil)
	_ engine.Traited = (*output)(nil)
)

func newOutput(c Config, env engine.Env) (engine.Output, error) {
	o := &output{cfg: c, exprs: c.Args}
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

// Open connects and looks for the table. If the table does not exist yet, the output waits for it.
func (o *output) Open(ctx context.Context) (err error) {
	if o.db, err = o.cfg.Open(); err != nil {
		return engine.WithClass(engine.Permanent, err)
	}
	if err = o.Probe(ctx); err != nil {
		_ = o.db.Close()
		o.db = nil
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
	if o.cfg.ClickHouse() && o.cfg.Query == "" { // the right to insert does not include reading
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

// explain adds to an error which table it is about.
func (o *output) explain(err error) error {
	if err == nil || o.cfg.Table == "" {
		return err
	}
	return fmt.Errorf("table %s: %w", o.cfg.Table, err)
}

// row is a message and its values.
type row struct {
	m      *engine.Message
	given  []sqldb.Value // of the expressions
	values []sqldb.Value // converted to the types of the columns
	newer  *row          // a later row of the same write with the same key
	err    error         // why it waits for rows that it refers to
}

// Write writes the batch in one transaction, if the database has transactions.
func (o *output) Write(ctx context.Context, b *engine.Batch) error {
	conn, err := o.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	rows := make([]*row, 0, b.Len())
	for m := range b.All() {
		r := &row{m: m, given: make([]sqldb.Value, len(o.exprs))}
		if err := o.evaluate(r); err != nil {
			m.Fail(err)
			continue
		}
		rows = append(rows, r)
	}
	w := &writing{output: o, conn: conn}
	if rows, err = w.fit(ctx, rows, false); err != nil || len(rows) == 0 {
		return o.explain(err)
	}
	if o.cfg.ClickHouse() {
		return o.explain(w.blocks(ctx, rows))
	}
	if err = w.all(ctx, rows); err == nil {
		err = w.find(ctx)
	}
	if len(o.cfg.Upsert) == 0 && o.cfg.Query == "" {
		o.noteDoubt(err, rows)
	}
	return o.explain(err)
}

// evaluate computes the values of a row.
func (o *output) evaluate(r *row) (err error) {
	for i := range o.exprs {
		if r.given[i], err = sqldb.ValueOf(&o.exprs[i], r.m); err == nil {
			continue
		}
		if o.names != nil {
			return fmt.Errorf("column %s: %w", o.names[i], err)
		}
		return fmt.Errorf("args[%d]: %w", i, err)
	}
	r.values = r.given
	return nil
}

// fit converts the values of rows to the types of the columns, and returns the rows that fit. If a row does not fit, fit
// asks the database for the types again before the row fails. With anew, it asks in any case.
func (w *writing) fit(ctx context.Context, rows []*row, anew bool) ([]*row, error) {
	w.anew = w.anew || anew
	if w.cfg.Table == "" {
		return rows, nil
	}
	types, err := w.conn.Types(ctx, w.cfg.Table, w.names, anew)
	if err != nil || types == nil {
		return rows, err
	}
	kept := make([]*row, 0, len(rows))
	for _, r := range rows {
		values, err := w.fitted(r.given, types)
		switch {
		case err == nil:
			w.changed = w.changed || anew && !slices.EqualFunc(values, r.values, sqldb.Value.Equal)
			r.values = values
			kept = append(kept, r)
		case !anew:
			return w.fit(ctx, rows, true)
		default:
			r.m.Fail(err)
		}
	}
	return kept, nil
}

// fitted converts values to the types of the columns.
func (o *output) fitted(given []sqldb.Value, types sqldb.Types) (values []sqldb.Value, err error) {
	values = make([]sqldb.Value, len(given))
	for i, v := range given {
		if values[i], err = types.Fit(i, v); err != nil {
			return nil, fmt.Errorf("table %s: column %s: %w", o.cfg.Table, o.names[i], err)
		}
	}
	return values, nil
}

// rollback is how long giving up a transaction may take.
const rollback = 2 * time.Second
