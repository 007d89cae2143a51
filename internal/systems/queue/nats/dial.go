package nats

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/cause"
	"github.com/flowd-io/flowd/internal/systems/nats"
	"github.com/flowd-io/flowd/internal/systems/nats/embed"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Conn is a connection that is made again when it is lost, for ever. What is sent meanwhile
// fails: see [Conn.Down].
type Conn struct {
	*client.Conn
	JS      jetstream.JetStream
	Address string // HOST:PORT: logs would mask a whole URL, as it may have a password in it
	Timeout time.Duration

	log     *slog.Logger
	server  *embed.Server // in this process; nil: there is none
	release func()        // gives up the server

	mu       sync.Mutex // guards the fields below
	changed  sync.Cond  // heard has
	down     error      // nil: it is connected
	since    time.Time  // when it was lost
	heard    error      // the last error that the server has sent
	denied   map[string]time.Time
	watch    []watcher
	requests map[int]context.CancelCauseFunc // under way, by number
	serial   int                             // of requests
}

// watcher is told of what happens to a connection. Its functions must not wait.
type watcher struct {
	lost   func(err error)                 // and connects again
	denied func(subject string, err error) // publishing to the subject
}

// Watch has functions called when the connection is lost, and when the server refuses a
// message because of its subject.
func (c *Conn) Watch(lost func(err error), denied func(subject string, err error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch = append(c.watch, watcher{lost, denied})
}

const (
	ping       = 10 * time.Second // between questions whether the server is still there
	firstWait  = 100 * time.Millisecond
	mostWait   = 5 * time.Second
	mostDenied = 1000 // subjects that are remembered
)

// Dial connects. owner names the component to the server, and the process to others that want
// the folder of a server in this one.
func (c *Connect) Dial(ctx context.Context, log *slog.Logger, owner string) (*Conn, error) {
	to := nats.Target{User: c.User, Password: c.Password.Reveal(), Token: c.Token.Reveal(), NKey: c.NKey,
		Credentials: c.Credentials}
	conn := &Conn{log: log, Timeout: c.Timeout, denied: map[string]time.Time{},
		requests: map[int]context.CancelCauseFunc{}}
	conn.changed.L = &conn.mu
	options := conn.options(cmp.Or(c.Name, owner))
	if e := c.Embedded.Server; e != nil {
		srv, release, err := embed.Use(embed.Config{Dir: e.Store, Listen: e.Listen, Token: e.Token.Reveal(), Sync: e.Sync},
			owner)
		if err != nil {
			return nil, engine.Errorf(engine.Transient, "start the server of this process: %w", err)
		}
		conn.server, conn.release, to.URL = srv, release, "nats://127.0.0.1"
		conn.Address = "the server of this process"
		options = append(options, client.InProcessServer(srv))
	} else {
		var urls, hosts []string
		for _, u := range c.URL {
			urls = append(urls, u.Reveal())
			if at, err := url.Parse(u.Reveal()); err == nil {
				hosts = append(hosts, at.Host)
			}
		}
		to.URL, conn.Address = strings.Join(urls, ","), strings.Join(hosts, ",")
	}
	if c.TLS != nil {
		var err error
		if to.TLS, err = c.TLS.Config(); err != nil {
			return nil, engine.WithClass(engine.Permanent, err)
		}
	}
	if err := conn.connect(ctx, &to, options); err != nil {
		conn.leave()
		return nil, err
	}
	return conn, nil
}

// connect makes the first connection. One that takes longer than ctx is closed when it is made.
func (c *Conn) connect(ctx context.Context, to *nats.Target, options []client.Option) error {
	type answer struct {
		nc  *client.Conn
		err error
	}
	made := make(chan answer, 1)
	go func() {
		var a answer
		defer func() { made <- a }()
		defer engine.Recovered(&a.err)
		a.nc, a.err = to.Connect(options...)
	}()
	select {
	case a := <-made:
		if a.err != nil {
			return Explain(a.err, "connect to "+c.Address)
		}
		c.Conn = a.nc
	case <-ctx.Done():
		go func() {
			if a := <-made; a.nc != nil {
				a.nc.Close()
			}
		}()
		return Explain(ctx.Err(), "connect to "+c.Address)
	}
	var err error
	if c.JS, err = jetstream.New(c.Conn); err != nil {
		c.Conn.Close()
	}
	return err
}

func (c *Conn) options(name string) []client.Option {
	wait := func(attempts int) time.Duration { return min(firstWait<<min(attempts, 10), mostWait) }
	return []client.Option{client.Name(name), client.Timeout(c.Timeout), client.MaxReconnects(-1),
		client.ReconnectBufSize(-1), client.IgnoreAuthErrorAbort(), client.PingInterval(ping), client.MaxPingsOutstanding(2),
		client.CustomReconnectDelay(func(attempts int) time.Duration { return jittered(wait(attempts)) }),
		client.DisconnectErrHandler(func(nc *client.Conn, err error) { c.lost(nc, err) }),
		client.ReconnectErrHandler(func(nc *client.Conn, err error) { c.lost(nc, err) }),
		client.ReconnectHandler(func(*client.Conn) { c.found() }),
		client.ErrorHandler(func(nc *client.Conn, _ *client.Subscription, err error) { c.says(nc, err) }),
	}
}

// Close ends the connection, and with the last one the server of this process.
func (c *Conn) Close() {
	if c.Conn != nil {
		c.Conn.Close()
	}
	c.leave()
}

func (c *Conn) leave() {
	if c.release != nil {
		c.release()
	}
}

// lost notes why there is no connection.
func (c *Conn) lost(nc *client.Conn, err error) {
	if nc.IsClosed() {
		return
	}
	if err == nil {
		err = errors.New("the server has closed the connection")
	}
	err = cause.Held(Explain(err, "connect to "+c.Address))
	c.mu.Lock()
	first := c.down == nil
	news := first || c.down.Error() != err.Error()
	if c.down = err; first {
		c.since = time.Now()
		c.giveUp(err)
	}
	watch := c.watch
	c.mu.Unlock()
	if news {
		c.log.Warn("the connection is lost, and made again", "err", err)
	}
	if first {
		for _, w := range watch {
			w.lost(err)
		}
	}
}

func (c *Conn) found() {
	c.mu.Lock()
	c.down, c.since = nil, time.Time{}
	c.mu.Unlock()
	c.log.Info("connected again", "to", c.Address)
}

// Ask sends a message and waits for an answer.
func (c *Conn) Ask(ctx context.Context, subject string, data []byte) error {
	return c.request(ctx, func(ctx context.Context) error {
		_, err := c.RequestWithContext(ctx, subject, data)
		return err
	})
}

// API asks something of JetStream.
func (c *Conn) API(ctx context.Context, doing string, do func(ctx context.Context) error) error {
	return Explain(c.request(ctx, do), doing)
}

// request makes a request. It is given up when time is up, when the connection is lost, and when the server refuses
// something that was sent to JetStream: to that it gives no other answer.
func (c *Conn) request(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	c.mu.Lock()
	if c.down != nil {
		defer c.mu.Unlock()
		return c.down
	}
	c.serial++
	id := c.serial
	c.requests[id] = giveUp
	c.mu.Unlock()
	err := do(ctx)
	c.mu.Lock()
	delete(c.requests, id)
	c.mu.Unlock()
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// giveUp ends all requests. c.mu is held.
func (c *Conn) giveUp(why error) {
	for _, end := range c.requests {
		end(why)
	}
}

// Down is why there is no connection now, or nil.
func (c *Conn) Down() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.down
}

// Trouble reports that there is no connection; nil: there is one.
func (c *Conn) Trouble(impact string) *engine.Trouble {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down == nil {
		return nil
	}
	return &engine.Trouble{Indicator: "nats_unreachable", Impact: impact, Cause: c.down.Error(),
		Action: "check that the server runs, its address, and the credentials", Since: c.since}
}

// says takes what the server says of what it was sent.
func (c *Conn) says(nc *client.Conn, err error) {
	if refused(err) { // it closes the connection, or does not let this one in
		c.lost(nc, err)
	}
	c.mu.Lock()
	c.heard = err
	subject, denied := deniedSubject(err)
	if denied {
		if len(c.denied) >= mostDenied {
			clear(c.denied)
		}
		if c.denied[subject] = time.Now(); strings.HasPrefix(subject, "$JS.") {
			c.giveUp(err)
		}
	}
	watch := c.watch
	c.changed.Broadcast()
	c.mu.Unlock()
	if !denied {
		c.log.Debug("the server says", "err", err)
		return
	}
	for _, w := range watch {
		w.denied(subject, err)
	}
}

// refused says that a server takes the credentials no more.
func refused(err error) bool {
	for _, e := range []error{client.ErrAuthorization, client.ErrAuthExpired, client.ErrAuthRevoked,
		client.ErrAccountAuthExpired} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// deniedSubject is the subject to which the server does not let this user publish.
func deniedSubject(err error) (subject string, ok bool) {
	if !errors.Is(err, client.ErrPermissionViolation) {
		return "", false
	}
	_, rest, ok := strings.Cut(err.Error(), `Publish to "`)
	if !ok {
		return "", false
	}
	subject, _, ok = strings.Cut(rest, `"`)
	return subject, ok
}

// Denied says of which subjects the server has refused a message since a time. It is
// asked after a flush: what the server has said before the answer to that has arrived.
func (c *Conn) Denied(ctx context.Context, since time.Time) func(subject string) bool {
	last := c.LastError()
	defer context.AfterFunc(ctx, func() { c.changed.Broadcast() })()
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(last, client.ErrPermissionViolation) {
		for c.heard != last && ctx.Err() == nil && !errors.Is(c.heard, last) {
			c.changed.Wait()
		}
	}
	all := map[string]bool{}
	for subject, at := range c.denied {
		if !at.Before(since) {
			all[subject] = true
		}
	}
	return func(subject string) bool { return all[subject] }
}

// DeniedSubscription says that an error is that this user may not subscribe.
func DeniedSubscription(err error) bool {
	return errors.Is(err, client.ErrPermissionViolation) && strings.Contains(err.Error(), "Subscription to")
}

// Unsubscribe ends a subscription, and waits until its function has had what was on its way.
func (c *Conn) Unsubscribe(ctx context.Context, sub *client.Subscription) {
	if c.Down() != nil || sub.Drain() != nil {
		_ = sub.Unsubscribe()
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	done := make(chan struct{})
	if c.FlushWithContext(ctx) != nil || c.Barrier(func() { close(done) }) != nil {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}
