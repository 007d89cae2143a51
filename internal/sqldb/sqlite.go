package sqldb

import (
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine/doc"
	driver "modernc.org/sqlite"
)

// busy is how long a statement waits while others write.
const busy = "_busy_timeout=2000"

func openSQLite(c *Config) (DB, error) {
	dsn := c.DSN.Reveal()
	if strings.Contains(dsn, ":memory:") || strings.Contains(dsn, "mode=memory") {
		return nil, fmt.Errorf("a database in memory ends with its connection (name a file)")
	}
	sep := "?"
	if strings.Contains(dsn, "?") {
		sep = "&"
	}
	if !strings.Contains(dsn, "busy_timeout") && !strings.Contains(dsn, "_timeout") {
		dsn += sep + busy
	}
	conn, err := driver.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	s := c.standard(conn)
	s.bind, s.append, s.typeOf = bindSQLite, appendSQLite, typeOfSQLite
	return s, nil
}

func typeOfSQLite(t *sql.ColumnType) Type {
	switch strings.ToUpper(t.DatabaseTypeName()) {
	case "JSON", "JSONB":
		return JSONType
	}
	return AnyType
}

// bindSQLite gives numbers in a form that loses nothing: one that is not spelled as an integer or a float would be, such as
// 12.50, is text, which a column with the affinity of numbers converts, and one of text keeps.
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
		return servable(v)
	}
	return string(v.Text)
}

func appendSQLite(dst []byte, v any, of *sql.ColumnType) ([]byte, error) {
	declared := strings.ToUpper(of.DatabaseTypeName())
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
		return doc.AppendString(dst, v), nil
	case []byte:
		return appendBase64(dst, v), nil
	case time.Time:
		if declared == "DATE" {
			return doc.AppendString(dst, v.Format(time.DateOnly)), nil
		}
		return doc.AppendString(dst, v.Format(time.RFC3339Nano)), nil
	}
	return dst, fmt.Errorf("column %s: %w: %T", of.Name(), errValue, v)
}
