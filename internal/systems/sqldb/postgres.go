package sqldb

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/bounds"
	"github.com/flowd-io/flowd/internal/systems/pgwire"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgproto3"
)

// pgPool is a PostgreSQL database. Values are transferred as text in both directions, without loss.
type pgPool struct {
	cfg   *pgconn.Config
	db    *Config
	slots chan struct{} // one for each connection in use

	mu     sync.Mutex // guards the fields below
	idle   []*pgConn
	epoch  int // increased by renew; connections of an earlier epoch are not used again
	closed bool
	types  map[uint32]pgType // of users, by OID
}

func openPostgres(c *Config) (DB, error) {
	cfg, err := pgconn.ParseConfig(c.DSN.Reveal())
	if err != nil {
		return nil, errors.New(strings.Join(strings.Fields(err.Error()), " "))
	}
	// A statement is cancelled over a second connection. In addition, some connections may still be closing, which takes up to 15 s if
	// the server does not answer.
	cfg.DialFunc = make(bounds.Few, 2*c.Connections+8).Dial(cfg.DialFunc)
	cfg.ConnectTimeout = c.ConnectTimeout
	cfg.BuildContextWatcherHandler = func(pg *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: pg, DeadlineDelay: canceling}
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "flowd"
	}
	if c.TLS != nil {
		if err := secure(cfg, c); err != nil {
			return nil, err
		}
	}
	cfg.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		_, err := pgwire.Run(ctx, conn, session)
		return err
	}
	return &pgPool{cfg: cfg, db: c, slots: make(chan struct{}, c.Connections), types: map[uint32]pgType{}}, nil
}

const (
	fresh     = time.Second            // a connection that was idle for longer is checked before it is used
	canceling = 500 * time.Millisecond // how long the server may take to cancel a statement; then the connection is closed
)

// session sets the formats in which the server writes values. The time zone of the dsn or the user's role has no effect, since times
// with a zone keep their meaning in UTC.
const session = "SET DateStyle = 'ISO, YMD'; SET IntervalStyle = iso_8601; SET bytea_output = hex; " +
	"SET extra_float_digits = 3; SET TimeZone = 'UTC'; SET client_encoding = 'UTF8'"

// secure makes all connections use TLS.
func secure(cfg *pgconn.Config, c *Config) error {
	conf, err := c.TLS.Config()
	if err != nil {
		return err
	}
	if conf.ServerName == "" {
		conf.ServerName = cfg.Host
	}
	cfg.TLSConfig = conf
	seen, others := []string{cfg.Host}, []*pgconn.FallbackConfig(nil)
	for _, f := range cfg.Fallbacks { // the second entry of a host is the fallback without TLS
		if slices.Contains(seen, f.Host) {
			continue
		}
		seen = append(seen, f.Host)
		own := conf.Clone()
		if c.TLS.ServerName == "" {
			own.ServerName = f.Host
		}
		f.TLSConfig = own
		others = append(others, f)
	}
	cfg.Fallbacks = others
	return nil
}

func (p *pgPool) Conn(ctx context.Context) (Conn, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for {
		p.mu.Lock()
		n := len(p.idle)
		if n == 0 {
			p.mu.Unlock()
			break
		}
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		if age := time.Since(c.used); age < fresh || age < idle && c.pg.Ping(ctx) == nil {
			return c, nil
		}
		c.discard()
	}
	p.mu.Lock()
	c := &pgConn{pool: p, epoch: p.epoch, statements: map[string]*pgStatement{}}
	p.mu.Unlock()
	cfg := p.cfg.Copy()
	cfg.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		c.watch = pgwire.New(p.db.MaxRow)
		return pgproto3.NewFrontend(c.watch.Frontend(r, w))
	}
	var err error
	c.pg, err = pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		<-p.slots
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, ctx.Err()
		}
		return nil, explain(err, true)
	}
	c.watch.Opened()
	return c, nil
}

func (p *pgPool) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.renew()
	return nil
}

// renew closes idle connections now, and connections in use when they are released. New connections may reach another server.
func (p *pgPool) renew() {
	p.mu.Lock()
	all := p.idle
	p.idle = nil
	p.epoch++
	p.mu.Unlock()
	for _, c := range all {
		c.discard()
	}
}

// pgConn is a connection.
type pgConn struct {
	pool       *pgPool
	epoch      int // of the pool, when the connection was made
	pg         *pgconn.PgConn
	watch      *pgwire.Watch
	statements map[string]*pgStatement // prepared statements, by their text
	used       time.Time               // when it was released last
	stale      bool                    // its prepared statements no longer work
}

// pgStatement is a prepared statement, with the types that its parameters and columns had when the server was asked.
type pgStatement struct {
	*pgconn.StatementDescription
	asked  time.Time
	worked bool // the last execution was successful
}

// closeTimeout is how long closing a connection may take.
const closeTimeout = time.Second

func (c *pgConn) discard() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = c.pg.Close(ctx)
}

func (c *pgConn) Release() {
	defer func() { <-c.pool.slots }()
	c.used = time.Now()
	c.pool.mu.Lock()
	keep := !c.pool.closed && c.epoch == c.pool.epoch && !c.stale && !c.pg.IsClosed() && !c.pg.IsBusy() && c.pg.TxStatus() == 'I'
	if keep {
		c.pool.idle = append(c.pool.idle, c)
	}
	c.pool.mu.Unlock()
	if !keep {
		c.discard()
	}
}

// mostPrepared limits the statements that a connection keeps prepared.
const mostPrepared = 100

// believed is how long flowd uses the types of parameters and columns before it asks for them again. A server does not
// report that a table was altered, and a value that was made for the old type may fit the new one with another meaning.
const believed = 10 * time.Second

