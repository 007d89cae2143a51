package redis

import (
	"cmp"
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/source"
)

// Block is how long an input waits for new messages before it looks for other work.
const Block = time.Second

// Consumer returns the consumer name of an instance of an input. name is the configured name, or "".
func Consumer(name string, env engine.Env) string {
	if name == "" {
		host, _ := os.Hostname()
		name = strings.Trim(cmp.Or(host, "flowd")+"."+env.Pipeline+"."+env.Name, ".")
	}
	if env.Instances > 1 {
		name += "-" + strconv.Itoa(env.Index)
	}
	return name
}

// Session has the clients of an input: one for commands that are answered at once, and Reader for blocking commands.
type Session struct {
	*Client
	Reader *Client

	fetch source.Call[struct{}]
}

// Session returns the clients of an input. They connect when they are used.
func (c *Connect) Session() (*Session, error) {
	client, err := c.Client(0, 4)
	if err != nil {
		return nil, err
	}
	reader, err := c.Client(Block, 1)
	if err != nil {
		client.Close()
		return nil, err
	}
	return &Session{Client: client, Reader: reader}, nil
}

// Fetch starts a fetch unless one is running, and waits until it has ended. A blocking command can't be cancelled. So if ctx ends, the
// fetch continues, and Fetch returns nil. It must not be called concurrently.
func (s *Session) Fetch(ctx context.Context, fetch func(ctx context.Context) error) error {
	_, err := s.fetch.Wait(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, fetch(ctx) })
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Leave closes Reader and ends a running fetch. The client for other commands stays open.
func (s *Session) Leave() {
	s.Reader.Close()
	_, _ = s.fetch.Cancel()
}
