package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/bounds"
	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	lite "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// Blames says whether an error is about the values of a statement: others may work.
func Blames(err error) bool {
	var e *engine.Error
	return errors.As(err, &e) && e.Class == engine.Rejected
}

// Mistaken reports whether an error is about a statement or its values. The values may have been made for types that the
// columns no longer have.
func Mistaken(err error) bool {
	e, ok := errors.AsType[*engine.Error](err)
	return ok && (e.Class == engine.Rejected || e.Class == engine.Permanent)
}

// Missing says whether an error is about a table or column that there is not: somebody may still create it.
func Missing(err error) bool { return isMarked(err, absent) }

// Refers reports whether a row was refused because the row that it refers to does not exist. That row may be written
// later.
func Refers(err error) bool { return isMarked(err, reference) }

// Duplicates reports whether a row was refused because another row has its key.
func Duplicates(err error) bool { return isMarked(err, duplicate) }

// mark is the cause of an error, where its class does not say enough.
type mark uint8

const (
	absent    mark = iota + 1 // a table or a column does not exist
	readOnly                  // the server or the session takes no writes
	reference                 // a foreign key refers to a row that is not there
	duplicate                 // a row with this key exists
)

type marked struct {
	error
	mark mark
}

func (m *marked) Unwrap() error { return m.error }

func isMarked(err error, as mark) bool {
	m, ok := errors.AsType[*marked](err)
	return ok && m.mark == as
}

func missing(err error) error { return held(&marked{remedied(err, createTable), absent}) }

func refusesWrites(err error, remedy string) error {
	return held(&marked{remedied(err, remedy), readOnly})
}

func duplicates(err error) error { return engine.WithClass(engine.Rejected, &marked{err, duplicate}) }

func refers(err error) error { return engine.WithClass(engine.Rejected, &marked{err, reference}) }

func held(err error) error { return &engine.Error{Class: engine.Transient, Holds: true, Err: err} }

// remedied adds to the words of a database what to do.
func remedied(err error, remedy string) error { return fmt.Errorf("%w (%s)", err, remedy) }

const (
	checkLogin   = "check the user and password of the dsn"
	grant        = "give the user of the dsn the privilege"
	largerPacket = "raise it on the server"
	createTable  = "create it: until then, all messages wait"
	replica      = "a failover is under way, or the dsn names a replica"
	pgReplica    = replica + "; of several hosts, target_session_attrs=read-write chooses the primary"
)

// classify gives an error of a driver its class. connecting: nothing was sent yet.
func classify(err error, connecting bool) error {
	var e *engine.Error
	var pg *pgconn.PgError
	var my *mysql.MySQLError
	var file *lite.Error
	var house *chException
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return err
	case errors.As(err, &pg):
		return ofPostgres(pg)
	case errors.As(err, &my):
		return ofMySQL(my)
	case errors.As(err, &file):
		return ofSQLite(file)
	case errors.As(err, &house):
		return ofClickHouse(house)
	case errors.Is(err, bounds.ErrTooLarge):
		return engine.WithClass(engine.TooLarge, remedied(err, "raise it, or ask for less"))
	case errors.Is(err, mysql.ErrPktTooLarge):
		return engine.WithClass(engine.Rejected, remedied(errors.New("the row is larger than max_allowed_packet"), largerPacket))
	case errors.Is(err, driver.ErrBadConn): // nothing was sent
		return held(errors.New("the connection is lost"))
	case errors.Is(err, context.DeadlineExceeded) && !connecting:
		return engine.WithClass(engine.Timeout, err)
	case errors.Is(err, context.Canceled):
		return err
	case connecting && errors.Is(err, context.DeadlineExceeded):
		return held(fmt.Errorf("no connection in time: %w", err))
	case connecting:
		var c *pgconn.ConnectError
		if errors.As(err, &c) {
			err = errors.New(strings.Join(strings.Fields(c.Error()), " ")) // several lines: one for each attempt
		}
		return held(err)
	}
	var network net.Error
	if pgconn.SafeToRetry(err) && errors.As(err, &network) {
		return held(err)
	}
	return engine.WithClass(engine.Transient, err) // it may have been carried out
}

// mostSaid is how much is shown of the text of an error, in bytes.
const mostSaid = 4 << 10

