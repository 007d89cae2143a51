package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
	"github.com/flowd-io/flowd/internal/network/bounds"
	"github.com/flowd-io/flowd/schema"
)

// standard is a database with a driver of database/sql.
type standard struct {
	cfg     *Config
	db      *sql.DB
	bind    func(Value) any                                                 // returns a value as an argument for the driver
	append  func(dst []byte, v any, column *sql.ColumnType) ([]byte, error) // appends a value of the driver as JSON
	typeOf  func(*sql.ColumnType) Type
	connect time.Duration
	binary  bool // prepare queries without parameters, too: in the text protocol, the server rounds floats

	mu    sync.Mutex // guards the fields below
	types map[string]knownTypes
	epoch int // increased by renew; connections of an earlier epoch are not used again
}

// knownTypes has the types of a table's columns, and when the database was asked for them.
type knownTypes struct {
	types types
	asked time.Time
}

// idle is how long an idle connection is kept.
const idle = 5 * time.Minute

func (c *Config) standard(conn driver.Connector) *standard {
	db := sql.OpenDB(conn)
	db.SetMaxOpenConns(c.Connections)
	db.SetMaxIdleConns(c.Connections)
	db.SetConnMaxIdleTime(idle)
	return &standard{cfg: c, db: db, connect: c.ConnectTimeout, types: map[string]knownTypes{}}
}

func (s *standard) Conn(ctx context.Context) (Conn, error) {
	dialing, cancel := context.WithTimeout(ctx, s.connect)
	defer cancel()
	s.mu.Lock()
	epoch := s.epoch
	s.mu.Unlock()
	c, err := s.db.Conn(dialing)
	if err != nil {
		return nil, explain(err, !errors.Is(ctx.Err(), context.Canceled))
	}
	return &standardConn{s, c, epoch}, nil
}

// renew closes idle connections now, and connections in use when they are released. New connections may reach another server.
func (s *standard) renew() {
	s.mu.Lock()
	s.epoch++
	s.mu.Unlock()
	s.db.SetMaxIdleConns(0) // closes idle connections
	s.db.SetMaxIdleConns(s.cfg.Connections)
}

func (s *standard) Close() error { return s.db.Close() }

type standardConn struct {
	*standard
	conn  *sql.Conn
	epoch int // of the pool, when the connection was taken
}

func (c *standardConn) Release() {
	c.mu.Lock()
	old := c.epoch != c.standard.epoch
	c.mu.Unlock()
	if old {
		_ = c.conn.Raw(func(any) error { return driver.ErrBadConn }) // closes the connection
	}
	_ = c.conn.Close()
}

// result classifies the error of a call. If the server accepts no writes, all connections of the pool are closed.
func (c *standardConn) result(err error) error {
	if err = explain(err, false); errors.Is(err, errReadOnly) {
		c.renew()
	}
	return err
}

func (c *standardConn) args(args []Value) []any {
	all := make([]any, len(args))
	for i, v := range args {
		if v.Text == nil {
			v.Text = []byte{} // the driver would take nil for null
		}
		all[i] = c.bind(v)
	}
	return all
}

func (c *standardConn) Exec(ctx context.Context, query string, args []Value) (int64, error) {
	res, err := c.conn.ExecContext(ctx, query, c.args(args)...)
	if err != nil {
		return 0, c.result(err)
	}
	n, err := res.RowsAffected()
	return n, explain(err, false)
}

func (c *standardConn) Query(ctx context.Context, query string, args []Value) (Rows, error) {
	rows, stmt, err := c.query(ctx, query, c.args(args))
	if err != nil {
		return nil, c.result(err)
	}
	r := &standardRows{Rows: rows, conn: c, stmt: stmt, append: c.append, most: c.cfg.MaxRow}
	if r.names, err = rows.Columns(); err == nil {
		if err = distinct(r.names); err != nil {
			err = engine.WithClass(engine.Permanent, err)
		}
	}
	if err == nil {
		r.types, err = rows.ColumnTypes()
	}
	if err != nil {
		r.Close()
		return nil, explain(err, false)
	}
	r.values, r.into = make([]any, len(r.names)), make([]any, len(r.names))
	for i := range r.values {
		r.into[i] = &r.values[i]
	}
	return r, nil
}

// query executes a query. The caller closes the rows, and then the statement if it is not nil.
func (c *standardConn) query(ctx context.Context, query string, args []any) (*sql.Rows, *sql.Stmt, error) {
	if c.binary && len(args) == 0 {
		stmt, err := c.conn.PrepareContext(ctx, query)
		if err == nil {
			rows, err := stmt.QueryContext(ctx)
			if err != nil {
				_ = stmt.Close() // the error of the query is returned
			}
			return rows, stmt, err
		}
		if !unpreparable(err) {
			return nil, nil, err
		}
	}
	rows, err := c.conn.QueryContext(ctx, query, args...)
	return rows, nil, err
}

