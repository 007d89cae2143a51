package postgrescdc

import (
	"context"
	"fmt"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/systems/pgoutput"
)

// table is a table as the server has described it. It never changes: a new description makes a new table.
type table struct {
	schema, name string
	head         []byte // `"schema":…,"table":…` of each message
	columns      []column
	keys         []int  // indexes of key columns
	described    []byte // the types of columns by name, as a JSON object without its closing brace
	wanted       bool   // it is to be read
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

// addColumn adds a column.
func (t *table) addColumn(name string, typ uint32, typeName string, shape pgoutput.Shape) {
	open := byte(',')
	if len(t.columns) == 0 {
		open = '{'
	}
	t.described = append(doc.AppendString(append(t.described, open), name), ':')
	t.described = doc.AppendString(t.described, typeName)
	t.columns = append(t.columns, column{name, append(doc.AppendString(nil, name), ':'), typ, shape})
}

// same reports whether two descriptions are equal.
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

// maxColumns limits the number of known columns, which need up to about 100 MiB.
const maxColumns = 1_000_000

// describe handles the description of a table.
func (in *input) describe(ctx context.Context, m *pgoutput.Message) error {
	t := newTable(m.Namespace, m.Name)
	t.wanted = in.tables == nil || in.tables[m.Namespace+"."+m.Name]
	for i, c := range m.Columns {
		shape, err := in.shape(ctx, c.Type)
		if err != nil {
			return err
		}
		if t.addColumn(c.Name, c.Type, in.typeNames[c.Type], shape); c.Key && m.Identity != 'f' {
			t.keys = append(t.keys, i)
		}
	}
	if m.Identity == 'f' { // REPLICA IDENTITY FULL marks all columns as key
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
	if in.columns > maxColumns {
		clear(in.known)
		in.columns = 0
		return engine.Errorf(engine.Transient, "the server has described more than %d columns of tables", maxColumns)
	}
	return nil
}

// keysOf returns the columns that identify the rows of a table: those of its replica identity index, or of its primary key.
func (in *input) keysOf(ctx context.Context, id uint32) (names []string, err error) {
	rows, err := in.query(ctx, any1, "read the key of a table", fmt.Sprintf(`SELECT a.attname FROM pg_class c `+
		`JOIN pg_index i ON i.indrelid = c.oid JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY(i.indkey) `+
		`WHERE c.oid = %d AND CASE c.relreplident WHEN 'i' THEN i.indisreplident WHEN 'n' THEN false ELSE i.indisprimary END`, id))
	for _, r := range rows {
		names = append(names, r[0])
	}
	return names, err
}

// tableOf returns the table of a change, and checks that the rows have its columns.
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