// said is a text of a server, for an error.
func said(text string) string {
	if len(text) > mostSaid {
		text = text[:mostSaid] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// ofPostgres goes by the SQLSTATE.
func ofPostgres(e *pgconn.PgError) error {
	text := e.Message
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.ColumnName != "" && !strings.Contains(text, e.ColumnName) {
		text += ": column " + e.ColumnName
	}
	err := fmt.Errorf("%s (SQLSTATE %s)", said(text), said(e.Code))
	class := ""
	if len(e.Code) == 5 {
		class = e.Code[:2]
	}
	switch {
	case e.Code == "42501":
		return engine.WithClass(engine.Auth, remedied(err, grant))
	case class == "28":
		return engine.WithClass(engine.Auth, remedied(err, checkLogin))
	case e.Code == "42P01", e.Code == "42703", e.Code == "3D000", e.Code == "3F000":
		return missing(err)
	case e.Code == "25006":
		return refusesWrites(err, pgReplica)
	case e.Code == "23503":
		return refers(err)
	case e.Code == "23505":
		return duplicates(err)
	case e.Code == "21000", e.Code == "54000", e.Code == "P0001", class == "22", class == "23", class == "44":
		return engine.WithClass(engine.Rejected, err)
	case e.Code == "57014", e.Code == "55P03", e.Code == "0A000" && strings.Contains(e.Message, "cached plan"):
		return engine.WithClass(engine.Transient, err)
	case class == "53", class == "57", class == "58", class == "08":
		return held(err)
	case class == "42", class == "0A", class == "26", class == "34":
		return engine.WithClass(engine.Permanent, err)
	}
	return engine.WithClass(engine.Transient, err) // 40001, 40P01 and what nobody has thought of
}

// ofMySQL goes by the number of the error.
func ofMySQL(e *mysql.MySQLError) error {
	err := fmt.Errorf("%s (error %d, SQLSTATE %s)", said(e.Message), e.Number, said(string(e.SQLState[:])))
	switch e.Number {
	case 1153:
		return engine.WithClass(engine.Rejected, remedied(err, largerPacket))
	case 1105:
		if strings.Contains(e.Message, "max_allowed_packet") {
			return engine.WithClass(engine.Rejected, remedied(err, largerPacket))
		}
	case 1045, 1698, 1251, 1820, 3118, 4151:
		return engine.WithClass(engine.Auth, remedied(err, checkLogin))
	case 1044, 1142, 1143, 1227, 1370:
		return engine.WithClass(engine.Auth, remedied(err, grant))
	case 1049, 1054, 1146:
		return missing(err)
	case 1290: // an option of the server forbids the statement
		if strings.Contains(e.Message, "read-only") || strings.Contains(e.Message, "read_only") {
			return refusesWrites(err, replica)
		}
		return held(err)
	case 1792, 1836:
		return refusesWrites(err, replica)
	case 1216, 1452:
		return refers(err)
	case 1062, 1586:
		return duplicates(err)
	case 1021, 1030, 1037, 1040, 1041, 1053, 1114, 1129, 1203, 1226, 1927, 3032:
		return held(err)
	case 1205, 1213, 1317, 1969, 3024:
		return engine.WithClass(engine.Transient, err)
	case 1048, 1136, 1217, 1261, 1262, 1264, 1265, 1292, 1300, 1364, 1365, 1366, 1367, 1406, 1416,
		1425, 1441, 1451, 1525, 1526, 1557, 1644, 1690, 1694, 1748, 3140, 3141, 3819, 4025, 4038:
		return engine.WithClass(engine.Rejected, err)
	case 1064, 1149, 1210, 1235, 1305, 1318:
		return engine.WithClass(engine.Permanent, err)
	}
	switch string(e.SQLState[:2]) {
	case "22", "23", "44", "45":
		return engine.WithClass(engine.Rejected, err)
	case "42":
		return engine.WithClass(engine.Permanent, err)
	case "08":
		return held(err)
	}
	return engine.WithClass(engine.Transient, err)
}

// ofSQLite goes by the result code.
func ofSQLite(e *lite.Error) error {
	err := errors.New(strings.ToValidUTF8(e.Error(), "\uFFFD"))
	switch e.Code() {
	case lib.SQLITE_CONSTRAINT_FOREIGNKEY:
		return refers(err)
	case lib.SQLITE_CONSTRAINT_PRIMARYKEY, lib.SQLITE_CONSTRAINT_UNIQUE:
		return duplicates(err)
	}
	switch e.Code() & 0xff {
	case lib.SQLITE_CONSTRAINT, lib.SQLITE_MISMATCH, lib.SQLITE_TOOBIG, lib.SQLITE_RANGE:
		return engine.WithClass(engine.Rejected, err)
	case lib.SQLITE_CANTOPEN: // which file is in dsn, and may be secret there
		return held(remedied(err, "the folder of the file in dsn has to exist, and flowd has to be permitted to write there"))
	case lib.SQLITE_READONLY:
		return refusesWrites(err, "flowd has to be permitted to write the file in dsn")
	case lib.SQLITE_FULL, lib.SQLITE_IOERR, lib.SQLITE_NOMEM:
		return held(err)
	case lib.SQLITE_AUTH, lib.SQLITE_PERM:
		return engine.WithClass(engine.Auth, err)
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return held(remedied(err, "restore the file"))
	case lib.SQLITE_ERROR:
		if text := e.Error(); strings.Contains(text, "no such table") || strings.Contains(text, "no such column") ||
			strings.Contains(text, "has no column named") {
			return missing(err)
		}
		return engine.WithClass(engine.Permanent, err)
	}
	return engine.WithClass(engine.Transient, err) // busy, locked, interrupted
}