// Types finds the types with a query for these columns that returns no rows.
func (c *standardConn) Types(ctx context.Context, table string, columns []string, anew bool) (Types, error) {
	quoted := make([]string, len(columns))
	for i, name := range columns {
		quoted[i] = c.cfg.Quote(name)
	}
	query := "SELECT " + strings.Join(quoted, ", ") + " FROM " + c.cfg.Table(table) + " WHERE 1 = 0"
	c.mu.Lock()
	known := c.types[query]
	c.mu.Unlock()
	if known.types != nil && !anew && time.Since(known.asked) < believed {
		return known.types, nil
	}
	rows, err := c.conn.QueryContext(ctx, query)
	if err != nil {
		return nil, explain(err, false)
	}
	defer rows.Close()
	all, err := rows.ColumnTypes()
	if err != nil {
		return nil, explain(err, false)
	}
	var t types
	for _, column := range all {
		t = append(t, c.typeOf(column))
	}
	if err := rows.Close(); err != nil {
		return nil, explain(err, false)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.types[query] = knownTypes{t, time.Now()}
	return t, nil
}

type standardRows struct {
	*sql.Rows
	conn   *standardConn
	stmt   *sql.Stmt // of the rows, or nil
	append func(dst []byte, v any, column *sql.ColumnType) ([]byte, error)
	most   schema.Size // max_row
	names  []string
	types  []*sql.ColumnType
	values []any
	into   []any
}

func (r *standardRows) Err() error { return r.conn.result(r.Rows.Err()) }

func (r *standardRows) Close() {
	_ = r.Rows.Close()
	if r.stmt != nil {
		_ = r.stmt.Close()
	}
}

func (r *standardRows) Append(dst []byte) ([]byte, error) {
	if err := r.Scan(r.into...); err != nil {
		return dst, explain(err, false)
	}
	left := int(r.most)
	for _, v := range r.values {
		switch v := v.(type) {
		case string:
			left -= len(v)
		case []byte:
			left -= len(v)
		}
	}
	if left < 0 {
		return dst, explain(bounds.TooLarge("a row is larger than max_row, %s", r.most), false)
	}
	dst = append(dst, '{')
	for i, v := range r.values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(doc.AppendString(dst, r.names[i]), ':')
		var err error
		if dst, err = r.append(dst, v, r.types[i]); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// notText returns the error of a column whose text is not UTF-8, so that a document can't contain it.
func notText(column string) error {
	return engine.Errorf(engine.Permanent,
		"column %s has text that is not UTF-8 (convert it in the query, as with hex(%[1]s))", column)
}

// appendText appends the text of a column.
func appendText[T string | []byte](dst []byte, text T, column *sql.ColumnType) ([]byte, error) {
	if !utf8.ValidString(string(text)) {
		return dst, notText(column.Name())
	}
	return doc.AppendString(dst, text), nil
}

// appendCommon appends values that are the same with all drivers. ok is false for text, bytes and times.
func appendCommon(dst []byte, v any) (out []byte, ok bool) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), true
	case bool:
		return strconv.AppendBool(dst, v), true
	case int64:
		return strconv.AppendInt(dst, v, 10), true
	case uint64:
		return strconv.AppendUint(dst, v, 10), true
	case float32:
		return codec.AppendFloat(dst, float64(v), 32), true
	case float64:
		return codec.AppendFloat(dst, v, 64), true
	}
	return dst, false
}

// numberText returns a number as text for a server that may convert it to a float. A number that would become 0 or infinite is
// refused.
func numberText(v Value) any {
	if _, ok := doc.ParseFloat(v.Text); !ok {
		return outOfRange(v.Text)
	}
	return string(v.Text)
}

// outOfRange is an argument whose conversion fails, so that the statement fails.
type outOfRange string

// Value implements [driver.Valuer].
func (n outOfRange) Value() (driver.Value, error) {
	return nil, engine.Errorf(engine.Rejected, "the number %.40s is out of the range of a float (write it as text)", string(n))
}

// appendNumber appends a number unchanged. If it is not a valid JSON number, it becomes a string.
func appendNumber(dst, text []byte) []byte {
	if _, err := strconv.ParseInt(string(text), 10, 64); err == nil && text[0] != '+' {
		return append(dst, text...)
	}
	if last := len(text) - 1; last >= 0 && text[last] >= '0' && text[last] <= '9' && valid(text) {
		return append(dst, text...)
	}
	return doc.AppendString(dst, text)
}

// valid reports whether a text is a JSON document.
func valid(text []byte) bool {
	var d doc.Doc
	d.Reset(text, nil)
	return d.Valid() == nil
}

func appendBase64(dst, b []byte) []byte {
	dst = append(dst, '"')
	return append(base64.StdEncoding.AppendEncode(dst, b), '"')
}

// appendJSON appends text that is valid JSON unchanged, and any other text as a string.
func appendJSON(dst, text []byte) []byte {
	if len(text) > 0 && valid(text) {
		return append(dst, text...)
	}
	return doc.AppendString(dst, text)
}

var errValue = errors.New("a value of an unknown type")
