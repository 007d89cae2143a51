package redis

import (
	"cmp"
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
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

// Session is one opening of an input: a client for commands that are answered at once, and one for those that wait.
type Session struct {
	*Client
	Reader *Client

	ctx     context.Context //nolint:containedctx // of the fetch that runs beside Read
	end     context.CancelFunc
	fetched chan error // of the fetch under way; nil: there is none
}

// Session makes the clients, without any I/O but the reading of files.
func (c *Connect) Session(ctx context.Context) (*Session, error) {
	client, err := c.Client(0, 4)
	if err != nil {
		return nil, err
	}
	reader, err := c.Client(Block, 1)
	if err != nil {
		client.Close()
		return nil, err
	}
	s := &Session{Client: client, Reader: reader}
	s.ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	return s, nil
}

// Fetch waits for the fetch that is under way, or begins one. Redis can't be asked to give up a command that waits: so
// a fetch goes on when ctx ends, and the next Fetch waits for it. Only Read and Leave use it.
func (s *Session) Fetch(ctx context.Context, fetch func(ctx context.Context) error) error {
	if s.fetched == nil {
		done := make(chan error, 1)
		s.fetched = done
		go func() {
			var err error
			defer func() { done <- err }()
			defer engine.Recovered(&err)
			err = fetch(s.ctx)
		}()
	}
	select {
	case err := <-s.fetched:
		s.fetched = nil
		return err
	case <-ctx.Done():
		return nil
	}
}

// Leave ends the fetch that is under way. The client for commands that are answered at once stays open.
func (s *Session) Leave() {
	s.end()
	s.Reader.Close()
	if s.fetched != nil {
		<-s.fetched
		s.fetched = nil
	}
}

// Starting has Read report that the first opening of an input has failed. A server that can't be reached at the start
// is not a mistake in the configuration: flowd retries, as when it is lost later.
type Starting struct {
	opened bool
	failed error
}

// Opened is what Open returns, of how an opening has ended.
func (s *Starting) Opened(err error) error {
	first := !s.opened
	s.opened, s.failed = true, nil
	if first && Passes(err) {
		s.failed, err = err, nil
	}
	return err
}

// Passes says of an error that a server may be there later.
func Passes(err error) bool {
	if err == nil {
		return false
	}
	class := engine.ErrorOf(err, engine.Transient).Class
	return class == engine.Transient || class == engine.Timeout
}

// Failed is why there is nothing to read from, or nil.
func (s *Starting) Failed() error { return s.failed }
