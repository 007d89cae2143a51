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

// settings determine how values are written as text, and when the server ends statements that take long.
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

// mostConns is how many connections are open at once: two are needed, and the library takes up to 15 s for each that a
// server ends in the middle of an answer.
const mostConns = 8

// bufferSize is how much of the stream is read from the network at once.
const bufferSize = 64 << 10

// connect makes a connection; one for replication takes its commands, and simple queries.
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
		if conf.ValidateConnect != nil { // of target_session_attrs: it asks in a way that replication does not know
			conf.ValidateConnect = primary
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

// primary refuses a standby server.
func primary(ctx context.Context, conn *pgconn.PgConn) error {
	rows, err := answer(ctx, conn, one, "SELECT pg_is_in_recovery()")
	if err == nil && rows[0][0] == "t" {
		err = errors.New("the server is a standby")
	}
	return err
}

// secure makes all connections use TLS as `tls` says, if it is set.
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
	for _, f := range conf.Fallbacks { // several hosts, and each without encryption
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

// shape is what an answer must have: the library passes on whatever a server sends.
type shape struct{ least, columns int }

var (
	any1, any2, any4, any6, any8 = shape{0, 1}, shape{0, 2}, shape{0, 4}, shape{0, 6}, shape{0, 8}
	one, one2, one3, one4        = shape{1, 1}, shape{1, 2}, shape{1, 3}, shape{1, 4}
)

// rows are those of an answer; a NULL is "".
func (in *input) rows(ctx context.Context, l *link, s shape, doing, sql string) (all [][]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, in.cfg.Timeout)
	defer cancel()
	all, err = answer(ctx, l.PgConn, s, sql)
	return all, explain(err, doing)
}

// answer is what a connection answers, in its shape.
func answer(ctx context.Context, conn *pgconn.PgConn, s shape, sql string) ([][]string, error) {
	all, err := pgwire.Rows(ctx, conn, sql, s.columns)
	if err == nil && len(all) < s.least {
		err = errors.New("the server's answer is empty")
	}
	return all, err
}

// ask is rows from the connection for questions, which is made again when it is lost.
func (in *input) ask(ctx context.Context, s shape, doing, sql string) ([][]string, error) {
	in.asking.Lock()
	defer in.asking.Unlock()
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
