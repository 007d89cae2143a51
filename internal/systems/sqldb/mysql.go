package sqldb

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/go-sql-driver/mysql"
)

// strict makes the server refuse values that do not fit. Otherwise, it would cut them off.
const strict = "CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')"

func openMySQL(c *Config) (DB, error) {
	cfg, err := mysql.ParseDSN(c.DSN.Reveal())
	if err != nil {
		return nil, fmt.Errorf("%w (write USER:PASSWORD@tcp(HOST:3306)/DATABASE)", err)
	}
	if cfg.AllowAllFiles {
		return nil, errors.New("allowAllFiles lets the server read any file of this machine (remove it)")
	}
	cfg.Timeout = c.ConnectTimeout
	cfg.InterpolateParams, cfg.ParseTime, cfg.MultiStatements = true, false, false
	cfg.MaxAllowedPacket = 0                                          // use the server's limit
	if err := cfg.Apply(mysql.EnableCompression(false)); err != nil { // the driver would decompress packets of any size
		return nil, err
	}
	cfg.Logger = log.New(io.Discard, "", 0)
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	cfg.Params["time_zone"] = "'+00:00'"
	if cfg.Params["sql_mode"] == "" {
		cfg.Params["sql_mode"] = strict
	}
	if c.TLS != nil {
		if cfg.TLS, err = c.TLS.Config(); err != nil {
			return nil, err
		}
		if cfg.TLS.ServerName == "" {
			cfg.TLS.ServerName = host(cfg.Addr)
		}
		cfg.AllowFallbackToPlaintext = false
	}
	conn, err := newMyConnector(cfg, c.MaxRow)
	if err != nil {
		return nil, err
	}
	s := c.standard(conn)
	s.bind, s.append, s.typeOf, s.binary = bindMySQL, appendMySQL, typeOfMySQL, true
	return s, nil
}

// unpreparable reports whether a statement, such as LOCK TABLES, can only be sent as text.
func unpreparable(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && e.Number == 1295
}

func host(address string) string {
	if i := strings.LastIndexByte(address, ':'); i > 0 {
		address = address[:i]
	}
	return strings.Trim(address, "[]")
}

// mysqlTime is how the server writes times.
const mysqlTime = "2006-01-02 15:04:05.999999"

// bindMySQL returns a value as an argument. Text stays text, since the server converts it to the type of the column. Numbers keep their
// digits.
func bindMySQL(v Value) any {
	switch v.Kind {
	case Null:
		return nil
	case Bool:
		return v.Text[0] == 't'
	case Bytes:
		return v.Text
	case Number:
		return numberText(v)
	case Time:
		if t, err := time.Parse(time.RFC3339Nano, string(v.Text)); err == nil {
			return t.UTC().Format(mysqlTime)
		}
	}
	return string(v.Text)
}

func typeOfMySQL(t *sql.ColumnType) Type {
	switch t.DatabaseTypeName() {
	case "JSON":
		return JSONType
	case "DATETIME", "TIMESTAMP":
		return DateTimeType
	case "TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT",
		"UNSIGNED TINYINT", "UNSIGNED SMALLINT", "UNSIGNED MEDIUMINT", "UNSIGNED INT", "UNSIGNED BIGINT":
		return IntType
	case "FLOAT", "UNSIGNED FLOAT":
		return Float32Type
	}
	return AnyType
}

func appendMySQL(dst []byte, v any, column *sql.ColumnType) ([]byte, error) {
	dst, ok := appendCommon(dst, v)
	if ok {
		return dst, nil
	}
	text, isBytes := v.([]byte)
	if s, isText := v.(string); isText {
		text, isBytes = []byte(s), true
	}
	if !isBytes {
		return dst, fmt.Errorf("column %s: %w: %T", column.Name(), errValue, v)
	}
	switch column.DatabaseTypeName() {
	case "DECIMAL", "UNSIGNED BIGINT": // an unsigned integer beyond 63 bits is text
		return appendNumber(dst, text), nil
	case "JSON":
		return appendJSON(dst, text), nil
	case "BIT":
		var n uint64
		for _, b := range text {
			n = n<<8 | uint64(b)
		}
		return fmt.Append(dst, n), nil
	case "TIMESTAMP":
		return appendMoment(dst, text, "Z"), nil
	case "DATETIME":
		return appendMoment(dst, text, ""), nil
	case "BLOB", "TINYBLOB", "MEDIUMBLOB", "LONGBLOB", "BINARY", "VARBINARY", "GEOMETRY", "VECTOR":
		return appendBase64(dst, text), nil
	}
	return appendText(dst, text, column)
}

// appendMoment appends a date and time in the format of RFC 3339.
func appendMoment(dst, text []byte, zone string) []byte {
	if len(text) < 19 || text[10] != ' ' {
		return doc.AppendString(dst, text)
	}
	separator := len(dst) + 1 + 10
	dst = append(append(append(append(dst, '"'), text...), zone...), '"')
	dst[separator] = 'T'
	return dst
}
