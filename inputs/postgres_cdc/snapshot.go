package postgrescdc

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/pgoutput"
)

// creation creates the slot. With a snapshot, it first creates a temporary slot, which the server drops when the connection ends. It
// copies this slot once all rows are delivered. A permanent slot therefore always has a complete snapshot.
type creation struct {
	link   *link
	cancel context.CancelFunc
	rows   chan []change // closed after the last row
	done   chan struct{} // closed when the goroutine has ended
	err    error         // why it failed; valid once rows is closed
	at     pgoutput.LSN  // where changes begin; valid once rows is closed
	read   bool          // all rows are in the queue
}

// snapshotSuffix is the suffix of the temporary slot's name.
const snapshotSuffix = "_snapshot"

// A chunk of rows is sent to Read when it has this many rows or bytes.
const (
	chunkRows  = 256
	chunkBytes = 256 << 10
)

// explainAfter is how long the creation of a slot may take before the log says why.
const explainAfter = 5 * time.Second

// startCreation starts to create the slot. The server waits for the transactions that are running.
func (in *input) startCreation(ctx context.Context, l *link) *creation {
	ctx, cancel := context.WithCancel(ctx)
	v := &creation{link: l, cancel: cancel, rows: make(chan []change), done: make(chan struct{})}
	go func() {
		defer close(v.done)
		defer close(v.rows)
		defer engine.Recovered(&v.err)
		v.err = in.createSlot(ctx, v)
	}()
	return v
}

// createSlot creates the slot. With a snapshot, it creates the temporary slot, and reads the rows of all tables.
func (in *input) createSlot(ctx context.Context, v *creation) error {
	late := time.AfterFunc(explainAfter, func() {
		in.log.Info("creating the slot: the server waits for transactions that began earlier", "slot", in.cfg.Slot)
	})
	defer late.Stop()
	if in.cfg.Snapshot != initial {
		var err error
		v.at, err = v.sendCreateSlot(ctx, ident(in.cfg.Slot)+" LOGICAL pgoutput NOEXPORT_SNAPSHOT")
		return err
	}
	if err := in.checkRoomForTwo(ctx); err != nil {
		return err
	}
	if _, err := answer(ctx, v.link.PgConn, shape{}, "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ"); err != nil {
		return explain(err, "begin the snapshot")
	}
	var err error
	v.at, err = v.sendCreateSlot(ctx, ident(in.cfg.Slot+snapshotSuffix)+" TEMPORARY LOGICAL pgoutput USE_SNAPSHOT")
	if err != nil {
		return err
	}
	late.Stop()
	tables, err := in.snapshotTables(ctx, v)
	if err != nil {
		return err
	}
	in.log.Info("reading a snapshot", "tables", len(tables), "at", v.at)
	n := 0
	for _, t := range tables {
		rows, err := in.readTable(ctx, v, t)
		if n += rows; err != nil {
			return err
		}
	}
	if _, err := answer(ctx, v.link.PgConn, shape{}, "COMMIT"); err != nil {
		return explain(err, "end the snapshot")
	}
	in.log.Info("read the snapshot", "rows", n)
	return nil
}

// sendCreateSlot creates a slot, and returns the position where its changes begin.
func (v *creation) sendCreateSlot(ctx context.Context, what string) (pgoutput.LSN, error) {
	rows, err := answer(ctx, v.link.PgConn, one2, "CREATE_REPLICATION_SLOT "+what)
	if err != nil {
		return 0, explain(err, "create slot "+what)
	}
	return pgoutput.ParseLSN(rows[0][1])
}

