package postgrescdc

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/pgoutput"
)

// queue is what was read and is not in a batch. While a transaction is open, its newest change stays: only what follows
// tells whether it is the last.
type queue struct {
	all   []change
	size  int          // of all, in bytes
	tx    *transaction // that is open
	block block
}

// reset forgets all: the server sends it again.
func (q *queue) reset() {
	clear(q.all)
	q.all, q.size, q.tx = q.all[:0], 0, nil
}

func (q *queue) add(all ...change) {
	q.all = append(q.all, all...)
	for i := range all {
		q.size += len(all[i].body)
	}
}

// ready is how many changes may go into a batch.
func (q *queue) ready() int {
	if q.tx != nil {
		return max(0, len(q.all)-1)
	}
	return len(q.all)
}

// emit adds what is ready to a batch, as far as there is room.
func (in *input) emit(b *engine.Batch) {
	q := &in.queue
	n := min(q.ready(), b.Room())
	if n == 0 {
		return
	}
	records := &records{make([]change, 0, n)}
	meta := engine.MetaFrom(records)
	in.mu.Lock()
	defer in.mu.Unlock()
	done := 0
	for ; done < n && b.Room() > 0; done++ {
		c := &q.all[done]
		m := b.Add(c.body)
		q.size -= len(c.body)
		m.Meta, m.Ref = meta.At(done), in.due.add()
		if c.reach > 0 {
			in.due.reach(c.reach)
		}
		if in.at.before(c.at) {
			in.at = c.at
		}
		record := *c
		record.body = nil
		records.all = append(records.all, record)
	}
	left := copy(q.all, q.all[done:])
	clear(q.all[left:])
	q.all = q.all[:left]
}

// before reports whether a place is before another.
func (p place) before(o place) bool {
	return p.commit < o.commit || p.commit == o.commit && p.number < o.number
}

// records are changes, as the source of their metadata; all of it is the input's own.
type records struct{ all []change }

var _ engine.MetaSource = (*records)(nil)

var names = []string{"op", "schema", "table", "key", "columns", "lsn", "position", "xid", "commit_time", "last"}

// Get is a value of change i.
func (r *records) Get(i int, name string) (any, bool) {
	c := &r.all[i]
	switch name {
	case "op":
		return c.op, true
	case "lsn":
		return c.at.commit.String(), true
	}
	if c.table != nil {
		switch name {
		case "schema":
			return c.table.schema, true
		case "table":
			return c.table.name, true
		case "key":
			return c.key, c.key != ""
		case "columns":
			return string(c.table.described) + "}", len(c.table.columns) > 0
		}
	}
	if c.tx == nil {
		return nil, false
	}
	switch name {
	case "xid":
		return int(c.tx.xid), true
	case "commit_time":
		return c.tx.time, true
	}
	if c.row > 0 {
		switch name {
		case "position":
			return c.row, true
		case "last":
			return c.last, true
		}
	}
	return nil, false
}

// Meta is all of change i.
func (r *records) Meta(i int) engine.Meta {
	var found []string
	var values []any
	for _, name := range names {
		if v, ok := r.Get(i, name); ok {
			found, values = append(found, name), append(values, v)
		}
	}
	return engine.MetaOf(found, values, len(found))
}

// mark adds a message that says that a transaction begins or ends.
func (q *queue) mark(op string, tx *transaction) change {
	out := append(append(append(q.block.room(256), `{"op":"`...), op...), '"')
	out = appendPlace(out, tx.at.commit, 0)
	if op == opCommit {
		out = append(append(out, `,"changes":`...), itoa(tx.rows)...)
	}
	return change{op: op, body: q.block.keep(append(out, tx.tail...)), tx: tx}
}

// take adds a change of the open transaction, unless it was read before, on another connection.
func (in *input) take(c change) {
	tx := in.queue.tx
	tx.at.number++
	c.tx, c.at = tx, tx.at
	if in.at.before(c.at) {
		in.queue.add(c)
	}
}

// change takes a message of the stream.
func (in *input) change(m *pgoutput.Message) error {
	q := &in.queue
	switch m.Kind {
	case pgoutput.Begin:
		if q.tx = newTransaction(m); in.cfg.Transactions {
			in.take(q.mark(opBegin, q.tx))
		}
		return nil
	case pgoutput.Commit:
		in.commit(m)
		return nil
	case pgoutput.Type, pgoutput.Origin, pgoutput.Logical:
		return nil
	}
	if q.tx == nil {
		return engine.Errorf(engine.Permanent, "the server has sent a change outside of any transaction")
	}
	if m.Kind == pgoutput.Truncate {
		for _, id := range m.Tables {
			t, err := in.tableOf(id)
			if err != nil {
				return err
			}
			if t.wanted {
				in.row(opTruncate, t, "", nil, false, nil, "")
			}
		}
		return nil
	}
	t, err := in.tableOf(m.ID, m.Old, m.New)
	if err != nil || !t.wanted {
		return err
	}
	in.rowChange(m, t)
	return nil
}

func (in *input) rowChange(m *pgoutput.Message, t *table) {
	block := &in.queue.block
	switch m.Kind {
	case pgoutput.Insert:
		in.row(opInsert, t, block.key(t, m.New), nil, false, m.New, "")
	case pgoutput.Delete:
		in.row(opDelete, t, block.key(t, m.Old), m.Old, m.All, nil, "")
	default:
		fill(m.Old, m.New)
		key := block.key(t, m.New)
		if len(m.Old) > 0 && len(t.keys) > 0 {
			switch before := block.key(t, m.Old); {
			case before == key:
			case lacks(m.New): // an insert would not be the row
				in.row(opKeyChange, t, before, m.Old, m.All, m.New, "")
				return
			default: // for each key, what happens to it
				in.row(opDelete, t, before, m.Old, m.All, nil, `,"new_key":`+key)
				in.row(opInsert, t, key, nil, false, m.New, `,"old_key":`+before)
				return
			}
		}
		in.row(opUpdate, t, key, m.Old, m.All, m.New, "")
	}
}

func (in *input) row(op string, t *table, key string, before []pgoutput.Value, whole bool, after []pgoutput.Value,
	other string) {
	tx := in.queue.tx
	tx.rows++
	body := in.queue.block.body(op, t, before, whole, after, other, tx.at.commit, tx.rows, tx.tail)
	in.take(change{op: op, body: body, key: key, table: t, row: tx.rows})
}

// commit ends the open transaction.
func (in *input) commit(m *pgoutput.Message) {
	q := &in.queue
	if q.tx == nil {
		return
	}
	if n := len(q.all); n > 0 && q.all[n-1].tx == q.tx && q.all[n-1].row > 0 {
		q.all[n-1].last = true
	}
	if in.cfg.Transactions {
		in.take(q.mark(opCommit, q.tx))
	}
	q.tx = nil
	if n := len(q.all); n > 0 {
		q.all[n-1].reach = max(q.all[n-1].reach, m.End)
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.due.reach(m.End)
}

// alive notes how far the server has read its log.
func (in *input) alive(end pgoutput.LSN) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.due.end = max(in.due.end, end)
	if in.queue.tx == nil && len(in.queue.all) == 0 {
		in.due.reach(end)
	}
}
