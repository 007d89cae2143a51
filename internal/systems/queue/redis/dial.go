package redis

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/internal/network/bounds"
	goredis "github.com/redis/go-redis/v9"
)

// dialer returns a function that connects like the library, and limits replies to most bytes. If a connection ends before the server
// has answered anything, the error says that the connection could not be made: the library begins with a HELLO, and sends no command
// before its answer.
func dialer(timeout time.Duration, most int64, conf *tls.Config) func(ctx context.Context, network,
	address string) (net.Conn, error) {
	dial := goredis.NewDialer(&goredis.Options{DialTimeout: timeout, TLSConfig: conf})
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		inner, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return bounds.Raw(&conn{Conn: bounds.Conn(inner, newReplies(most))}, inner), nil
	}
}

// conn is a connection of [dialer].
type conn struct {
	net.Conn
	answered atomic.Bool // something was read
}

// Read implements [net.Conn].
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.answered.Load() {
		c.answered.Store(true)
	}
	if err != nil && !c.answered.Load() { // wrapped twice, because the library unwraps the error once
		err = fmt.Errorf("no answer: %w", &net.OpError{Op: "dial", Net: "tcp", Addr: c.RemoteAddr(), Err: err})
	}
	return n, err
}
