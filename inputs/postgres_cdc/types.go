package postgrescdc

import (
	"context"
	"strconv"

	"github.com/flowd-io/flowd/internal/systems/pgoutput"
)

// mostDomains is how many domains are followed, one of another, to their base.
const mostDomains = 32

// typeRow is a type of the catalog whose values have the shape of another's.
type typeRow struct {
	of        uint32 // its elements, or the base of a domain
	list      bool
	delimiter byte
}

// loadTypes reads the names of types, which of them are lists, and which are domains.
func (in *input) loadTypes(ctx context.Context) error {
	rows, err := in.ask(ctx, any6, "look at types", `SELECT t.oid, CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.typelem END, `+
		`t.typtype = 'd', e.typdelim, format_type(t.oid, NULL), `+
		`t.typtype = 'd' OR t.typelem <> 0 AND t.typcategory = 'A' AND t.typlen = -1 `+
		`FROM pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem WHERE t.typtype <> 'c'`)
	if err != nil {
		return err
	}
	all, names := make(map[uint32]typeRow, len(rows)), make(map[uint32]string, len(rows))
	for _, r := range rows {
		names[oid(r[0])] = r[4]
		if r[5] != "t" {
			continue
		}
		t := typeRow{of: oid(r[1]), list: r[2] == "f", delimiter: ','}
		if r[3] != "" {
			t.delimiter = r[3][0]
		}
		all[oid(r[0])] = t
	}
	in.typeNames, in.types = names, make(map[uint32]pgoutput.Shape, len(all))
	for id := range all {
		in.types[id] = shapeOf(all, id, mostDomains)
	}
	return nil
}

func shapeOf(all map[uint32]typeRow, id uint32, depth int) pgoutput.Shape {
	t, ok := all[id]
	switch {
	case !ok || depth == 0:
		return pgoutput.ShapeOf(id)
	case t.list:
		return shapeOf(all, t.of, depth-1).List(t.delimiter)
	}
	return shapeOf(all, t.of, depth-1)
}

// firstOwn is the first number of a type that is not PostgreSQL's own.
const firstOwn = 16384

// shape is that of a type, which may be newer than what was read of types.
func (in *input) shape(ctx context.Context, id uint32) (pgoutput.Shape, error) {
	s, ok := in.types[id]
	if ok || id < firstOwn {
		if !ok {
			s = pgoutput.ShapeOf(id)
		}
		return s, nil
	}
	if err := in.loadTypes(ctx); err != nil {
		return s, err
	}
	if s, ok = in.types[id]; !ok { // an enum, or another type of its own: text
		in.types[id] = s
	}
	return s, nil
}

func oid(text string) uint32 {
	n, _ := strconv.ParseUint(text, 10, 32)
	return uint32(n)
}
