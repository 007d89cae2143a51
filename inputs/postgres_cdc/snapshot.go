package postgrescdc

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/pgoutput"
)

// birth makes the slot. With a snapshot it first makes a temporary one, which the server drops when the connection ends,
// and copies it once all rows are delivered: so a slot that exists is one whose snapshot is complete.
type birth struct {
	link   *link
	cancel context.CancelFunc
	rows   chan []change // closed when all have been read
	done   chan struct{} // closed when nothing runs any more
	err    error         // once rows is closed: why it failed
	at     pgoutput.LSN  // once rows is closed: where changes begin
	read   bool          // all rows are in the queue
}

// snapshotSuffix makes the name of the temporary slot.
const snapshotSuffix = "_snapshot"

// Rows are handed over when there are so many, or so many bytes.
const (
	chunkRows  = 256
	chunkBytes = 256 << 10
)

// slow is how long the server may take to make a slot before it is said why.
const slow = 5 * time.Second

// beBorn begins to make the slot. That takes as long as the transactions that run at the time.
func (in *input) beBorn(ctx context.Context, l *link) *birth {
	ctx, cancel := context.WithCancel(ctx)
	v := &birth{link: l, cancel: cancel, rows: make(chan []change), done: make(chan struct{})}
	go func() {
		defer close(v.done)
		defer close(v.rows)
		defer engine.Recovered(&v.err)
		v.err = in.bear(ctx, v)
	}()
	return v
}

func (in *input) bear(ctx context.Context, v *birth) error {
	late := time.AfterFunc(slow, func() {
		in.log.Info("the slot is being made: the server waits for transactions that began before", "slot", in.cfg.Slot)
	})
	defer late.Stop()
	if in.cfg.Snapshot != initial {
		var err error
		v.at, err = v.make(ctx, ident(in.cfg.Slot)+" LOGICAL pgoutput NOEXPORT_SNAPSHOT")
		return err
	}
	if err := in.roomForTwo(ctx); err != nil {
		return err
	}
	if _, err := answer(ctx, v.link.PgConn, shape{}, "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ"); err != nil {
		return explain(err, "begin the snapshot")
	}
	var err error
	v.at, err = v.make(ctx, ident(in.cfg.Slot+snapshotSuffix)+" TEMPORARY LOGICAL pgoutput USE_SNAPSHOT")
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

// make makes a slot, and returns where its changes begin.
func (v *birth) make(ctx context.Context, what string) (pgoutput.LSN, error) {
	rows, err := answer(ctx, v.link.PgConn, one2, "CREATE_REPLICATION_SLOT "+what)
	if err != nil {
		return 0, explain(err, "make slot "+what)
	}
	return pgoutput.ParseLSN(rows[0][1])
}

// roomForTwo says so before rows are read in vain.
func (in *input) roomForTwo(ctx context.Context) error {
	rows, err := in.ask(ctx, one3, "count slots", `SELECT current_setting('max_replication_slots')::int - count(*) >= 2, count(*), `+
		`current_setting('max_replication_slots') FROM pg_replication_slots`)
	if err != nil || rows[0][0] == "t" {
		return err
	}
	return engine.Errorf(engine.Permanent, "the server has %s slots, of %s that it may have: a snapshot needs room for two "+
		"(raise max_replication_slots, or drop slots that nobody reads: see pg_replication_slots)", rows[0][1], rows[0][2])
}

// snapshotTable is what to read of a table.
type snapshotTable struct {
	*table
	query string
}

// snapshotTables are those of the publication, as the snapshot has them: with its lists of columns and its filters.
func (in *input) snapshotTables(ctx context.Context, v *birth) (all []snapshotTable, err error) {
	lists := `NULL, ''`
	if in.server.version >= 150000 {
		lists = `p.attnames, coalesce(p.rowfilter, '')`
	}
	rows, err := in.rows(ctx, v.link, any8, "look at the tables of publication "+in.cfg.publication(),
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
		s.add(c[4], oid(c[5]), in.typeNames[oid(c[5])], shape)
		list = append(list, ident(c[4]))
	}
	only := "ONLY "
	if first[3] == "t" { // rows are in its partitions
		only = ""
	}
	s.query = fmt.Sprintf("SELECT %s FROM %s%s.%s", strings.Join(list, ", "), only, ident(first[1]), ident(first[2]))
	if first[7] != "" {
		s.query += " WHERE " + first[7]
	}
	return s, nil
}

// readTable hands rows over as they come: the server waits while nobody takes them.
func (in *input) readTable(ctx context.Context, v *birth, t snapshotTable) (n int, err error) {
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
				if err := v.hand(ctx, chunk); err != nil {
					return n, err
				}
				chunk, size = nil, 0
			}
		}
	}
	if err := answer.Close(); err != nil {
		return n, explain(err, "read table "+t.schema+"."+t.name)
	}
	return n, v.hand(ctx, chunk)
}

func (v *birth) hand(ctx context.Context, chunk []change) error {
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

// readBirth adds rows of the snapshot. When all of them are delivered, changes are read.
func (in *input) readBirth(ctx context.Context, b *engine.Batch) error {
	v := in.birth
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
	if !v.read || in.queue.ready() > 0 || !in.delivered(ctx) {
		return nil
	}
	return in.grow(context.WithoutCancel(ctx))
}

// delivered waits until all rows are, and says whether they are.
func (in *input) delivered(ctx context.Context) bool {
	in.mu.Lock()
	holding := in.holding
	in.mu.Unlock()
	if holding != nil {
		defer holding.Hurry()()
	}
	for {
		all, news := in.settled()
		if all {
			return true
		}
		select {
		case <-news:
		case <-ctx.Done():
			return false
		}
	}
}

// grow makes the slot of the temporary one, and begins to read changes.
func (in *input) grow(ctx context.Context) error {
	v := in.birth
	if err := in.keepSlot(ctx, v); err != nil {
		return err
	}
	in.mu.Lock()
	in.due.reach(v.at)
	in.mu.Unlock()
	if err := in.follow(ctx, v.link, v.at); err != nil {
		return err
	}
	v.cancel()
	in.birth = nil
	return nil
}

func (in *input) keepSlot(ctx context.Context, v *birth) error {
	if in.cfg.Snapshot != initial {
		return nil
	}
	from, to := literal(in.cfg.Slot+snapshotSuffix), literal(in.cfg.Slot)
	_, err := in.rows(ctx, v.link, shape{}, "make slot "+in.cfg.Slot, `SELECT pg_copy_logical_replication_slot(`+from+`, `+to+
		`, false, 'pgoutput'); SELECT pg_drop_replication_slot(`+from+`)`)
	return err
}

// endBirth ends the making of a slot. Where all rows are delivered already, the slot is kept.
func (in *input) endBirth(ctx context.Context) {
	v := in.birth
	if !v.read && in.queue.ready() == 0 {
		select { // what is read last may have been all there is
		case _, more := <-v.rows:
			v.read = !more
		case <-time.After(time.Second):
		}
	}
	if all, _ := in.settled(); v.read && v.err == nil && all && in.queue.ready() == 0 && !v.link.IsClosed() {
		if err := in.keepSlot(ctx, v); err != nil {
			in.log.Warn("the snapshot is delivered, but its slot could not be kept: it is read again", "err", err)
		}
	}
	v.cancel()
	for range v.rows {
	}
	<-v.done
	_ = v.link.Close(ctx)
	in.birth = nil
}
