package sqldb

import (
	"context"
	"database/sql/driver"
	"fmt"
	"net"
	"reflect"
	"sync"
	"time"

	"github.com/flowd-io/flowd/internal/network/bounds"
	"github.com/flowd-io/flowd/schema"
	"github.com/go-sql-driver/mysql"
)

// myConnector makes connections over which a hostile server can't crash the process: [myCheck] checks what the server sends, and if
// the driver panics nevertheless, only the connection is lost.
type myConnector struct {
	driver.Connector
	row schema.Size

	mu      sync.Mutex    // guards the fields below
	wait    time.Duration // before the next attempt to connect
	until   time.Time     // when the next attempt may be made
	lastErr error         // of the last attempt
}

// The driver leaks a goroutine if it panics while it connects. Without TLS, the check prevents such panics. With TLS, it can't see the
// login, so attempts are delayed after a panic.
const (
	firstWait = time.Second
	mostWait  = 5 * time.Minute
)

// myDialed has the connection that the driver has dialed. It is the value of a context.
type myDialed struct {
	conn  net.Conn
	check *myCheck
}

type myDialedKey struct{}

func newMyConnector(cfg *mysql.Config, row schema.Size) (driver.Connector, error) {
	dial := cfg.DialFunc
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		d := ctx.Value(myDialedKey{}).(*myDialed)
		d.conn = d.check.wrap(raw)
		return d.conn, nil
	}
	c, err := mysql.NewConnector(cfg)
	return &myConnector{Connector: c, row: row}, err
}

// myPlain has the interfaces of the driver's connections.
type myPlain interface {
	driver.Conn
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

func (c *myConnector) Connect(ctx context.Context) (driver.Conn, error) {
	c.mu.Lock()
	wait, lastErr := time.Until(c.until), c.lastErr
	c.mu.Unlock()
	if wait > 0 {
		return nil, fmt.Errorf("%w (the next attempt is in %v)", lastErr, wait.Round(time.Second))
	}
	d := &myDialed{check: newMyCheck(c.row)}
	var plain driver.Conn
	err := d.check.do(func() (err error) {
		plain, err = c.Connector.Connect(context.WithValue(ctx, myDialedKey{}, d))
		return err
	})
	c.mu.Lock()
	c.wait, c.lastErr = min(max(2*c.wait, firstWait), mostWait), err
	if !d.check.panicked {
		c.wait = 0
	}
	c.until = time.Now().Add(c.wait)
	c.mu.Unlock()
	if err != nil {
		if d.conn != nil {
			_ = d.conn.Close() // if the driver has panicked, it has not closed it
		}
		return nil, err
	}
	conn := &myConn{plain.(myPlain), d}
	if !conn.IsValid() {
		_ = conn.Close()
		return nil, driver.ErrBadConn // the server has sent more than the answers to the login
	}
	d.check.opened()
	if d.check.encrypted {
		// The driver has no option to wrap the connection inside TLS, but it has the connection in a field.
		inside := reflect.ValueOf(plain).Elem().FieldByName("netConn")
		field := (*net.Conn)(inside.Addr().UnsafePointer())
		d.check = d.check.insideTLS()
		*field = d.check.wrap(*field)
	}
	return conn, nil
}

// do makes a call of the driver, and recovers from a panic. If the check has failed, do returns its error, since the driver returns
// another one.
func (m *myCheck) do(call func() error) error {
	err := func() (err error) {
		defer bounds.Recover(&err)
		finished := false
		defer func() {
			if !finished {
				m.panicked = true
			}
		}()
		err = call()
		finished = true
		return err
	}()
	if err != nil && m.wrong != nil {
		return m.wrong
	}
	return err
}

// myConn is a connection of the driver with a check.
type myConn struct {
	myPlain
	*myDialed
}

// do is like [myCheck.do]. After a panic, it closes the connection.
func (c *myConn) do(call func() error) error {
	err := c.check.do(call)
	if c.check.panicked {
		_ = c.Close()
	}
	return err
}

func (c *myConn) IsValid() bool { return !c.check.panicked && c.myPlain.IsValid() }

// Close closes the connection. It ignores errors, since the connection may already be lost.
func (c *myConn) Close() error {
	_ = c.check.do(c.myPlain.Close)
	return nil
}

func (c *myConn) Ping(ctx context.Context) error {
	return c.do(func() error { return c.myPlain.Ping(ctx) })
}

func (c *myConn) ResetSession(ctx context.Context) error {
	return c.do(func() error { return c.myPlain.ResetSession(ctx) })
}

func (c *myConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (res driver.Result, err error) {
	c.check.unread()
	defer func() { c.check.budget = -1 }()
	err = c.do(func() (err error) {
		res, err = c.myPlain.ExecContext(ctx, query, args)
		return err
	})
	return res, err
}

func (c *myConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	var rows driver.Rows
	err := c.do(func() (err error) {
		rows, err = c.myPlain.QueryContext(ctx, query, args)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &myRows{myPlainRows: rows.(myPlainRows), conn: c}, nil
}

func (c *myConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	var stmt driver.Stmt
	err := c.do(func() (err error) {
		stmt, err = c.myPlain.PrepareContext(ctx, query)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &myStmt{stmt.(myPlainStmt), c}, nil
}

// myPlainStmt has the interfaces of the driver's statements.
type myPlainStmt interface {
	driver.Stmt
	driver.NamedValueChecker
	driver.StmtExecContext
	driver.StmtQueryContext
}

// myStmt is a prepared statement.
type myStmt struct {
	myPlainStmt
	conn *myConn
}

func (s *myStmt) Close() error { return s.conn.do(s.myPlainStmt.Close) }

func (s *myStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (res driver.Result, err error) {
	s.conn.check.unread()
	defer func() { s.conn.check.budget = -1 }()
	err = s.conn.do(func() (err error) {
		res, err = s.myPlainStmt.ExecContext(ctx, args)
		return err
	})
	return res, err
}

func (s *myStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	var rows driver.Rows
	err := s.conn.do(func() (err error) {
		rows, err = s.myPlainStmt.QueryContext(ctx, args)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &myRows{myPlainRows: rows.(myPlainRows), conn: s.conn}, nil
}

// myPlainRows has the interfaces of the driver's rows.
type myPlainRows interface {
	driver.RowsColumnTypeDatabaseTypeName
	driver.RowsColumnTypeNullable
	driver.RowsColumnTypePrecisionScale
	driver.RowsColumnTypeScanType
	driver.RowsNextResultSet
}

// myRows are the rows of an answer.
type myRows struct {
	myPlainRows
	conn  *myConn
	ended bool
}

func (r *myRows) Next(dest []driver.Value) error {
	err := r.conn.do(func() error { return r.myPlainRows.Next(dest) })
	r.ended = err != nil
	return err
}

func (r *myRows) NextResultSet() error {
	r.ended = false
	return r.conn.do(r.myPlainRows.NextResultSet)
}

// Close closes the connection if many rows are left. Otherwise, the driver would read all of them.
func (r *myRows) Close() error {
	row := make([]driver.Value, len(r.Columns()))
	for n := 0; !r.ended && n < mostUnread; n++ {
		_ = r.Next(row)
	}
	if !r.ended || r.conn.check.panicked {
		_ = r.conn.conn.Close()
	}
	return r.conn.do(r.myPlainRows.Close)
}
