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

// dialTimeout is for one URL, until the connection is ready to use.
const dialTimeout = 10 * time.Second

// Dialer makes connections, each to the first URL that answers. One goroutine at a
// time uses it.
type Dialer struct {
	cfg  *Connect
	name string
	tls  *tls.Config
	at   int // the URL that worked last
}

// NewDialer makes a dialer; c must not change afterwards. A connection is called
// name unless the configuration names it.
func NewDialer(c *Connect, name string) *Dialer {
	if c.Name != "" {
		name = c.Name
	}
	return &Dialer{cfg: c, name: name}
}

// Dial connects. The error has a class and says what to do about it.
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

// ClassOf is the class of an error of this package.
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
	stop := context.AfterFunc(ctx, func() { raw.Close() }) // the handshakes know no context
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

// open makes the handshakes.
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

// heartbeatOf is what a URL says, in seconds, else what the configuration does. The
// client's parser keeps its own reading of it to itself.
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

// Conn is a connection.
type Conn struct {
	*amqp091.Connection
	Address string // without user and password

	raw    net.Conn
	wire   *wire
	closed chan *amqp091.Error // has room for the one error

	mu      sync.Mutex // guards the fields below
	reason  string     // why the broker takes nothing that is published; "": it does
	blocked bool
	told    func(reason string, blocked bool) // nil: nobody
}

// watch follows whether the broker blocks publishers, until the connection is closed.
func (c *Conn) watch(blocks <-chan amqp091.Blocking) {
	for b := range blocks {
		c.mu.Lock()
		c.blocked, c.reason = b.Active, b.Reason
		told := c.told
		c.mu.Unlock()
		if told != nil {
			told(b.Reason, b.Active)
		}
	}
}

// OnBlocked has a function called whenever the broker blocks publishers, and when it
// does no more.
func (c *Conn) OnBlocked(told func(reason string, blocked bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = told
}

// Blocked reports whether the broker takes nothing that is published at present, and why.
func (c *Conn) Blocked() (reason string, blocked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reason, c.blocked
}

// Hold keeps what is written back until Release, so that it leaves together. Nothing
// that waits for an answer may be called in between.
func (c *Conn) Hold() { c.wire.hold() }

// Release sends what was held.
func (c *Conn) Release() error { return c.wire.release() }

// Within makes a call that waits for the broker's answer. When ctx ends before it arrives,
// the connection is dropped: there is no other way to end such a call.
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

// Kill ends the connection without a word.
func (c *Conn) Kill() { c.raw.Close() }

// Close says goodbye, until ctx ends.
func (c *Conn) Close(ctx context.Context) {
	defer context.AfterFunc(ctx, c.Kill)()
	_ = c.Connection.CloseDeadline(time.Now().Add(dialTimeout)) // of one that is closed already
	c.Kill()
}
