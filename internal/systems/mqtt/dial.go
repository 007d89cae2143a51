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

// Session says which session a client asks for when it connects.
type Session struct {
	ClientID  string
	Clean     bool   // start a new session; the server discards an earlier one
	Expiry    uint32 // seconds for which the server keeps the session after the connection; 0: it does not
	Receive   uint16 // the most messages that the server may have in flight to this client; 0: the protocol's maximum
	MaxPacket uint32 // the largest packet that the server may send, in bytes; 0: the protocol's maximum
}

// Dialer makes connections, each to the first URL that works. It is not safe for concurrent use.
type Dialer struct {
	cfg *Connect
	tls *tls.Config
	at  int // index of the URL that worked last, which is tried first
}

// NewDialer returns a dialer. c must not change afterwards.
func NewDialer(c *Connect) *Dialer { return &Dialer{cfg: c} }

// Dial connects to a server. An error has a class and a remedy. The caller ends the connection with [Conn.Close] or
// [Conn.Abort].
func (d *Dialer) Dial(ctx context.Context, s Session, handle Handler) (*Conn, error) {
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
		c, err := d.dial(ctx, p, s, handle)
		if err == nil {
			d.at = at
			return c, nil
		}
		errs = append(errs, Explain(err, "connect to "+p.String()))
	}
	return nil, cause.All(errs)
}

// dial connects to one server.
func (d *Dialer) dial(ctx context.Context, p address, s Session, handle Handler) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	raw, err := d.connect(ctx, p)
	if err != nil {
		return nil, tooSlow(ctx, err, d.cfg.Timeout)
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() }) // the handshake does not end with the context
	h := &hello{cfg: d.cfg, user: p.user, password: p.password, session: s}
	if d.cfg.User != "" {
		h.user, h.password = d.cfg.User, d.cfg.Password.Reveal()
	}
	c := newConn(raw, p.String(), d.cfg, handle)
	err = c.handshake(h)
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

// errNoAnswer is the error of a connection that the server has closed right after the TLS handshake. With TLS 1.3, a server
// rejects a missing client certificate only then.
var errNoAnswer = errors.New("the server closes the connection instead of answering: " +
	"it may require a client certificate (set tls.cert and tls.key)")

// tooSlow returns a timeout error if ctx has ended and the server has not refused the connection. Otherwise, it returns err.
func tooSlow(ctx context.Context, err error, limit time.Duration) error {
	if _, said := errors.AsType[*Refusal](err); said || ctx.Err() == nil {
		return err
	}
	return engine.Errorf(engine.Transient, "no answer within %v: %w", limit, ctx.Err())
}

// connect makes the network connection: TCP, TLS or a WebSocket.
func (d *Dialer) connect(ctx context.Context, p address) (net.Conn, error) {
	conf := d.tls.Clone()
	if conf.ServerName == "" {
		conf.ServerName = p.host
	}
	if d.cfg.ALPN != "" {
		conf.NextProtos = []string{d.cfg.ALPN}
	}
	if p.webSocket() {
		return d.webSocket(ctx, p, conf)
	}
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.hostPort())
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

// webSocket makes a WebSocket connection.
func (d *Dialer) webSocket(ctx context.Context, p address, conf *tls.Config) (net.Conn, error) {
	scheme := map[bool]string{true: "https", false: "http"}[p.tls()]
	transport := httpx.Network(conf)
	transport.ForceAttemptHTTP2 = false // a WebSocket begins with an HTTP/1.1 request
	c, answer, err := websocket.Dial(ctx, scheme+"://"+p.hostPort()+p.path, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport}, Subprotocols: []string{"mqtt"},
		CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		if answer != nil {
			return nil, fmt.Errorf("the server answers %s instead of opening a WebSocket (check the URL's path): %w", answer.Status, err)
		}
		return nil, err
	}
	c.SetReadLimit(-1) // readFrame limits packets
	return websocket.NetConn(context.WithoutCancel(ctx), c, websocket.MessageBinary), nil
}
