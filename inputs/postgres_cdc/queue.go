package postgrescdc

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/pgoutput"
)

// queue has the changes that were received and are not in a batch yet. While a transaction is open, its newest change stays here:
// only the next message says whether it is the last one.
type queue struct {
	all   []change
	size  int          // bytes of all bodies
	tx    *transaction // the open transaction; nil: there is none
	block block
}

// reset removes everything, since the server sends it again.
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

// ready returns the number of changes that may go into a batch.
func (q *queue) ready() int {
	if q.tx != nil {
		return max(0, len(q.all)-1)
	}
	return len(q.all)
}

// emit adds ready changes to a batch, as many as there is room for.
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
		m.Meta, m.Ref = meta.At(done), in.due.nextRef()
		if c.reach > 0 {
			in.due.noteRead(c.reach)
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

// before reports whether p is before o.
func (p place) before(o place) bool {
	return p.commit < o.commit || p.commit == o.commit && p.number < o.number
}

// records provides the metadata of changes. The input owns all of it, so outputs don't pass it on.
type records struct{ all []change }

var _ engine.MetaSource = (*records)(nil)

var names = []string{"op", "schema", "table", "key", "columns", "lsn", "position", "xid", "commit_time", "last"}

// Get returns a value of change i.
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

// Meta returns all metadata of change i.
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

// marker returns a message that says that a transaction begins or ends.
func (q *queue) marker(op string, tx *transaction) change {
	out := append(append(append(q.block.room(256), `{"op":"`...), op...), '"')
	out = appendPlace(out, tx.at.commit, 0)
	if op == opCommit {
		out = append(append(out, `,"changes":`...), itoa(tx.rows)...)
	}
	return change{op: op, body: q.block.keep(append(out, tx.tail...)), tx: tx}
}

// addChange adds a change of the open transaction, unless it was already read on an earlier connection.
func (in *input) addChange(c change) {
	tx := in.queue.tx
	tx.at.number++
	c.tx, c.at = tx, tx.at
	if in.at.before(c.at) {
		in.queue.add(c)
	}
}

// handle handles a message of the stream.
func (in *input) handle(m *pgoutput.Message) error {
	q := &in.queue
	switch m.Kind {
	case pgoutput.Begin:
		if q.tx = newTransaction(m); in.cfg.Transactions {
			in.addChange(q.marker(opBegin, q.tx))
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
				in.addRow(opTruncate, t, "", nil, false, nil, "")
			}
		}
		return nil
	}
	t, err := in.tableOf(m.ID, m.Old, m.New)
	if err != nil || !t.wanted {
		return err
	}
	in.handleRow(m, t)
	return nil
}

// handleRow adds the changes of an insert, an update or a delete.
func (in *input) handleRow(m *pgoutput.Message, t *table) {
	block := &in.queue.block
	switch m.Kind {
	case pgoutput.Insert:
		in.addRow(opInsert, t, block.key(t, m.New), nil, false, m.New, "")
	case pgoutput.Delete:
		in.addRow(opDelete, t, block.key(t, m.Old), m.Old, m.OldComplete, nil, "")
	default:
		fillUnchanged(m.Old, m.New)
		key := block.key(t, m.New)
		if len(m.Old) > 0 && len(t.keys) > 0 {
			switch before := block.key(t, m.Old); {
			case before == key:
			case incomplete(m.New): // an insert would not have the whole row
				in.addRow(opKeyChange, t, before, m.Old, m.OldComplete, m.New, "")
				return
			default: // a change for each of the two keys
				in.addRow(opDelete, t, before, m.Old, m.OldComplete, nil, `,"new_key":`+key)
				in.addRow(opInsert, t, key, nil, false, m.New, `,"old_key":`+before)
				return
			}
		}
		in.addRow(opUpdate, t, key, m.Old, m.OldComplete, m.New, "")
	}
}

// addRow adds a change of a table.
func (in *input) addRow(op string, t *table, key string, before []pgoutput.Value, whole bool, after []pgoutput.Value,
	other string) {
	tx := in.queue.tx
	tx.rows++
	body := in.queue.block.body(op, t, before, whole, after, other, tx.at.commit, tx.rows, tx.tail)
	in.addChange(change{op: op, body: body, key: key, table: t, row: tx.rows})
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
		in.addChange(q.marker(opCommit, q.tx))
	}
	q.tx = nil
	if n := len(q.all); n > 0 {
		q.all[n-1].reach = max(q.all[n-1].reach, m.End)
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.due.noteRead(m.End)
}

// noteEnd notes up to which position the server has read its log.
func (in *input) noteEnd(end pgoutput.LSN) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.due.end = max(in.due.end, end)
	if in.queue.tx == nil && len(in.queue.all) == 0 {
		in.due.noteRead(end)
	}
}