// checkRoomForTwo checks that the server can have two more slots. Otherwise all rows would be read in vain.
func (in *input) checkRoomForTwo(ctx context.Context) error {
	rows, err := in.query(ctx, one3, "count slots", `SELECT current_setting('max_replication_slots')::int - count(*) >= 2, count(*), `+
		`current_setting('max_replication_slots') FROM pg_replication_slots`)
	if err != nil || rows[0][0] == "t" {
		return err
	}
	return engine.Errorf(engine.Permanent, "the server has %s slots of at most %s, and a snapshot needs room for two "+
		"(raise max_replication_slots, or drop slots that nobody reads: see pg_replication_slots)", rows[0][1], rows[0][2])
}

// snapshotTable is a table, with the query for its rows.
type snapshotTable struct {
	*table
	query string
}

// snapshotTables returns the tables of the publication as of the snapshot, with the column lists and row filters of the publication.
func (in *input) snapshotTables(ctx context.Context, v *creation) (all []snapshotTable, err error) {
	lists := `NULL, ''`
	if in.server.version >= 150000 {
		lists = `p.attnames, coalesce(p.rowfilter, '')`
	}
	rows, err := in.rows(ctx, v.link, any8, "read the tables of publication "+in.cfg.publication(),
		`SELECT c.oid, n.nspname, c.relname, c.relkind = 'p', a.attname, a.atttypid, `+
			`a.attname = ANY(x.attnames) OR x.attnames IS NULL, x.filter FROM (SELECT p.schemaname, p.tablename, `+lists+
			` FROM pg_publication_tables p WHERE p.pubname = `+literal(in.cfg.publication())+`) x(schemaname, tablename, attnames, filter) `+
			`JOIN pg_namespace n ON n.nspname = x.schemaname JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = x.tablename `+
			`JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' `+
			`ORDER BY n.nspname, c.relname, c.oid, a.attnum`)
	if err != nil {
		return nil, err
	}
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n][0] == rows[0][0] {
			n++
		}
		if in.tables == nil || in.tables[rows[0][1]+"."+rows[0][2]] {
			t, err := in.snapshotTable(ctx, rows[:n])
			if err != nil {
				return nil, err
			}
			all = append(all, t)
		}
		rows = rows[n:]
	}
	return all, nil
}

func (in *input) snapshotTable(ctx context.Context, columns [][]string) (s snapshotTable, err error) {
	first := columns[0]
	keys, err := in.keysOf(ctx, oid(first[0]))
	if err != nil {
		return s, err
	}
	s.table = newTable(first[1], first[2])
	var list []string
	for _, c := range columns {
		if c[6] != "t" {
			continue
		}
		shape, err := in.shape(ctx, oid(c[5]))
		if err != nil {
			return s, err
		}
		for _, k := range keys {
			if k == c[4] {
				s.keys = append(s.keys, len(list))
			}
		}
		s.addColumn(c[4], oid(c[5]), in.typeNames[oid(c[5])], shape)
		list = append(list, ident(c[4]))
	}
	only := "ONLY "
	if first[3] == "t" { // a partitioned table has its rows in its partitions
		only = ""
	}
	s.query = fmt.Sprintf("SELECT %s FROM %s%s.%s", strings.Join(list, ", "), only, ident(first[1]), ident(first[2]))
	if first[7] != "" {
		s.query += " WHERE " + first[7]
	}
	return s, nil
}

// readTable sends rows to Read as they arrive. While Read does not receive them, the server waits.
func (in *input) readTable(ctx context.Context, v *creation, t snapshotTable) (n int, err error) {
	answer := v.link.Exec(ctx, t.query)
	defer answer.Close()
	var b block
	var chunk []change
	var row []pgoutput.Value
	size := 0
	tail := []byte{'}'}
	for answer.NextResult() {
		for rows := answer.ResultReader(); rows.NextRow(); n++ {
			row = row[:0]
			for _, v := range rows.Values() {
				if v == nil {
					row = append(row, pgoutput.Value{Kind: pgoutput.Null})
				} else {
					row = append(row, pgoutput.Value{Kind: pgoutput.Text, Text: v})
				}
			}
			if len(row) != len(t.columns) {
				return n, engine.Errorf(engine.Transient, "table %s.%s has changed while it was read", t.schema, t.name)
			}
			c := change{op: opRead, body: b.body(opRead, t.table, nil, false, row, "", v.at, 0, tail), key: b.key(t.table, row),
				table: t.table, at: place{commit: v.at}}
			chunk = append(chunk, c)
			if size += len(c.body); len(chunk) >= chunkRows || size >= chunkBytes || v.link.arrived.Buffered() == 0 {
				if err := v.sendChunk(ctx, chunk); err != nil {
					return n, err
				}
				chunk, size = nil, 0
			}
		}
	}
	if err := answer.Close(); err != nil {
		return n, explain(err, "read table "+t.schema+"."+t.name)
	}
	return n, v.sendChunk(ctx, chunk)
}

