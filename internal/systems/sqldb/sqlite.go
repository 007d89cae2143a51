package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/cause"
	"github.com/flowd-io/flowd/engine/doc"
	lite "modernc.org/sqlite"
)

const (
	// busy sets how long a statement waits while others write.
	busy = "_busy_timeout=10000"
	// wary protects against files from others: views, triggers and indexes can only call functions without side effects, and
	// damaged pages are detected.
	wary = "_pragma=trusted_schema(0)&_pragma=cell_size_check(1)"
)

func openSQLite(c *Config) (DB, error) {
	dsn := c.DSN.Reveal()
	if strings.Contains(dsn, ":memory:") || strings.Contains(dsn, "mode=memory") {
		return nil, fmt.Errorf("a database in memory is lost with its connection (write the path of a file)")
	}
	sep := "?"
	if strings.Contains(dsn, "?") {
		sep = "&"
	}
	if !strings.Contains(dsn, "trusted_schema") {
		dsn, sep = dsn+sep+wary, "&"
	}
	if !strings.Contains(dsn, "busy_timeout") && !strings.Contains(dsn, "_timeout") {
		dsn += sep + busy
	}
	conn, err := lite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	s := c.standard(fileConnector{conn})
	s.bind, s.append, s.typeOf = bindSQLite, appendSQLite, typeOfSQLite
	return s, nil
}

// fileConnector makes connections that notice when their file is renamed or deleted. Depending on its journal, SQLite would continue to
// write to the old file. A connection never changes to the file that has the path now.
type fileConnector struct{ driver.Connector }

// fileConn has the interfaces of the driver's connections.
type fileConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
	lite.DBStatus
}

func (c fileConnector) Connect(ctx context.Context) (driver.Conn, error) {
	plain, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	conn := &liteConn{fileConn: plain.(fileConn)}
	if conn.path, err = conn.mainFile(ctx); err == nil && conn.path != "" {
		conn.info, err = os.Stat(conn.path)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// liteConn is a connection of fileConnector.
type liteConn struct {
	fileConn
	path string      // "" if the database has no file
	info os.FileInfo // of the file when it was opened
}

// mainFile returns the path of the database's file.
func (c *liteConn) mainFile(ctx context.Context) (path string, err error) {
	rows, err := c.fileConn.QueryContext(ctx, "PRAGMA database_list", nil)
	if err != nil {
		return "", err
	}
	row := make([]driver.Value, len(rows.Columns())) // number, name and file
	for err = rows.Next(row); err == nil; err = rows.Next(row) {
		if row[1] == "main" {
			path, _ = row[2].(string)
		}
	}
	if err == io.EOF {
		err = nil
	}
	return path, errors.Join(err, rows.Close())
}

// moved returns an error if the path no longer names the file.
func (c *liteConn) moved() error {
	if c.path == "" {
		return nil
	}
	if now, err := os.Stat(c.path); err == nil && os.SameFile(c.info, now) {
		return nil
	}
	return cause.Held(errors.New("the file of the database was renamed or deleted while it was open; flowd opens it again"))
}

func (c *liteConn) ResetSession(ctx context.Context) error {
	if c.moved() != nil {
		return driver.ErrBadConn
	}
	return c.fileConn.ResetSession(ctx)
}

func (c *liteConn) IsValid() bool { return c.moved() == nil && c.fileConn.IsValid() }

// ExecContext also fails if the file was moved meanwhile, since the changes are not in the file that the path names.
func (c *liteConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.moved(); err != nil {
		return nil, err
	}
	res, err := c.fileConn.ExecContext(ctx, query, args)
	if moved := c.moved(); moved != nil {
		return nil, moved
	}
	return res, err
}

// Check fails if there are rows that refer to rows which do not exist. SQLite defers no other constraints.
func (c *standardConn) Check(context.Context) error {
	if !c.cfg.SQLite() {
		return nil
	}
	return explain(c.conn.Raw(func(conn any) error {
		left, _, err := conn.(lite.DBStatus).Status(lite.DBStatusDeferredFKs, false)
		if err == nil && left > 0 {
			err = engine.Errorf(engine.Rejected, "deferred FOREIGN KEY constraint failed: %w", errReference)
		}
		return err
	}), false)
}

func (c *liteConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.moved(); err != nil {
		return nil, err
	}
	rows, err := c.fileConn.QueryContext(ctx, query, args)
	if err == nil {
		keepStoredText(rows)
	}
	return rows, err
}

// keepStoredText makes rows return text as it is stored. In columns that are declared as times, the driver would parse the text, add a
// zone to times without one, and cut off what follows a date. A cursor would then be compared with different text. The driver has no
// option against that. It depends on type names in a field of the rows, so a space is added to the names.
func keepStoredText(rows driver.Rows) {
	types := reflect.ValueOf(rows).Elem().FieldByName("decltypes")
	for i := range types.Len() {
		name := (*string)(types.Index(i).Addr().UnsafePointer())
		switch *name {
		case "DATE", "DATETIME", "TIMESTAMP":
			*name += " "
		}
	}
}

func typeOfSQLite(t *sql.ColumnType) Type {
	switch strings.ToUpper(t.DatabaseTypeName()) {
	case "JSON", "JSONB":
		return JSONType
	}
	return AnyType
}

// bindSQLite returns a value as an argument, without loss. A number that integers and floats can't reproduce exactly, such as 12.50,
// becomes text. A column with numeric affinity converts it, and a column with text affinity keeps it.
func bindSQLite(v Value) any {
	switch v.Kind {
	case Null:
		return nil
	case Bool:
		return v.Text[0] == 't'
	case Bytes:
		return v.Text
	case Number:
		if n, err := strconv.ParseInt(string(v.Text), 10, 64); err == nil {
			return n
		}
		if f, err := strconv.ParseFloat(string(v.Text), 64); err == nil && string(doc.AppendFloat(nil, f)) == string(v.Text) {
			return f
		}
		return numberText(v)
	}
	return string(v.Text)
}

func appendSQLite(dst []byte, v any, column *sql.ColumnType) ([]byte, error) {
	declared := strings.ToUpper(column.DatabaseTypeName())
	if n, ok := v.(int64); ok && (declared == "BOOLEAN" || declared == "BOOL") && (n == 0 || n == 1) {
		return strconv.AppendBool(dst, n == 1), nil
	}
	dst, ok := appendCommon(dst, v)
	if ok {
		return dst, nil
	}
	switch v := v.(type) {
	case string:
		if declared == "JSON" || declared == "JSONB" {
			return appendJSON(dst, []byte(v)), nil
		}
		return appendText(dst, v, column)
	case []byte:
		return appendBase64(dst, v), nil
	case time.Time: // the driver converts numbers to times if the dsn asks for it
		return doc.AppendString(dst, v.Format(time.RFC3339Nano)), nil
	}
	return dst, fmt.Errorf("column %s: %w: %T", column.Name(), errValue, v)
}