// prepare returns a prepared statement with the types of its parameters and columns. It prepares the statement again if it was not
// prepared recently.
func (c *pgConn) prepare(ctx context.Context, query string) (*pgStatement, error) {
	s := c.statements[query]
	if s != nil && time.Since(s.asked) < believed {
		return s, nil
	}
	defer c.watch.Unread()()
	if s != nil {
		if err := c.forget(ctx, query); err != nil {
			return nil, err
		}
	}
	if len(c.statements) >= mostPrepared {
		if _, err := pgwire.Run(ctx, c.pg, "DEALLOCATE ALL"); err != nil {
			return nil, explain(err, false)
		}
		clear(c.statements)
	}
	d, err := c.pg.Prepare(ctx, statementName(query), query, nil)
	if err != nil {
		return nil, c.result(ctx, nil, err)
	}
	if d.ParamOIDs == nil { // the server has not described them; a statement without parameters has an empty slice
		return nil, errParameters
	}
	if err := c.pool.lookUpTypes(ctx, c.pg, d); err != nil {
		return nil, err
	}
	s = &pgStatement{StatementDescription: d, asked: time.Now()}
	c.statements[query] = s
	return s, nil
}

// forget closes a prepared statement, so that its next use prepares it again. It works in a failed transaction, too.
func (c *pgConn) forget(ctx context.Context, query string) error {
	delete(c.statements, query)
	return explain(c.pg.Deallocate(ctx, statementName(query)), false)
}

// checkTag returns the error of a statement. The client library itself does not notice if the server has not confirmed the statement.
func checkTag(tag pgconn.CommandTag, err error) error {
	if err == nil && tag.String() == "" {
		return engine.Errorf(engine.Transient, "the server has not confirmed that it has executed the statement")
	}
	return err
}

// errParameters is the error of a server whose description of flowd's own statements is not valid.
var errParameters = engine.Errorf(engine.Transient, "the server has not described the parameters of a statement")

// result classifies the error of a statement; s is nil if it was not prepared. A connection whose prepared statements no
// longer fit is not used again. If the server accepts no writes, all connections of the pool are closed.
func (c *pgConn) result(ctx context.Context, s *pgStatement, err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && (e.Code == "0A000" || e.Code == "26000") {
		c.stale = true
	}
	if err = explain(err, false); errors.Is(err, errReadOnly) {
		c.pool.renew()
	}
	if s == nil {
		return err
	}
	worked := s.worked
	if s.worked = err == nil; !worked || !BlamesStatement(err) {
		return err
	}
	return c.reprepare(ctx, s, err)
}

// reprepare prepares a statement again that has failed after it had worked, since its table may have been altered. If its parameters
// have other types now, the returned error is retryable. In a failed transaction, the statement is prepared at its next use.
func (c *pgConn) reprepare(ctx context.Context, s *pgStatement, err error) error {
	if c.forget(ctx, s.SQL) != nil || c.pg.TxStatus() != 'I' {
		return err
	}
	now, askErr := c.prepare(ctx, s.SQL)
	switch {
	case askErr != nil:
		return askErr
	case slices.Equal(now.ParamOIDs, s.ParamOIDs):
		return err
	}
	return engine.Errorf(engine.Transient, "the parameters of the statement have other types now: %w", err)
}

func (c *pgConn) Exec(ctx context.Context, query string, args []Value) (int64, error) {
	if len(args) == 0 {
		defer c.watch.Unread()()
		n, err := pgwire.Run(ctx, c.pg, query)
		return n, c.result(ctx, nil, err)
	}
	s, err := c.prepare(ctx, query)
	if err != nil {
		return 0, err
	}
	params, err := c.pool.encode(args, s.ParamOIDs)
	if err != nil {
		return 0, err
	}
	defer c.watch.Unread()()
	tag, err := c.pg.ExecPrepared(ctx, s.Name, params, nil, nil).Close()
	return tag.RowsAffected(), c.result(ctx, s, checkTag(tag, err))
}

// Insert prepares only the statement with one row. Otherwise, there would be a prepared statement for each number of rows.
func (c *pgConn) Insert(ctx context.Context, like, query string, args []Value) error {
	s, err := c.prepare(ctx, like)
	if err != nil {
		return err
	}
	if len(s.ParamOIDs) == 0 || len(args)%len(s.ParamOIDs) != 0 {
		return errParameters
	}
	oids := make([]uint32, len(args))
	for i := range oids {
		oids[i] = s.ParamOIDs[i%len(s.ParamOIDs)]
	}
	params, err := c.pool.encode(args, oids)
	if err != nil {
		return err
	}
	defer c.watch.Unread()()
	return c.result(ctx, s, checkTag(c.pg.ExecParams(ctx, query, params, oids, nil, nil).Close()))
}

// Types returns nil, since values are converted to the types that the server reports for parameters.
func (*pgConn) Types(context.Context, string, []string, bool) (Types, error) { return nil, nil }

// Check makes the server check the deferred constraints of the transaction. Rolling back to the savepoint defers them again.
func (c *pgConn) Check(ctx context.Context) error {
	_, err := c.Exec(ctx, "SAVEPOINT flowd_check; SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK TO SAVEPOINT flowd_check; "+
		"RELEASE SAVEPOINT flowd_check", nil)
	return err
}

// Listen subscribes to a channel.
func (c *pgConn) Listen(ctx context.Context, channel string) error {
	_, err := c.Exec(ctx, "LISTEN "+c.pool.db.Quote(channel), nil)
	return err
}

// Notified waits for a notification on a channel of Listen.
func (c *pgConn) Notified(ctx context.Context) error {
	err := c.pg.WaitForNotification(ctx)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return explain(err, false)
}
