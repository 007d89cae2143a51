package postgrescdc

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/pgwire"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// settings determine how the server writes values as text, and turn off its timeouts.
var settings = map[string]string{
	"client_encoding": "UTF8", "DateStyle": "ISO", "TimeZone": "UTC", "IntervalStyle": "iso_8601",
	"extra_float_digits": "3", "bytea_output": "hex", "standard_conforming_strings": "on", "statement_timeout": "0",
	"lock_timeout": "0", "idle_in_transaction_session_timeout": "0",
}

// link is a connection, with the data that has arrived.
type link struct {
	*pgconn.PgConn
	arrived *bufio.Reader
	watch   *pgwire.Watch
}

// maxConns is the maximum number of open connections. Two are in use. The library may need up to 15 s to close one that the server
// has ended in the middle of an answer.
const maxConns = 8

// bufferSize is how much of the stream is read from the network at once.
const bufferSize = 64 << 10

// connect makes a connection. One for replication accepts replication commands and simple queries.
func (in *input) connect(ctx context.Context, replication bool) (*link, error) {
	conf, err := pgconn.ParseConfig(in.cfg.DSN.Reveal())
	if err != nil {
		return nil, engine.Errorf(engine.Permanent, "dsn: %w", err)
	}
	if err := in.secure(conf); err != nil {
		return nil, err
	}
	for name, value := range settings {
		conf.RuntimeParams[name] = value
	}
	conf.RuntimeParams["application_name"] = cmp.Or(conf.RuntimeParams["application_name"], "flowd "+in.name)
	if replication {
		conf.RuntimeParams["replication"] = "database"
		if conf.ValidateConnect != nil { // of target_session_attrs; its query does not work on a replication connection
			conf.ValidateConnect = refuseStandby
		}
	}
	conf.DialFunc = in.conns.Dial(conf.DialFunc)
	l := &link{}
	conf.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		l.watch = pgwire.New(in.cfg.MaxRow)
		r, w = l.watch.Frontend(r, w)
		l.arrived = bufio.NewReaderSize(r, bufferSize)
		return pgproto3.NewFrontend(l.arrived, w)
	}
	ctx, cancel := context.WithTimeout(ctx, in.cfg.Timeout)
	defer cancel()
	if l.PgConn, err = pgconn.ConnectConfig(ctx, conf); err != nil {
		return nil, explain(err, "connect")
	}
	l.watch.Opened()
	return l, nil
}

// refuseStandby returns an error if the server is a standby.
func refuseStandby(ctx context.Context, conn *pgconn.PgConn) error {
	rows, err := answer(ctx, conn, one, "SELECT pg_is_in_recovery()")
	if err == nil && rows[0][0] == "t" {
		err = errors.New("the server is a standby")
	}
	return err
}

// secure makes all connections use TLS if `tls` is set.
func (in *input) secure(conf *pgconn.Config) error {
	if in.cfg.TLS == nil {
		return nil
	}
	tls, err := in.cfg.TLS.Config()
	if err != nil {
		return engine.WithClass(engine.Permanent, err)
	}
	named := tls.ServerName
	secured := *tls.Clone()
	secured.ServerName = cmp.Or(named, conf.Host)
	conf.TLSConfig = &secured
	var others []*pgconn.FallbackConfig
	seen := map[string]bool{conf.Host + "/" + itoa(int(conf.Port)): true}
	for _, f := range conf.Fallbacks { // one for each further host, and for each host without encryption
		if at := f.Host + "/" + itoa(int(f.Port)); !seen[at] {
			seen[at] = true
			other := tls.Clone()
			other.ServerName = cmp.Or(named, f.Host)
			others = append(others, &pgconn.FallbackConfig{Host: f.Host, Port: f.Port, TLSConfig: other})
		}
	}
	conf.Fallbacks = others
	return nil
}

// shape is the minimum number of rows, and the number of columns, that an answer must have. The library does not check them.
type shape struct{ minRows, columns int }

var (
	any1, any2, any4, any6, any8 = shape{0, 1}, shape{0, 2}, shape{0, 4}, shape{0, 6}, shape{0, 8}
	one, one2, one3, one4        = shape{1, 1}, shape{1, 2}, shape{1, 3}, shape{1, 4}
)

// rows runs a query and returns its rows. A NULL is "".
func (in *input) rows(ctx context.Context, l *link, s shape, doing, sql string) (all [][]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, in.cfg.Timeout)
	defer cancel()
	all, err = answer(ctx, l.PgConn, s, sql)
	return all, explain(err, doing)
}

// answer runs a query, and checks the shape of the answer.
func answer(ctx context.Context, conn *pgconn.PgConn, s shape, sql string) ([][]string, error) {
	all, err := pgwire.Rows(ctx, conn, sql, s.columns)
	if err == nil && len(all) < s.minRows {
		err = errors.New("the server's response is empty")
	}
	return all, err
}

// query runs a query on the catalog connection, which is reopened when it is lost.
func (in *input) query(ctx context.Context, s shape, doing, sql string) ([][]string, error) {
	in.querying.Lock()
	defer in.querying.Unlock()
	if in.catalog == nil || in.catalog.IsClosed() {
		var err error
		if in.catalog, err = in.connect(ctx, false); err != nil {
			in.catalog = nil
			return nil, err
		}
	}
	return in.rows(ctx, in.catalog, s, doing, sql)
}

// ident returns a name as an SQL identifier.
func ident(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// literal returns a text as an SQL literal.
func literal(text string) string { return `'` + strings.ReplaceAll(text, `'`, `''`) + `'` }
