package redis

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Client is a server, the master that sentinels name, or a cluster. Connections are made when they are needed.
type Client struct {
	goredis.UniversalClient
	Watch *Watch // told how commands end; nil: nobody is

	timeout time.Duration
}

// quiet keeps the library from writing to stderr: what matters is an error of a command, too.
var quiet = sync.OnceFunc(logging.Disable)

const (
	buffer  = 64 << 10         // of a connection, each way
	idle    = 5 * time.Minute  // after which a connection is closed
	mostRun = 10 * time.Minute // of a command without a deadline of its own
)

// Client makes a client without any I/O but the reading of files. block is how long its commands may wait by
// themselves; conns is how many connections to a server it uses.
func (c *Connect) Client(block time.Duration, conns int) (*Client, error) {
	quiet()
	o := goredis.UniversalOptions{
		Protocol: 2, // the shapes of answers do not depend on the server's version
		Username: c.User, Password: c.Password.Reveal(), DB: c.DB,
		MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		DialTimeout: c.Timeout, WriteTimeout: c.Timeout, ReadTimeout: c.Timeout + block,
		PoolSize: conns, MaxActiveConns: conns, PipelinePoolSize: -1, PoolTimeout: c.Timeout + block,
		ReadBufferSize: buffer, WriteBufferSize: buffer, ConnMaxIdleTime: idle, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if c.TLS != nil {
		conf, err := c.TLS.Config()
		if err != nil {
			return nil, engine.WithClass(engine.Permanent, err)
		}
		o.TLSConfig = conf
	}
	o.Dialer = dialer(c.Timeout, int64(c.MaxReply), o.TLSConfig)
	switch {
	case c.Clustered():
		for _, a := range c.Cluster {
			o.Addrs = append(o.Addrs, withPort(a, "6379"))
		}
		return &Client{UniversalClient: goredis.NewClusterClient(o.Cluster()), timeout: c.Timeout}, nil
	case c.Sentinel != nil:
		for _, a := range c.Sentinel.Addresses {
			o.Addrs = append(o.Addrs, withPort(a, "26379"))
		}
		o.MasterName, o.SentinelUsername, o.SentinelPassword = c.Sentinel.Master, c.Sentinel.User,
			c.Sentinel.Password.Reveal()
		return &Client{UniversalClient: goredis.NewFailoverClient(o.Failover()), timeout: c.Timeout}, nil
	}
	return c.single(o)
}

// single is a client of one server.
func (c *Connect) single(o goredis.UniversalOptions) (*Client, error) {
	p, wrong := parse(c.URL.Reveal())
	if wrong.message != "" {
		return nil, engine.Errorf(engine.Permanent, "url %s (%s)", wrong.message, wrong.remedy)
	}
	o.Addrs, o.DB = []string{p.address}, p.db
	if c.User == "" && c.Password.IsZero() {
		o.Username, o.Password = p.user, p.password
	}
	s := o.Simple()
	s.Network = p.network
	if p.tls && s.TLSConfig == nil {
		conf, err := (&tlsconf.Client{}).Config()
		if err != nil {
			return nil, engine.WithClass(engine.Permanent, err)
		}
		s.TLSConfig = conf
	}
	s.Dialer = dialer(c.Timeout, int64(c.MaxReply), s.TLSConfig)
	return &Client{UniversalClient: goredis.NewClient(s), timeout: c.Timeout}, nil
}

// Within is ctx with the deadline of one answer.
func (c *Client) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.timeout)
}

// Cmd is a command whose key, if it has one, is at a place of args.
func Cmd(ctx context.Context, key int, args ...any) *goredis.Cmd {
	cmd := goredis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(int8(key))
	return cmd
}

// Ask carries out one command.
func (c *Client) Ask(ctx context.Context, key int, args ...any) (any, error) {
	ctx, cancel := c.Within(ctx)
	defer cancel()
	return c.Wait(ctx, key, args...)
}

// Wait carries out one command that may wait by itself.
func (c *Client) Wait(ctx context.Context, key int, args ...any) (any, error) {
	cmd := Cmd(ctx, key, args...)
	_ = c.Process(ctx, cmd)
	c.moved(ctx, cmd.Err())
	c.Watch.note(cmd.Err())
	return cmd.Result()
}

// moved has the client ask a cluster again where its slots are when a node can't be reached: a replica may have taken
// its place, and the library asks by itself only every ten seconds.
func (c *Client) moved(ctx context.Context, err error) {
	cluster, ok := c.UniversalClient.(*goredis.ClusterClient)
	if _, answered := errors.AsType[goredis.Error](err); ok && err != nil && !answered && ctx.Err() == nil {
		cluster.ReloadState(ctx)
	}
}

// Send carries out commands in one pipeline; each has its own error then.
func (c *Client) Send(ctx context.Context, cmds []*goredis.Cmd) {
	if len(cmds) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, mostRun)
	defer cancel()
	pipe := c.Pipeline()
	for _, cmd := range cmds {
		_ = pipe.Process(ctx, cmd)
	}
	_, err := pipe.Exec(ctx)
	c.moved(ctx, err)
	c.Watch.note(err)
	for _, cmd := range cmds {
		// The library does not note on commands that the login of a new connection was refused: they have no answer then,
		// which an answer of nothing is not.
		if cmd.Err() == nil && cmd.Val() == nil {
			cmd.SetErr(cmp.Or(err, errSilent))
		}
	}
}

var errSilent = errors.New("the command has no answer")

// Reach asks the server for anything, so that an error says what is wrong with addresses or credentials.
func (c *Client) Reach(ctx context.Context) error {
	ctx, cancel := c.Within(ctx)
	defer cancel()
	err := c.Ping(ctx).Err()
	c.Watch.note(err)
	return Explain(err, "reach the server")
}
