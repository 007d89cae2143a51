package mqtt

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/coder/websocket"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/cause"
	"github.com/flowd-io/flowd/internal/network/httpx"
)

// Session is what a client tells the server about itself when it connects.
type Session struct {
	ClientID  string
	Clean     bool   // what the server knows of an earlier session is forgotten
	Expiry    uint32 // seconds for which the server keeps the session after the connection; 0: it does not
	Receive   uint16 // the most messages that the server may have in flight to this client; 0: the protocol's maximum
	MaxPacket uint32 // the largest packet that the server may send; 0: the protocol's maximum
}

// Dialer makes connections, each to the first URL that answers. One goroutine at a time uses it.
type Dialer struct {
	cfg *Connect
	tls *tls.Config
	at  int // the URL that worked last
}

// NewDialer makes a dialer; c must not change afterwards.
func NewDialer(c *Connect) *Dialer { return &Dialer{cfg: c} }

// Dial connects. The error has a class and says what to do about it. What the server sends is given to got, by one
// goroutine, but for answers to questions of the Conn itself; got returns when the Conn is gone at the latest.
func (d *Dialer) Dial(ctx context.Context, s Session, got func(*Conn, *Packet) (asked bool)) (*Conn, error) {
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
		p, problem := parse(d.cfg.URL[at].Reveal())
		if problem != nil {
			return nil, engine.Errorf(engine.Permanent, "url: %s (%s)", problem.message, problem.remedy)
		}
		c, err := d.dial(ctx, p, s, got)
		if err == nil {
			d.at = at
			return c, nil
		}
		errs = append(errs, Explain(err, "connect to "+p.String()))
	}
	return nil, cause.All(errs)
}

func (d *Dialer) dial(ctx context.Context, p place, s Session, got func(*Conn, *Packet) (asked bool)) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	raw, err := d.reach(ctx, p)
	if err != nil {
		return nil, tooSlow(ctx, err, d.cfg.Timeout)
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() }) // the handshake knows no context
	h := &hello{cfg: d.cfg, user: p.user, password: p.password, session: s}
	if d.cfg.User != "" {
		h.user, h.password = d.cfg.User, d.cfg.Password.Reveal()
	}
	c := newConn(raw, p.String(), d.cfg, got)
	err = c.begin(h)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		raw.Close()
		if p.tls() && d.cfg.TLS.Cert == "" && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
			err = errNoAnswer
		}
		return nil, tooSlow(ctx, err, d.cfg.Timeout)
	}
	c.run()
	return c, nil
}

// errNoAnswer is what a server does, after a handshake of TLS 1.3, that misses a certificate.
var errNoAnswer = errors.New("the server closes the connection instead of answering: " +
	"it may want a client's certificate (set tls.cert and tls.key)")

// tooSlow is err, unless time was up.
func tooSlow(ctx context.Context, err error, limit time.Duration) error {
	if _, said := errors.AsType[*Refusal](err); said || ctx.Err() == nil {
		return err
	}
	return engine.Errorf(engine.Transient, "no answer within %v: %w", limit, ctx.Err())
}

// reach makes the connection below MQTT.
func (d *Dialer) reach(ctx context.Context, p place) (net.Conn, error) {
	conf := d.tls.Clone()
	if conf.ServerName == "" {
		conf.ServerName = p.host
	}
	if d.cfg.ALPN != "" {
		conf.NextProtos = []string{d.cfg.ALPN}
	}
	if p.web() {
		return d.web(ctx, p, conf)
	}
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.at())
	if err != nil || !p.tls() {
		return raw, err
	}
	c := tls.Client(raw, conf)
	if err := c.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return c, nil
}

// web makes a WebSocket.
func (d *Dialer) web(ctx context.Context, p place, conf *tls.Config) (net.Conn, error) {
	scheme := map[bool]string{true: "https", false: "http"}[p.tls()]
	transport := httpx.Network(conf)
	transport.ForceAttemptHTTP2 = false // a WebSocket is begun with HTTP/1.1
	c, answer, err := websocket.Dial(ctx, scheme+"://"+p.at()+p.path, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport}, Subprotocols: []string{"mqtt"},
		CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		if answer != nil {
			return nil, fmt.Errorf("the server answers %s instead of a WebSocket (check the URL's path): %w", answer.Status, err)
		}
		return nil, err
	}
	c.SetReadLimit(-1) // packets have a limit of their own
	return websocket.NetConn(context.WithoutCancel(ctx), c, websocket.MessageBinary), nil
}
