package postgrescdc

import (
	"context"
	"strconv"

	"github.com/flowd-io/flowd/internal/systems/pgoutput"
)

// maxDomains limits how many domains and arrays are followed to their base type.
const maxDomains = 32

// typeRow is an array or a domain of the catalog, whose values have the shape of another type.
type typeRow struct {
	base      uint32 // type of the elements, or base type of the domain
	list      bool
	delimiter byte
}

// loadTypes reads the names of all types, and which of them are arrays or domains.
func (in *input) loadTypes(ctx context.Context) error {
	rows, err := in.query(ctx, any6, "read the types", `SELECT t.oid, CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.typelem END, `+
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
		t := typeRow{base: oid(r[1]), list: r[2] == "f", delimiter: ','}
		if r[3] != "" {
			t.delimiter = r[3][0]
		}
		all[oid(r[0])] = t
	}
	in.typeNames, in.types = names, make(map[uint32]pgoutput.Shape, len(all))
	for id := range all {
		in.types[id] = shapeOf(all, id, maxDomains)
	}
	return nil
}

// shapeOf returns the shape of a type.
func shapeOf(all map[uint32]typeRow, id uint32, depth int) pgoutput.Shape {
	t, ok := all[id]
	switch {
	case !ok || depth == 0:
		return pgoutput.ShapeOf(id)
	case t.list:
		return shapeOf(all, t.base, depth-1).List(t.delimiter)
	}
	return shapeOf(all, t.base, depth-1)
}

// firstOwn is the lowest oid of a type that is not built into PostgreSQL.
const firstOwn = 16384

// shape returns the shape of a type. If the type is not known, it reads the types again.
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
	if s, ok = in.types[id]; !ok { // an enum, or another type whose values are text
		in.types[id] = s
	}
	return s, nil
}

func oid(text string) uint32 {
	n, _ := strconv.ParseUint(text, 10, 32)
	return uint32(n)
}
