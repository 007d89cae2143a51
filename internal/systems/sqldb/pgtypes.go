package sqldb

import (
	"context"
	"slices"
	"strconv"

	"github.com/flowd-io/flowd/internal/systems/pgwire"
	"github.com/jackc/pgx/v5/pgconn"
)

// The OIDs of built-in types that are not treated as text.
const (
	oidBool        = 16
	oidBytea       = 17
	oidInt8        = 20
	oidInt2        = 21
	oidInt4        = 23
	oidOID         = 26
	oidJSON        = 114
	oidFloat4      = 700
	oidFloat8      = 701
	oidDate        = 1082
	oidTime        = 1083
	oidTimestamp   = 1114
	oidTimestamptz = 1184
	oidNumeric     = 1700
	oidJSONB       = 3802

	firstUserOID = 16384 // OIDs from here on belong to types of users
)

// arrays has the OIDs of built-in array types, each with the OID of the elements.
var arrays = [][2]uint32{
	{1000, oidBool}, {1001, oidBytea}, {1005, oidInt2}, {1007, oidInt4}, {1016, oidInt8}, {1028, oidOID},
	{1021, oidFloat4}, {1022, oidFloat8}, {1231, oidNumeric}, {199, oidJSON}, {3807, oidJSONB},
	{1115, oidTimestamp}, {1185, oidTimestamptz}, {1182, oidDate}, {1183, oidTime}, {1270, 1266}, {1187, 1186},
	{1009, 25}, {1015, 1043}, {1014, 1042}, {1002, 18}, {1003, 19}, {2951, 2950}, {1041, 869}, {651, 650}, {1040, 829},
}

// pgType is a type: a base type, or an array of it.
type pgType struct {
	base    uint32
	isArray bool
}

// typeOf returns a type by its OID. Unknown types are treated as text.
func (p *pgPool) typeOf(oid uint32) pgType {
	if oid >= firstUserOID {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.types[oid]
	}
	if i := slices.IndexFunc(arrays, func(a [2]uint32) bool { return a[0] == oid }); i >= 0 {
		return pgType{arrays[i][1], true}
	}
	return pgType{base: oid}
}

// mostTypes limits the types of users that are remembered.
const mostTypes = 10_000

// lookUpTypes asks the server for the types of users in a statement. A domain is replaced by its base type.
func (p *pgPool) lookUpTypes(ctx context.Context, pg *pgconn.PgConn, s *pgconn.StatementDescription) error {
	oids := slices.Clone(s.ParamOIDs)
	for _, f := range s.Fields {
		oids = append(oids, f.DataTypeOID)
	}
	for _, oid := range oids {
		p.mu.Lock()
		_, known := p.types[oid]
		p.mu.Unlock()
		if oid < firstUserOID || known {
			continue
		}
		t, err := p.lookUpType(ctx, pg, oid, 0)
		if err != nil {
			return explain(err, false)
		}
		p.mu.Lock()
		if len(p.types) >= mostTypes {
			clear(p.types)
		}
		p.types[oid] = t
		p.mu.Unlock()
	}
	return nil
}

const askType = "SELECT CASE WHEN typtype = 'd' THEN typbasetype ELSE 0 END, " +
	"CASE WHEN typcategory = 'A' THEN typelem ELSE 0 END FROM pg_catalog.pg_type WHERE oid = "

func (p *pgPool) lookUpType(ctx context.Context, pg *pgconn.PgConn, oid uint32, depth int) (pgType, error) {
	if oid < firstUserOID {
		return p.typeOf(oid), nil
	}
	rows, err := pgwire.Rows(ctx, pg, askType+strconv.FormatUint(uint64(oid), 10), 2)
	if err != nil || len(rows) != 1 || depth > 32 {
		return pgType{}, err
	}
	for i, text := range rows[0] {
		base, err := strconv.ParseUint(text, 10, 32)
		if err != nil || base == 0 {
			continue
		}
		t, askErr := p.lookUpType(ctx, pg, uint32(base), depth+1)
		return pgType{t.base, t.isArray || i == 1}, askErr
	}
	return pgType{}, nil
}
