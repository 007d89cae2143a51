package postgrescdc

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/bounds"
	"github.com/jackc/pgx/v5/pgconn"
)

// rule is what an error of the server means.
type rule struct {
	class  engine.Class
	remedy string
}

// rules are the errors, by their codes, that need more than their own text; others may pass.
var rules = map[string]rule{
	"28P01": {engine.Auth, "check user and password in `dsn`"},
	"28000": {engine.Auth, "check user and database in `dsn`, and pg_hba.conf: replication of a database needs a line for that database"},
	"42501": {engine.Auth, "give the user the right: ALTER ROLE … REPLICATION, GRANT SELECT ON the tables, and for a publication that " +
		"flowd makes the tables' ownership"},
	"3D000": {engine.Permanent, "check the database in `dsn`"},
	"42P01": {engine.Permanent, "create the table, or correct its name in `tables`"},
	"42704": {engine.Permanent,
		"create what is missing; a slot can't read changes that are older than its publication: drop the slot, and start again"},
	"42710": {engine.Transient, "another process reads the snapshot of this slot, or the server has not noticed yet that one has ended"},
	"55006": {engine.Transient, "another process reads this slot, maybe another flowd: each needs its own; this one waits until it is free"},
	"55000": {engine.Permanent, "drop the slot with SELECT pg_drop_replication_slot, and start again: all rows are read again"},
	"58P01": {engine.Permanent, "the server has removed log that the slot needs: drop the slot, and start again"},
	"53400": {engine.Permanent,
		"raise max_replication_slots or max_wal_senders of the server, or drop slots that nobody reads: see pg_replication_slots"},
	"53300": {engine.Transient, "raise max_wal_senders or max_connections of the server, or end other connections"},
	"0A000": {engine.Permanent, "the server can't do this: see the guide postgres for what it needs"},
}

// explain gives an error its class, says what was being done, and what to do about it.
func explain(err error, doing string) error {
	if err == nil {
		return nil
	}
	if _, known := errors.AsType[*engine.Error](err); known {
		return err
	}
	const mostSaid = 4 << 10 // bytes that are shown
	if said, ok := errors.AsType[*pgconn.PgError](err); ok && len(said.Message) > mostSaid {
		said.Message = said.Message[:mostSaid] + "…"
	}
	class, remedy := judge(err)
	if remedy != "" {
		return engine.Errorf(class, "%s: %w (%s)", doing, err, remedy)
	}
	return engine.Errorf(class, "%s: %w", doing, err)
}

// cut says whether a connection ended before its time. A server that has no TLS is tried without it, and err is that of
// both.
func cut(err error) bool {
	return errors.As(err, new(*net.OpError)) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func judge(err error) (class engine.Class, remedy string) {
	if said, ok := errors.AsType[*pgconn.PgError](err); ok {
		if r, known := rules[said.Code]; known {
			return r.class, r.remedy
		}
		return engine.Transient, ""
	}
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var dial *net.OpError
	switch {
	case errors.Is(err, bounds.ErrTooLarge):
		return engine.Permanent, "raise `max_row`: nothing after this row can be settled without it"
	case errors.As(err, &unknown):
		return engine.Auth, "name the authority in `tls: {ca: FILE}`"
	case errors.As(err, &host):
		return engine.Auth, "use the name in the certificate, or set `tls: {server_name: …}`"
	case errors.As(err, &dial) && dial.Op == "dial":
		return engine.Transient, "check that the server runs, and its address in `dsn`"
	case strings.Contains(err.Error(), "server refused TLS") && !cut(err): // which has no type
		return engine.Permanent, "set ssl = on at the server, or remove `tls` and sslmode"
	case errors.Is(err, context.DeadlineExceeded):
		return engine.Transient, "the server does not answer in time"
	}
	return engine.Transient, ""
}
