package sqldb

import (
	"context"
	"encoding/hex"
	"hash/fnv"
	"strconv"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/jackc/pgx/v5/pgconn"
)

func placeholder(n int) string { return "$" + strconv.Itoa(n) }

// statementName returns a short name for a prepared statement. Equal statements have equal names.
func statementName(query string) string {
	h := fnv.New128a()
	h.Write([]byte(query))
	return "flowd_" + strconv.FormatUint(uint64(len(query)), 36) + "_" + hex.EncodeToString(h.Sum(nil))
}

func (c *pgConn) Query(ctx context.Context, query string, args []Value) (Rows, error) {
	s, err := c.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	params, err := c.pool.encode(args, s.ParamOIDs)
	if err != nil {
		return nil, err
	}
	r := &pgRows{conn: c, ctx: ctx, statement: s}
	for _, f := range s.Fields {
		r.names = append(r.names, f.Name)
		r.types = append(r.types, c.pool.typeOf(f.DataTypeOID))
	}
	if err := distinct(r.names); err != nil {
		return nil, engine.WithClass(engine.Permanent, err)
	}
	r.res = c.pg.ExecPrepared(ctx, s.Name, params, nil, nil)
	return r, nil
}

type pgRows struct {
	conn      *pgConn
	ctx       context.Context //nolint:containedctx // of the query
	statement *pgStatement
	res       *pgconn.ResultReader
	names     []string
	types     []pgType
	err       error
	ended     bool
}

func (r *pgRows) Next() bool {
	if r.ended {
		return false
	}
	if r.res.NextRow() {
		return true
	}
	r.Close()
	return false
}

func (r *pgRows) Err() error { return r.err }

func (r *pgRows) Close() {
	if r.ended {
		return
	}
	r.ended = true
	for n := 0; n < mostUnread && r.res.NextRow(); n++ {
	}
	if r.res.NextRow() { // close the connection rather than read all rows
		r.conn.pg.Conn().Close()
	}
	_, err := r.res.Close()
	r.err = r.conn.result(r.ctx, r.statement, err)
}

func (r *pgRows) Append(dst []byte) ([]byte, error) {
	values := r.res.Values()
	if len(values) != len(r.names) {
		return dst, engine.Errorf(engine.Transient, "the server has sent a row of %d columns, but has described %d", len(values),
			len(r.names))
	}
	dst = append(dst, '{')
	for i, v := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		if !utf8.Valid(v) {
			return dst, notText(r.names[i])
		}
		dst = append(doc.AppendString(dst, r.names[i]), ':')
		dst = r.types[i].append(dst, v)
	}
	return append(dst, '}'), nil
}
