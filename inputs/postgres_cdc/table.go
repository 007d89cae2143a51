package postgrescdc

import (
	"context"
	"fmt"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/systems/pgoutput"
)

// table is what the server has said of one. It never changes: another description makes another.
type table struct {
	schema, name string
	head         []byte // `"schema":…,"table":…` of each message
	columns      []column
	keys         []int  // columns
	described    []byte // the types of columns by name, as a document without its last bracket
	wanted       bool
}

type column struct {
	name  string
	json  []byte // `"name":`
	typ   uint32
	shape pgoutput.Shape
}

func newTable(schema, name string) *table {
	t := &table{schema: schema, name: name}
	t.head = doc.AppendString([]byte(`,"schema":`), schema)
	t.head = doc.AppendString(append(t.head, `,"table":`...), name)
	return t
}

func (t *table) add(name string, typ uint32, typeName string, shape pgoutput.Shape) {
	open := byte(',')
	if len(t.columns) == 0 {
		open = '{'
	}
	t.described = append(doc.AppendString(append(t.described, open), name), ':')
	t.described = doc.AppendString(t.described, typeName)
	t.columns = append(t.columns, column{name, append(doc.AppendString(nil, name), ':'), typ, shape})
}

// same reports whether two descriptions are the same.
func (t *table) same(o *table) bool {
	return t.name == o.name && t.schema == o.schema && slices.Equal(t.keys, o.keys) &&
		slices.EqualFunc(t.columns, o.columns, func(a, b column) bool { return a.name == b.name && a.typ == b.typ })
}

func (t *table) names() (all []string) {
	for _, c := range t.columns {
		all = append(all, c.name)
	}
	return all
}

// mostColumns bounds what is known of tables: about 100 MiB.
const mostColumns = 1_000_000

// describe notes what a message says of a table.
func (in *input) describe(ctx context.Context, m *pgoutput.Message) error {
	t := newTable(m.Namespace, m.Name)
	t.wanted = in.tables == nil || in.tables[m.Namespace+"."+m.Name]
	for i, c := range m.Columns {
		shape, err := in.shape(ctx, c.Type)
		if err != nil {
			return err
		}
		if t.add(c.Name, c.Type, in.typeNames[c.Type], shape); c.Key && m.Identity != 'f' {
			t.keys = append(t.keys, i)
		}
	}
	if m.Identity == 'f' { // which marks all columns
		names, err := in.keysOf(ctx, m.ID)
		if err != nil {
			return err
		}
		for i, c := range t.columns {
			if slices.Contains(names, c.name) {
				t.keys = append(t.keys, i)
			}
		}
	}
	before := in.known[m.ID]
	if before != nil && t.wanted && !before.same(t) {
		in.log.Info("a table has changed", "table", before.schema+"."+before.name, "now", t.schema+"."+t.name, "columns",
			t.names(), "before", before.names())
	}
	in.known[m.ID] = t
	if in.columns += len(t.columns) + 1; before != nil {
		in.columns -= len(before.columns) + 1
	}
	if in.columns > mostColumns {
		clear(in.known)
		in.columns = 0
		return engine.Errorf(engine.Transient, "the server has described more than %d columns of tables", mostColumns)
	}
	return nil
}

// keysOf are the columns of a table that identify its rows: those of its replica identity, or of the primary key.
func (in *input) keysOf(ctx context.Context, id uint32) (names []string, err error) {
	rows, err := in.ask(ctx, any1, "look for the key of a table", fmt.Sprintf(`SELECT a.attname FROM pg_class c `+
		`JOIN pg_index i ON i.indrelid = c.oid JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY(i.indkey) `+
		`WHERE c.oid = %d AND CASE c.relreplident WHEN 'i' THEN i.indisreplident WHEN 'n' THEN false ELSE i.indisprimary END`, id))
	for _, r := range rows {
		names = append(names, r[0])
	}
	return names, err
}

// tableOf is the table of a change.
func (in *input) tableOf(id uint32, rows ...[]pgoutput.Value) (*table, error) {
	t := in.known[id]
	if t == nil {
		return nil, engine.Errorf(engine.Permanent, "the server has sent a change of table %d, which it has not described", id)
	}
	for _, row := range rows {
		if len(row) > 0 && len(row) != len(t.columns) {
			return nil, engine.Errorf(engine.Permanent, "the server has sent a row of %d columns of table %s.%s, which has %d",
				len(row), t.schema, t.name, len(t.columns))
		}
	}
	return t, nil
}
