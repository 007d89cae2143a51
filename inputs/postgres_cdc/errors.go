package postgrescdc

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/flowd-io/flowd/engine/cause"
	"github.com/flowd-io/flowd/internal/network/bounds"
	"github.com/jackc/pgx/v5/pgconn"
)

// causes are the errors of the server, by their SQLSTATEs, that need more than their own text.
var causes = cause.Table{Code: stateOf, Rows: []cause.Row{
	{Codes: []string{"28P01"}, Kind: cause.Credentials, Remedy: "check user and password in `dsn`"},
	{Codes: []string{"28000"}, Kind: cause.Credentials, Remedy: "check user and database in `dsn`, and pg_hba.conf: " +
		"replication of a database needs a line for that database"},
	{Codes: []string{"42501"}, Kind: cause.Credentials, Remedy: "give the user the permission: ALTER ROLE … REPLICATION, " +
		"GRANT SELECT ON the tables, and ownership of the tables if flowd is to create the publication"},
	{Codes: []string{"3D000"}, Kind: cause.Misconfigured, Remedy: "check the database in `dsn`"},
	{Codes: []string{"42P01"}, Kind: cause.Misconfigured, Remedy: "create the table, or correct its name in `tables`"},
	{Codes: []string{"42704"}, Kind: cause.Misconfigured, Remedy: "create what is missing; a slot can't read changes that " +
		"are older than its publication: drop the slot, and start again"},
	{Codes: []string{"42710"}, Kind: cause.Awaited, Remedy: "another process reads the snapshot of this slot, or the " +
		"server has not noticed yet that it has ended"},
	{Codes: []string{"55006"}, Kind: cause.Awaited, Remedy: "another process reads this slot, maybe another flowd: each " +
		"needs a slot of its own; this one waits until the slot is free"},
	{Codes: []string{"55000"}, Kind: cause.Misconfigured, Remedy: "drop the slot with SELECT pg_drop_replication_slot, and " +
		"start again: all rows are read again"},
	{Codes: []string{"58P01"}, Kind: cause.Misconfigured, Remedy: "the server has removed log that the slot needs: drop " +
		"the slot, and start again"},
	{Codes: []string{"53400"}, Kind: cause.Misconfigured, Remedy: "raise max_replication_slots or max_wal_senders of the " +
		"server, or drop slots that nobody reads: see pg_replication_slots"},
	{Codes: []string{"53300"}, Kind: cause.Awaited, Remedy: "raise max_wal_senders or max_connections of the server, or " +
		"end other connections"},
	{Codes: []string{"0A000"}, Kind: cause.Misconfigured, Remedy: "the server can't do this: see the guide postgres for " +
		"what it needs"},

	{Is: bounds.ErrTooLarge, Kind: cause.Misconfigured,
		Remedy: "raise `max_row`: nothing after this row can be settled without it"},
	{If: cause.Undialled, Kind: cause.Unreachable, Remedy: "check that the server runs, and its address in `dsn`"},
	{If: refusesTLS, Kind: cause.Misconfigured, Remedy: "set ssl = on at the server, or remove `tls` and sslmode"},
}}

// maxMessage is the number of bytes that are shown of an error message of the server.
const maxMessage = 4 << 10

// stateOf returns the SQLSTATE of an error, and a text that is not too long.
func stateOf(err error) (code, text string) {
	said, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return "", ""
	}
	if len(said.Message) > maxMessage {
		said.Message = said.Message[:maxMessage] + "…"
	}
	return said.Code, err.Error()
}

// refusesTLS reports whether the server has no TLS. The library also tries without TLS, and err covers both attempts.
func refusesTLS(err error) bool {
	answered := errors.As(err, new(*pgconn.PgError))
	return strings.Contains(err.Error(), "server refused TLS") && !lostConnection(err) && !answered // the error has no type
}

// lostConnection reports whether an error says that a connection was lost, or that the server said nothing in time.
func lostConnection(err error) bool {
	return errors.As(err, new(*net.OpError)) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded)
}

// explain gives an error its class, and adds what was being done and the remedy.
func explain(err error, doing string) error { return causes.Explain(err, doing) }
