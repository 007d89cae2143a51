package httpx

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// mostUnasked bounds the bytes that a server may send on a connection without a request. They may include the rest of
// an answer that was not read to its end.
const mostUnasked = 1 << 20

var errUnasked = errors.New("the server sends data without a request")

// Quiet wraps network. It ends connections on which a server keeps sending data without a request: an idle HTTP/2
// connection reads, and answers, whatever arrives. The dialer of network must not change afterwards.
func Quiet(network *http.Transport) http.RoundTripper {
	q := &quiet{network: network}
	dial := network.DialContext
	network.DialContext = func(ctx context.Context, kind, address string) (net.Conn, error) {
		c, err := dial(ctx, kind, address)
		if err != nil {
			return nil, err
		}
		return &heard{Conn: c, asked: &q.asked}, nil
	}
	return q
}

type quiet struct {
	network *http.Transport
	asked   atomic.Int64 // requests whose answers are not fully read
}

// RoundTrip makes one request.
func (q *quiet) RoundTrip(req *http.Request) (*http.Response, error) {
	q.asked.Add(1)
	res, err := q.network.RoundTrip(req)
	if err != nil {
		q.asked.Add(-1)
		return nil, err
	}
	res.Body = &answer{res.Body, sync.OnceFunc(func() { q.asked.Add(-1) })}
	return res, nil
}

// CloseIdleConnections closes the idle connections of the wrapped transport.
func (q *quiet) CloseIdleConnections() { q.network.CloseIdleConnections() }

// answer is a body that reports when it was read or closed.
type answer struct {
	io.ReadCloser
	done func()
}

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != nil {
		a.done()
	}
	return n, err
}

func (a *answer) Close() error {
	defer a.done()
	return a.ReadCloser.Close()
}

// heard is a connection that counts data without a request.
type heard struct {
	net.Conn
	asked   *atomic.Int64
	unasked int // bytes; only for Read
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	if h.asked.Load() > 0 {
		h.unasked = 0
	} else if h.unasked += n; h.unasked > mostUnasked {
		h.Conn.Close()
		return 0, errUnasked
	}
	return n, err
}
