package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/cause"
	"github.com/flowd-io/flowd/internal/network/bounds"
	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	lite "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// BlamesValues reports whether an error is about the values of a statement, so that other values may work.
func BlamesValues(err error) bool {
	e, ok := errors.AsType[*engine.Error](err)
	return ok && e.Class == engine.Rejected
}

// BlamesStatement reports whether an error is about a statement or its values. The values may have been made for types that the columns
// no longer have.
func BlamesStatement(err error) bool {
	e, ok := errors.AsType[*engine.Error](err)
	return ok && (e.Class == engine.Rejected || e.Class == engine.Permanent)
}

// Missing reports whether an error is about a table or column that does not exist. It may be created later.
func Missing(err error) bool { return errors.Is(err, errMissing) }

// LacksReference reports whether a row was refused because it refers to a row that does not exist. That row may be written later.
func LacksReference(err error) bool { return errors.Is(err, errReference) }

// IsDuplicate reports whether a row was refused because another row has the same key.
func IsDuplicate(err error) bool { return errors.Is(err, errDuplicate) }

// Errors that a class alone does not distinguish.
var (
	errMissing   = errors.New("a table or column does not exist")
	errReadOnly  = errors.New("the server or the session accepts no writes")
	errReference = errors.New("a foreign key refers to a row that does not exist")
	errDuplicate = errors.New("a row with this key exists")
)

// missingColumn is the error of a column that a table does not have.
type missingColumn string

func (c missingColumn) Error() string { return fmt.Sprintf("the table has no column %q", string(c)) }

const (
	checkLogin   = "check the user and password of the dsn"
	grant        = "give the user of the dsn the privilege"
	largerPacket = "raise it on the server"
	createTable  = "create it: until then, all messages wait"
	replica      = "a failover is in progress, or the dsn names a replica"
	pgReplica    = replica + "; with several hosts, target_session_attrs=read-write chooses the primary"
)

// explain returns an error of a driver with its class and remedy. connecting means that no statement was sent yet.
func explain(err error, connecting bool) error {
	table := &causes
	switch {
	case errors.As(err, new(*pgconn.PgError)):
		table = &postgresCauses
	case errors.As(err, new(*mysql.MySQLError)):
		table = mysqlCauses()
	case errors.As(err, new(*lite.Error)):
		table = sqliteCauses()
	case errors.As(err, new(*chException)):
		table = clickhouseCauses()
	case connecting:
		table = connectCauses()
	}
	return table.Explain(err, "")
}

// causes says what errors mean that do not come from a server.
var causes = cause.Table{Rows: []cause.Row{
	{Is: bounds.ErrTooLarge, Kind: cause.TooLarge, Remedy: "raise max_row, or query less"},
	{Is: mysql.ErrPktTooLarge, Kind: cause.Rejected, Says: "the row is larger than max_allowed_packet", Remedy: largerPacket},
	{Is: driver.ErrBadConn, Kind: cause.Unreachable, Says: "the connection is lost"}, // nothing was sent
	{If: as[missingColumn], Kind: cause.Awaited, Remedy: createTable, Means: errMissing},
	{If: unsent, Kind: cause.Unreachable},
}}

// connectCauses says what these errors mean while a connection is made.
var connectCauses = sync.OnceValue(func() *cause.Table {
	return &cause.Table{Code: oneLine, Rows: append(slices.Clone(causes.Rows),
		cause.Row{Is: context.DeadlineExceeded, Kind: cause.Unreachable, Remedy: "the connection was not made in time"},
		cause.Row{If: func(error) bool { return true }, Kind: cause.Unreachable},
	)}
})

// unsent reports whether the server can't have executed a statement.
func unsent(err error) bool {
	_, ok := errors.AsType[net.Error](err)
	return ok && pgconn.SafeToRetry(err)
}

// oneLine returns the text of a connection error on one line. It has a line for each attempt.
func oneLine(err error) (code, text string) {
	if c, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return "", strings.Join(strings.Fields(c.Error()), " ")
	}
	return "", ""
}