// sendChunk sends rows to Read.
func (v *creation) sendChunk(ctx context.Context, chunk []change) error {
	if len(chunk) == 0 {
		return nil
	}
	select {
	case v.rows <- chunk:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readSnapshot adds rows of the snapshot. When all of them are delivered, it makes the slot permanent and starts to read changes.
func (in *input) readSnapshot(ctx context.Context, b *engine.Batch) error {
	v := in.creation
	if in.queue.ready() == 0 && !v.read {
		select {
		case chunk, more := <-v.rows:
			in.queue.add(chunk...)
			v.read = !more
		case <-ctx.Done():
			return nil
		}
	}
	if v.read && v.err != nil {
		return v.err
	}
	in.emit(b)
	if !v.read || in.queue.ready() > 0 || !in.awaitSettled(ctx) {
		return nil
	}
	return in.finishCreation(context.WithoutCancel(ctx))
}

// awaitSettled waits until all rows are settled. It returns false if ctx ends before.
func (in *input) awaitSettled(ctx context.Context) bool {
	in.mu.Lock()
	holding := in.holding
	in.mu.Unlock()
	if holding != nil {
		defer holding.Hurry()()
	}
	for {
		all, changed := in.settled()
		if all {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// finishCreation copies the temporary slot, and starts to read changes.
func (in *input) finishCreation(ctx context.Context) error {
	v := in.creation
	if err := in.copySlot(ctx, v); err != nil {
		return err
	}
	in.mu.Lock()
	in.due.noteRead(v.at)
	in.mu.Unlock()
	if err := in.follow(ctx, v.link, v.at); err != nil {
		return err
	}
	v.cancel()
	in.creation = nil
	return nil
}

// copySlot copies the temporary slot to the permanent one, and drops it.
func (in *input) copySlot(ctx context.Context, v *creation) error {
	if in.cfg.Snapshot != initial {
		return nil
	}
	from, to := literal(in.cfg.Slot+snapshotSuffix), literal(in.cfg.Slot)
	_, err := in.rows(ctx, v.link, shape{}, "create slot "+in.cfg.Slot, `SELECT pg_copy_logical_replication_slot(`+from+`, `+to+
		`, false, 'pgoutput'); SELECT pg_drop_replication_slot(`+from+`)`)
	return err
}

// endCreation ends the creation of the slot. If all rows are delivered, the slot is made permanent.
func (in *input) endCreation(ctx context.Context) {
	v := in.creation
	if !v.read && in.queue.ready() == 0 {
		select { // the rows read last may have been the last ones
		case _, more := <-v.rows:
			v.read = !more
		case <-time.After(time.Second):
		}
	}
	if all, _ := in.settled(); v.read && v.err == nil && all && in.queue.ready() == 0 && !v.link.IsClosed() {
		if err := in.copySlot(ctx, v); err != nil {
			in.log.Warn("the snapshot is delivered, but its slot could not be made permanent: the snapshot will be read again", "err",
				err)
		}
	}
	v.cancel()
	for range v.rows {
	}
	<-v.done
	_ = v.link.Close(ctx)
	in.creation = nil
}
