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

// Block is how long an input waits for what is new, before it looks at what else is to do.
const Block = time.Second

// Consumer is the name by which Redis knows an instance of an input.
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

// Session is one connection of an input: a client for commands that are answered at once, and one for those that wait.
type Session struct {
	*Client
	Reader *Client

	fetch source.Call[struct{}]
}

// Session makes the clients, without any I/O but the reading of files.
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

// Fetch waits for the fetch that is under way, or begins one. Redis can't be asked to give up a command that waits, so a
// fetch goes on when ctx ends, and Fetch returns nil. Only Read and Leave use it.
func (s *Session) Fetch(ctx context.Context, fetch func(ctx context.Context) error) error {
	_, err := s.fetch.Wait(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, fetch(ctx) })
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Leave ends the fetch that is under way. The client for commands that are answered at once stays open.
func (s *Session) Leave() {
	s.Reader.Close()
	_, _ = s.fetch.Cancel()
}
