package amqp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/cause"
	"github.com/flowd-io/flowd/internal/network/bounds"
	amqp091 "github.com/rabbitmq/amqp091-go"
)

// dialTimeout bounds the time until a connection to one URL is ready to use.
const dialTimeout = 10 * time.Second

// Dialer makes connections, each to the first URL that works. It is not safe for concurrent use.
type Dialer struct {
	cfg  *Connect
	name string
	tls  *tls.Config
	at   int // index of the URL that worked last, which is tried first
}

// NewDialer returns a dialer. c must not change afterwards. name is the name of its connections unless c has another.
func NewDialer(c *Connect, name string) *Dialer {
	if c.Name != "" {
		name = c.Name
	}
	return &Dialer{cfg: c, name: name}
}

// Dial connects to a broker. An error has a class and a remedy. The caller ends the connection with [Conn.Close] or
// [Conn.Kill].
func (d *Dialer) Dial(ctx context.Context) (*Conn, error) {
	if d.tls == nil {
		conf, err := d.cfg.TLS.Config()
		if err != nil {
			return nil, engine.WithClass(engine.Permanent, err)
		}
		d.tls = conf
	}
	n := len(d.cfg.URL)
	var errs []error
	for i := range n {
		at := (d.at + i) % n
		uri, err := d.cfg.uri(at)
		if err != nil {
			return nil, err
		}
		c, err := d.dial(ctx, uri, heartbeatOf(d.cfg.URL[at].Reveal(), d.cfg.Heartbeat))
		if err == nil {
			d.at = at
			return c, nil
		}
		errs = append(errs, Explain(err, "connect to "+shown(uri)))
	}
	return nil, cause.All(errs)
}

// ClassOf returns the class of an error.
func ClassOf(err error) engine.Class {
	if e, ok := errors.AsType[*engine.Error](err); ok {
		return e.Class
	}
	return engine.Transient
}

func (d *Dialer) dial(ctx context.Context, uri amqp091.URI, heartbeat time.Duration) (*Conn, error) {
	limit := dialTimeout
	if uri.ConnectionTimeout > 0 {
		limit = time.Duration(uri.ConnectionTimeout) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", hostPort(uri))
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() }) // the handshakes do not end with the context
	conn, err := d.open(ctx, raw, uri, heartbeat)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		raw.Close()
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer within %v: %w", limit, ctx.Err())
		}
		return nil, err
	}
	return conn, nil
}

// open makes the TLS and AMQP handshakes.
func (d *Dialer) open(ctx context.Context, raw net.Conn, uri amqp091.URI, heartbeat time.Duration) (*Conn, error) {
	w := &wire{Conn: raw}
	if uri.Scheme == "amqps" {
		conf := d.tls.Clone()
		if conf.ServerName == "" {
			conf.ServerName = uri.Host
		}
		client := tls.Client(raw, conf)
		if err := client.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		w.Conn = client
	}
	w.Conn = bounds.Conn(w.Conn, w.deliveries.check())
	conn, err := amqp091.Open(w, amqp091.Config{
		SASL: mechanisms(uri), Vhost: uri.Vhost, ChannelMax: uri.ChannelMax, FrameSize: frameSize,
		Heartbeat: heartbeat, Locale: "en_US",
		Properties: amqp091.Table{"product": "flowd", "platform": "golang", "connection_name": d.name},
	})
	if err != nil {
		return nil, err
	}
	c := &Conn{Connection: conn, Address: shown(uri), raw: raw, wire: w, closed: make(chan *amqp091.Error, 1)}
	conn.NotifyClose(c.closed)
	blocks := conn.NotifyBlocked(make(chan amqp091.Blocking, 8))
	go c.watch(blocks)
	return c, nil
}

// heartbeatOf returns the heartbeat of a URL, or fallback if the URL has none. The client library parses it, too, but does not
// export the result.
func heartbeatOf(text string, fallback time.Duration) time.Duration {
	u, err := url.Parse(text)
	if err != nil || !u.Query().Has("heartbeat") {
		return fallback
	}
	seconds, _ := strconv.Atoi(u.Query().Get("heartbeat")) // parse has checked it
	return time.Duration(seconds) * time.Second
}

func mechanisms(uri amqp091.URI) (all []amqp091.Authentication) {
	for _, m := range uri.AuthMechanism {
		switch strings.ToUpper(m) {
		case "EXTERNAL":
			all = append(all, &amqp091.ExternalAuth{})
		case "AMQPLAIN":
			all = append(all, uri.AMQPlainAuth())
		default:
			all = append(all, uri.PlainAuth())
		}
	}
	if all == nil {
		all = append(all, uri.PlainAuth())
	}
	return all
}

// Conn is a connection to a broker. Its methods may be called from any goroutine.
type Conn struct {
	*amqp091.Connection
	Address string // without user and password

	raw    net.Conn
	wire   *wire
	closed chan *amqp091.Error // gets the error that closes the connection

	mu      sync.Mutex                        // guards the fields below
	reason  string                            // why the broker blocks publishers
	blocked bool                              // the broker blocks publishers
	notify  func(reason string, blocked bool) // nil: nobody wants to know
}

// watch follows whether the broker blocks publishers, until the connection is closed.
func (c *Conn) watch(blocks <-chan amqp091.Blocking) {
	for b := range blocks {
		c.mu.Lock()
		c.blocked, c.reason = b.Active, b.Reason
		notify := c.notify
		c.mu.Unlock()
		if notify != nil {
			notify(b.Reason, b.Active)
		}
	}
}

// OnBlocked sets a function that is called whenever the broker begins or ceases to block publishers.
func (c *Conn) OnBlocked(notify func(reason string, blocked bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notify = notify
}

// Blocked reports whether the broker currently blocks publishers, and why.
func (c *Conn) Blocked() (reason string, blocked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reason, c.blocked
}

// Hold buffers what is written until Release, so that it is sent at once. In between, nothing may be called that waits for an
// answer.
func (c *Conn) Hold() { c.wire.hold() }

// Release sends what was written since Hold.
func (c *Conn) Release() error { return c.wire.release() }

// Within makes a call that waits for the broker's answer. If ctx ends first, it closes the connection, since there is no other
// way to end such a call.
func (c *Conn) Within(ctx context.Context, doing string, call func() error) error {
	stop := context.AfterFunc(ctx, c.Kill)
	err := call()
	if !stop() {
		return engine.Errorf(engine.Timeout, "%s: the broker did not answer in time", doing)
	}
	if err != nil {
		return Explain(err, doing)
	}
	return nil
}

// Kill closes the network connection without the closing handshake.
func (c *Conn) Kill() { c.raw.Close() }

// Close makes the closing handshake until ctx ends, and closes the connection.
func (c *Conn) Close(ctx context.Context) {
	defer context.AfterFunc(ctx, c.Kill)()
	_ = c.Connection.CloseDeadline(time.Now().Add(dialTimeout)) // the error is that the connection is already closed
	c.Kill()
}