func as[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// mostSaid limits the text of a server in an error, in bytes.
const mostSaid = 4 << 10

// said returns a text of a server for an error.
func said(text string) string {
	if len(text) > mostSaid {
		text = text[:mostSaid] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// codes converts numbers to codes of a [cause.Table].
func codes(all ...int) (texts []string) {
	for _, c := range all {
		texts = append(texts, strconv.Itoa(c))
	}
	return texts
}

// postgresCauses says what SQLSTATEs mean. Unknown errors, such as 40001, are retried.
var postgresCauses = cause.Table{Code: sqlState, Rows: []cause.Row{
	{Codes: []string{"42501"}, Kind: cause.Credentials, Remedy: grant},
	{Codes: []string{"28*"}, Kind: cause.Credentials, Remedy: checkLogin},
	{Codes: []string{"42P01", "42703", "3D000", "3F000"}, Kind: cause.Awaited, Remedy: createTable, Means: errMissing},
	{Codes: []string{"25006"}, Kind: cause.Busy, Remedy: pgReplica, Means: errReadOnly},
	{Codes: []string{"23503"}, Kind: cause.Rejected, Means: errReference},
	{Codes: []string{"23505"}, Kind: cause.Rejected, Means: errDuplicate},
	{Codes: []string{"21000", "54000", "P0001", "22*", "23*", "44*"}, Kind: cause.Rejected},
	{Codes: []string{"57014", "55P03"}, If: stalePlan, Kind: cause.Lost},
	{Codes: []string{"53*", "57*", "58*", "08*"}, Kind: cause.Busy},
	{Codes: []string{"42*", "0A*", "26*", "34*"}, Kind: cause.Misconfigured},
}}

func sqlState(err error) (code, text string) {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return "", ""
	}
	text = e.Message
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.ColumnName != "" && !strings.Contains(text, e.ColumnName) {
		text += ": column " + e.ColumnName
	}
	return e.Code, fmt.Sprintf("%s (SQLSTATE %s)", said(text), said(e.Code))
}

// stalePlan reports whether a prepared statement no longer fits the table.
func stalePlan(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == "0A000" && strings.Contains(e.Message, "cached plan")
}

// mysqlCauses says what error numbers and SQLSTATEs mean. Like sqliteCauses, it is made at its first use, which keeps the start of the
// program fast.
var mysqlCauses = sync.OnceValue(func() *cause.Table {
	return &cause.Table{Code: mysqlNumber, Rows: []cause.Row{
		{Codes: codes(1153), If: mysqlSays(1105, "max_allowed_packet"), Kind: cause.Rejected, Remedy: largerPacket},
		{Codes: codes(1045, 1698, 1251, 1820, 3118, 4151), Kind: cause.Credentials, Remedy: checkLogin},
		{Codes: codes(1044, 1142, 1143, 1227, 1370), Kind: cause.Credentials, Remedy: grant},
		{Codes: codes(1049, 1054, 1146), Kind: cause.Awaited, Remedy: createTable, Means: errMissing},
		{Codes: codes(1792, 1836), If: mysqlSays(1290, "read-only", "read_only"), Kind: cause.Busy, Remedy: replica,
			Means: errReadOnly},
		{Codes: codes(1216, 1452), Kind: cause.Rejected, Means: errReference},
		{Codes: codes(1062, 1586), Kind: cause.Rejected, Means: errDuplicate},
		{Codes: codes(1021, 1030, 1037, 1040, 1041, 1053, 1114, 1129, 1203, 1226, 1290, 1927, 3032), Kind: cause.Busy},
		{Codes: codes(1205, 1213, 1317, 1969, 3024), Kind: cause.Lost},
		{Codes: codes(1048, 1136, 1217, 1261, 1262, 1264, 1265, 1292, 1300, 1364, 1365, 1366, 1367, 1406, 1416, 1425, 1441, 1451,
			1525, 1526, 1557, 1644, 1690, 1694, 1748, 3140, 3141, 3819, 4025, 4038), Kind: cause.Rejected},
		{Codes: codes(1064, 1149, 1210, 1235, 1305, 1318), Kind: cause.Misconfigured},
		{If: mysqlState("22", "23", "44", "45"), Kind: cause.Rejected},
		{If: mysqlState("42"), Kind: cause.Misconfigured},
		{If: mysqlState("08"), Kind: cause.Busy},
	}}
})

func mysqlNumber(err error) (code, text string) {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		return "", ""
	}
	return strconv.Itoa(int(e.Number)), fmt.Sprintf("%s (error %d, SQLSTATE %s)", said(e.Message), e.Number,
		said(string(e.SQLState[:])))
}

func mysqlSays(number uint16, parts ...string) func(error) bool {
	return func(err error) bool {
		e, ok := errors.AsType[*mysql.MySQLError](err)
		return ok && e.Number == number &&
			slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(e.Message, part) })
	}
}

