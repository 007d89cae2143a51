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

// RoundTrip makes one request. Until its headers are written, no server can act upon it. The standard library only
// changes connections if an idle one was closed before anything was sent, or if repeating the request does no harm.
// So earlier connections do not count.
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

// CloseIdleConnections closes the idle connections of the wrapped transport.
func (t Transport) CloseIdleConnections() { closeIdle(t.RoundTripper) }

// Unsent is the error of a request of which nothing was sent: the connection was refused, a name is unknown, TLS
// failed, or the time ran out before.
type Unsent struct{ Err error }

func (e *Unsent) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Unsent) Unwrap() error { return e.Err }

// Timeout reports whether the time ran out.
func (e *Unsent) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.Err, &t) && t.Timeout()
}

// IsUnsent reports whether nothing was sent of the request that ended with err.
func IsUnsent(err error) bool {
	_, ok := errors.AsType[*Unsent](err)
	return ok
}

// Reach connects to the server, with TLS if the URL says so. It can't know whether a request would succeed. Behind a
// proxy it only reaches the proxy.
func (c *Caller) Reach(ctx context.Context) error { return Reach(ctx, c.network, c.guard.prefix) }

// Reach connects to the server of a URL as requests over network do, without sending one. See [Caller.Reach].
func Reach(ctx context.Context, network *http.Transport, to string) error {
	u, err := url.Parse(to)
	if err != nil {
		return nil // a request will report what is wrong
	}
	if proxy, err := network.Proxy(&http.Request{URL: u}); err == nil && proxy != nil {
		u = proxy
	}
	if u.Scheme != "http" && u.Scheme != "https" { // another kind of proxy
		return nil
	}
	if err := reach(ctx, network, u); err != nil {
		return &engine.Error{Class: engine.Transient, Holds: true, Err: fmt.Errorf("%s: %w", Shown(u), err)}
	}
	return nil
}

func reach(ctx context.Context, network *http.Transport, u *url.URL) error {
	conn, err := network.DialContext(ctx, "tcp", hostPort(u))
	if err != nil {
		return err
	}
	defer conn.Close()
	if u.Scheme != "https" {
		return nil
	}
	conf := network.TLSClientConfig.Clone()
	if conf.ServerName == "" {
		conf.ServerName = u.Hostname()
	}
	ctx, cancel := context.WithTimeout(ctx, network.TLSHandshakeTimeout)
	defer cancel()
	return tls.Client(conn, conf).HandshakeContext(ctx)
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = u.Scheme // a port name equal to the scheme
	}
	return net.JoinHostPort(u.Hostname(), port)
}
