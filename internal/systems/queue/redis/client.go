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

// Client is a client of a server, of the master that sentinels report, or of a cluster. It connects when it is used.
type Client struct {
	goredis.UniversalClient
	Watch *Watch // records the results of commands; nil: nothing does

	timeout time.Duration // of an answer
}

// disableLog keeps the library from writing to stderr. What matters is also the error of a command.
var disableLog = sync.OnceFunc(logging.Disable)

const (
	buffer      = 64 << 10         // bytes, for each direction of a connection
	idleTimeout = 5 * time.Minute  // after which an unused connection is closed
	mostRun     = 10 * time.Minute // for commands without a deadline
)

// Client returns a client that connects when it is used. It reads files of the configuration, such as certificates. block is how
// long blocking commands may wait on the server, and conns the largest number of connections to a server.
func (c *Connect) Client(block time.Duration, conns int) (*Client, error) {
	disableLog()
	o := goredis.UniversalOptions{
		Protocol: 2, // so that the types of answers do not depend on the server's version
		Username: c.User, Password: c.Password.Reveal(), DB: c.DB,
		MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		DialTimeout: c.Timeout, WriteTimeout: c.Timeout, ReadTimeout: c.Timeout + block,
		PoolSize: conns, MaxActiveConns: conns, PipelinePoolSize: -1, PoolTimeout: c.Timeout + block,
		ReadBufferSize: buffer, WriteBufferSize: buffer, ConnMaxIdleTime: idleTimeout, DisableIdentity: true,
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

// single returns a client of one server.
func (c *Connect) single(o goredis.UniversalOptions) (*Client, error) {
	t, wrong := parse(c.URL.Reveal())
	if wrong.message != "" {
		return nil, engine.Errorf(engine.Permanent, "url %s (%s)", wrong.message, wrong.remedy)
	}
	o.Addrs, o.DB = []string{t.address}, t.db
	if c.User == "" && c.Password.IsZero() {
		o.Username, o.Password = t.user, t.password
	}
	s := o.Simple()
	s.Network = t.network
	if t.tls && s.TLSConfig == nil {
		conf, err := (&tlsconf.Client{}).Config()
		if err != nil {
			return nil, engine.WithClass(engine.Permanent, err)
		}
		s.TLSConfig = conf
	}
	s.Dialer = dialer(c.Timeout, int64(c.MaxReply), s.TLSConfig)
	return &Client{UniversalClient: goredis.NewClient(s), timeout: c.Timeout}, nil
}

// Within returns ctx with the timeout of one answer.
func (c *Client) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.timeout)
}

// Cmd returns a command. key is the index of its first key in args, from which the client of a cluster finds the slot.
func Cmd(ctx context.Context, key int, args ...any) *goredis.Cmd {
	cmd := goredis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(int8(key))
	return cmd
}

// Ask executes a command and returns its answer.
func (c *Client) Ask(ctx context.Context, key int, args ...any) (any, error) {
	ctx, cancel := c.Within(ctx)
	defer cancel()
	return c.Wait(ctx, key, args...)
}

// Wait is like Ask for a command that blocks on the server. The caller limits its time with ctx.
func (c *Client) Wait(ctx context.Context, key int, args ...any) (any, error) {
	cmd := Cmd(ctx, key, args...)
	_ = c.Process(ctx, cmd)
	c.reloadSlots(ctx, cmd.Err())
	c.Watch.record(cmd.Err())
	return cmd.Result()
}

// reloadSlots makes the client of a cluster load the assignment of slots if err says that a node is unreachable. A replica may have
// become the master, and the library would load the assignment only every ten seconds.
func (c *Client) reloadSlots(ctx context.Context, err error) {
	cluster, ok := c.UniversalClient.(*goredis.ClusterClient)
	if _, answered := errors.AsType[goredis.Error](err); ok && err != nil && !answered && ctx.Err() == nil {
		cluster.ReloadState(ctx)
	}
}

// Send executes commands in one pipeline. Each command then has its own answer or error.
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
	c.reloadSlots(ctx, err)
	c.Watch.record(err)
	for _, cmd := range cmds {
		// If the login of a new connection is refused, the library sets no error on the commands. They have no answer then. A nil
		// answer of the server would be the error Nil.
		if cmd.Err() == nil && cmd.Val() == nil {
			cmd.SetErr(cmp.Or(err, errSilent))
		}
	}
}

var errSilent = errors.New("the command has no answer")

// Reach makes a request, so that wrong addresses or credentials are an error at once.
func (c *Client) Reach(ctx context.Context) error {
	ctx, cancel := c.Within(ctx)
	defer cancel()
	err := c.Ping(ctx).Err()
	c.Watch.record(err)
	return Explain(err, "reach the server")
}
