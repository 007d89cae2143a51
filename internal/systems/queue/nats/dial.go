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

// Conn is a connection that the client library makes again whenever it is lost. Messages that are sent meanwhile fail: see
// [Conn.Down]. Its methods may be called from any goroutine.
type Conn struct {
	*client.Conn
	JS      jetstream.JetStream
	Address string // HOST:PORT; logs would mask a whole URL, since it may contain a password
	Timeout time.Duration

	log     *slog.Logger
	server  *embed.Server // the server in this process; nil: there is none
	release func()        // releases the server

	mu       sync.Mutex           // guards the fields below
	changed  sync.Cond            // lastErr has changed
	down     error                // why the connection is lost; nil: it is not
	since    time.Time            // when it was lost
	lastErr  error                // the last error that the server has sent
	denied   map[string]time.Time // when the server has last refused a message, by subject
	watch    []watcher
	requests map[int]context.CancelCauseFunc // requests without an answer, by number
	serial   int                             // number of the last request
}

// watcher has the functions of [Conn.Watch].
type watcher struct {
	lost   func(err error)
	denied func(subject string, err error)
}

// Watch adds functions that are called when the connection is lost, and when the server refuses a message because of its subject.
// They must not wait.
func (c *Conn) Watch(lost func(err error), denied func(subject string, err error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch = append(c.watch, watcher{lost, denied})
}

const (
	ping       = 10 * time.Second       // interval of pings
	firstWait  = 100 * time.Millisecond // before the first attempt to connect again
	mostWait   = 5 * time.Second        // between attempts to connect again
	mostDenied = 1000                   // refused subjects that are remembered
)

// Dial connects to a server. owner is the name of the connection unless c has one. If the server runs in this process, owner also
// describes this process to others that try to use the folder.
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
			return nil, engine.Errorf(engine.Transient, "start the NATS server of this process: %w", err)
		}
		conn.server, conn.release, to.URL = srv, release, "nats://127.0.0.1"
		conn.Address = "the NATS server of this process"
		options = append(options, client.InProcessServer(srv))
	} else {
		var urls, hosts []string
		for _, u := range c.URL {
			urls = append(urls, u.Reveal())
			if parsed, err := url.Parse(u.Reveal()); err == nil {
				hosts = append(hosts, parsed.Host)
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
		conn.releaseServer()
		return nil, err
	}
	return conn, nil
}

// connect makes the first connection. If ctx ends first, the connection is closed as soon as it is made.
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
		client.DisconnectErrHandler(func(nc *client.Conn, err error) { c.onLost(nc, err) }),
		client.ReconnectErrHandler(func(nc *client.Conn, err error) { c.onLost(nc, err) }),
		client.ReconnectHandler(func(*client.Conn) { c.onReconnect() }),
		client.ErrorHandler(func(nc *client.Conn, _ *client.Subscription, err error) { c.onError(nc, err) }),
	}
}

// Close closes the connection. The last connection stops the server of this process.
func (c *Conn) Close() {
	if c.Conn != nil {
		c.Conn.Close()
	}
	c.releaseServer()
}

func (c *Conn) releaseServer() {
	if c.release != nil {
		c.release()
	}
}

// onLost records why there is no connection.
func (c *Conn) onLost(nc *client.Conn, err error) {
	if nc.IsClosed() {
		return
	}
	if err == nil {
		err = errors.New("the server has closed the connection")
	}
	err = cause.Held(Explain(err, "connect to "+c.Address))
	c.mu.Lock()
	first := c.down == nil
	changed := first || c.down.Error() != err.Error()
	if c.down = err; first {
		c.since = time.Now()
		c.cancelRequests(err)
	}
	watch := c.watch
	c.mu.Unlock()
	if changed {
		c.log.Warn("connection lost, connecting again", "err", err)
	}
	if first {
		for _, w := range watch {
			w.lost(err)
		}
	}
}

func (c *Conn) onReconnect() {
	c.mu.Lock()
	c.down, c.since = nil, time.Time{}
	c.mu.Unlock()
	c.log.Info("connected again", "to", c.Address)
}