func mysqlState(classes ...string) func(error) bool {
	return func(err error) bool {
		e, ok := errors.AsType[*mysql.MySQLError](err)
		return ok && slices.Contains(classes, string(e.SQLState[:2]))
	}
}

// sqliteCauses says what result codes mean, whose last byte is the kind of error. Unknown errors, such as a busy database, are
// retried.
var sqliteCauses = sync.OnceValue(func() *cause.Table {
	return &cause.Table{Code: sqliteCode, Rows: []cause.Row{
		{If: sqliteIs(lib.SQLITE_CONSTRAINT_FOREIGNKEY), Kind: cause.Rejected, Means: errReference},
		{If: sqliteIs(lib.SQLITE_CONSTRAINT_PRIMARYKEY, lib.SQLITE_CONSTRAINT_UNIQUE), Kind: cause.Rejected, Means: errDuplicate},
		{Codes: codes(lib.SQLITE_CONSTRAINT, lib.SQLITE_MISMATCH, lib.SQLITE_TOOBIG, lib.SQLITE_RANGE), Kind: cause.Rejected},
		// The texts do not name the file: the dsn is secret.
		{Codes: codes(lib.SQLITE_CANTOPEN), Kind: cause.Busy,
			Remedy: "the folder of the file in dsn must exist, and flowd must have permission to write there"},
		{Codes: codes(lib.SQLITE_READONLY), Kind: cause.Busy, Means: errReadOnly,
			Remedy: "flowd must have permission to write the file in dsn"},
		{Codes: codes(lib.SQLITE_FULL, lib.SQLITE_IOERR, lib.SQLITE_NOMEM), Kind: cause.Busy},
		{Codes: codes(lib.SQLITE_AUTH, lib.SQLITE_PERM), Kind: cause.Credentials},
		{Codes: codes(lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB), Kind: cause.Busy, Remedy: "restore the file"},
		{If: sqliteMisses, Kind: cause.Awaited, Remedy: createTable, Means: errMissing},
		{Codes: codes(lib.SQLITE_ERROR), Kind: cause.Misconfigured},
	}}
})

func sqliteCode(err error) (code, text string) {
	e, ok := errors.AsType[*lite.Error](err)
	if !ok {
		return "", ""
	}
	return strconv.Itoa(e.Code() & 0xff), strings.ToValidUTF8(e.Error(), "\uFFFD")
}

func sqliteIs(all ...int) func(error) bool {
	return func(err error) bool {
		e, ok := errors.AsType[*lite.Error](err)
		return ok && slices.Contains(all, e.Code())
	}
}

func sqliteMisses(err error) bool {
	e, ok := errors.AsType[*lite.Error](err)
	return ok && e.Code()&0xff == lib.SQLITE_ERROR &&
		slices.ContainsFunc([]string{"no such table", "no such column", "has no column named"},
			func(part string) bool { return strings.Contains(e.Error(), part) })
}
