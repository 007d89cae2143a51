package httpx

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"

	"github.com/flowd-io/flowd/engine"
)

// Transport marks requests of which nothing was sent: their errors are [Unsent].
type Transport struct{ http.RoundTripper }

// RoundTrip makes one request. Until its headers are written, no server can have begun to
// act upon it. The standard library uses another connection only when an idle one turned
// out to be closed and nothing was sent, or when a second request does no harm; so what
// happened before does not count.
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{
		GetConn:      func(string) { sent.Store(false) },
		WroteHeaders: func() { sent.Store(true) },
	}
	res, err := t.RoundTripper.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	if err != nil && !sent.Load() {
		return nil, &Unsent{err}
	}
	return res, err
}

// CloseIdleConnections closes those of what it wraps.
func (t Transport) CloseIdleConnections() { closeIdle(t.RoundTripper) }

// Unsent is the error of a request of which nothing was sent: the connection was
// refused, a name is not known, TLS failed, or the time was over before.
type Unsent struct{ Err error }

func (e *Unsent) Error() string { return e.Err.Error() }

// Unwrap is the cause.
func (e *Unsent) Unwrap() error { return e.Err }

// Timeout reports whether the time was over.
func (e *Unsent) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.Err, &t) && t.Timeout()
}

// IsUnsent reports whether nothing was sent of the request that ended with err.
func IsUnsent(err error) bool {
	_, ok := errors.AsType[*Unsent](err)
	return ok
}

// Reach connects to where requests go, with TLS where that is spoken, and says
// nothing more: whether a request would be welcome, it can't know. Behind a proxy it
// reaches for that alone.
func (c *Caller) Reach(ctx context.Context) error {
	u, err := url.Parse(c.guard.prefix)
	if err != nil {
		return nil // what can't be told is for a request to show
	}
	if proxy, err := c.network.Proxy(&http.Request{URL: u}); err == nil && proxy != nil {
		u = proxy
	}
	if u.Scheme != "http" && u.Scheme != "https" { // a proxy of another kind
		return nil
	}
	if err := c.reach(ctx, u); err != nil {
		return &engine.Error{Class: engine.Transient, Holds: true, Err: fmt.Errorf("%s: %w", Shown(u), err)}
	}
	return nil
}

func (c *Caller) reach(ctx context.Context, u *url.URL) error {
	conn, err := c.network.DialContext(ctx, "tcp", hostPort(u))
	if err != nil {
		return err
	}
	defer conn.Close()
	if u.Scheme != "https" {
		return nil
	}
	conf := c.network.TLSClientConfig.Clone()
	if conf.ServerName == "" {
		conf.ServerName = u.Hostname()
	}
	ctx, cancel := context.WithTimeout(ctx, c.network.TLSHandshakeTimeout)
	defer cancel()
	return tls.Client(conn, conf).HandshakeContext(ctx)
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = u.Scheme // which has a port of the same name
	}
	return net.JoinHostPort(u.Hostname(), port)
}
