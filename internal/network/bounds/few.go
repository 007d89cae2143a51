package bounds

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// Few bounds the connections that are open at the same time. It is for libraries that close a connection in the
// background while the server does not answer, and open the next one meanwhile.
type Few chan struct{}

// Dial wraps dial. A new connection waits for room until its context ends.
func (f Few) Dial(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(context.Context, string,
	string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		select {
		case f <- struct{}{}:
		case <-ctx.Done():
			return nil, fmt.Errorf("%d connections are open or being closed: %w", cap(f), ctx.Err())
		}
		c, err := dial(ctx, network, address)
		if err != nil {
			<-f
			return nil, err
		}
		return Raw(&counted{Conn: c, closed: sync.OnceFunc(func() { <-f })}, c), nil
	}
}

type counted struct {
	net.Conn
	closed func()
}

func (c *counted) Close() error {
	defer c.closed()
	return c.Conn.Close()
}