// Ask sends a message and waits for its answer.
func (c *Conn) Ask(ctx context.Context, subject string, data []byte) error {
	return c.request(ctx, func(ctx context.Context) error {
		_, err := c.RequestWithContext(ctx, subject, data)
		return err
	})
}

// API makes a request to JetStream. doing is part of the error.
func (c *Conn) API(ctx context.Context, doing string, call func(ctx context.Context) error) error {
	return Explain(c.request(ctx, call), doing)
}

// request makes a request. It is cancelled after the timeout, when the connection is lost, and when the server refuses any message
// to JetStream, since a refused request gets no other answer.
func (c *Conn) request(ctx context.Context, call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	ctx, cancelCause := context.WithCancelCause(ctx)
	defer cancelCause(nil)
	c.mu.Lock()
	if c.down != nil {
		defer c.mu.Unlock()
		return c.down
	}
	c.serial++
	id := c.serial
	c.requests[id] = cancelCause
	c.mu.Unlock()
	err := call(ctx)
	c.mu.Lock()
	delete(c.requests, id)
	c.mu.Unlock()
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// cancelRequests cancels all requests. c.mu must be held.
func (c *Conn) cancelRequests(why error) {
	for _, cancel := range c.requests {
		cancel(why)
	}
}

// Down returns why there is no connection at present, or nil.
func (c *Conn) Down() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.down
}

// Trouble returns the trouble that there is no connection, or nil.
func (c *Conn) Trouble(impact string) *engine.Trouble {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down == nil {
		return nil
	}
	return &engine.Trouble{Indicator: "nats_unreachable", Impact: impact, Cause: c.down.Error(),
		Action: "check that the server runs, its address, and the credentials", Since: c.since}
}

// onError handles an error that the server has sent.
func (c *Conn) onError(nc *client.Conn, err error) {
	if isLoginRefused(err) { // the server closes the connection, or has refused a new one
		c.onLost(nc, err)
	}
	c.mu.Lock()
	c.lastErr = err
	subject, denied := deniedSubject(err)
	if denied {
		if len(c.denied) >= mostDenied {
			clear(c.denied)
		}
		if c.denied[subject] = time.Now(); strings.HasPrefix(subject, "$JS.") {
			c.cancelRequests(err)
		}
	}
	watch := c.watch
	c.changed.Broadcast()
	c.mu.Unlock()
	if !denied {
		c.log.Debug("error from the server", "err", err)
		return
	}
	for _, w := range watch {
		w.denied(subject, err)
	}
}

// isLoginRefused reports whether a server refuses the credentials.
func isLoginRefused(err error) bool {
	for _, e := range []error{client.ErrAuthorization, client.ErrAuthExpired, client.ErrAuthRevoked,
		client.ErrAccountAuthExpired} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// deniedSubject returns the subject to which the user must not publish, according to an error.
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

// Denied returns a function that reports whether the server has refused a message to a subject since a time. The caller must have
// flushed the connection, so that the errors of earlier messages have arrived. Denied waits until the library has reported them.
func (c *Conn) Denied(ctx context.Context, since time.Time) func(subject string) bool {
	last := c.LastError()
	defer context.AfterFunc(ctx, func() { c.changed.Broadcast() })()
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(last, client.ErrPermissionViolation) {
		for c.lastErr != last && ctx.Err() == nil && !errors.Is(c.lastErr, last) {
			c.changed.Wait()
		}
	}
	all := map[string]bool{}
	for subject, t := range c.denied {
		if !t.Before(since) {
			all[subject] = true
		}
	}
	return func(subject string) bool { return all[subject] }
}

// DeniedSubscription reports whether an error says that the user must not subscribe.
func DeniedSubscription(err error) bool {
	return errors.Is(err, client.ErrPermissionViolation) && strings.Contains(err.Error(), "Subscription to")
}

// Unsubscribe ends a subscription, and waits until its handler has got all messages that were on their way.
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
