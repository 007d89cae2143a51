package push

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/flowd-io/flowd/internal/network/httpx"
)

// Door is one opening of an input: the addresses on which it listens.
type Door struct {
	Listeners []net.Listener
	Servers   []*http.Server // of the listeners, in the same order

	lost    chan error // room for the one error that ended listening
	shut    chan struct{}
	once    sync.Once // shuts it
	serving sync.WaitGroup
}

// NewDoor returns a door that is open, and does not listen yet.
func NewDoor() *Door { return &Door{lost: make(chan error, 1), shut: make(chan struct{})} }

// IsShut says whether [Queue.Close] or [Queue.Stop] was called.
func (d *Door) IsShut() bool {
	select {
	case <-d.shut:
		return true
	default:
		return false
	}
}

// Address says how a door listens on an address.
type Address struct {
	Address        string
	TLS            *tls.Config   // nil: none
	Timeout        time.Duration // for the messages of a request to be settled
	MaxConnections int           // at once; more wait. 0: any number
	Log            *slog.Logger

	Protocols   *http.Protocols                                 // nil: the usual ones
	ConnContext func(context.Context, net.Conn) context.Context // see [http.Server]; nil: nothing is added
	Handler     http.HandlerFunc
}

// The limits of all servers.
const (
	headerTimeout = 10 * time.Second // for the headers of a request
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
)

// Listen starts a server. It returns the address, after port 0 with the port that it has got.
func (d *Door) Listen(ctx context.Context, a Address) (net.Addr, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", a.Address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", a.Address, err)
	}
	s := &http.Server{
		Handler: a.Handler, TLSConfig: a.TLS, Protocols: a.Protocols, ConnContext: a.ConnContext,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: httpx.BodyTimeout, IdleTimeout: idleTimeout,
		WriteTimeout:   httpx.BodyTimeout + Pressure + a.Timeout + httpx.AnswerTimeout,
		MaxHeaderBytes: maxHeader, ErrorLog: httpx.ErrorLog(a.Log),
	}
	d.Listeners, d.Servers = append(d.Listeners, l), append(d.Servers, s)
	limited, serve := l, s.Serve
	if a.MaxConnections > 0 {
		limited = netutil.LimitListener(l, a.MaxConnections)
	}
	if a.TLS != nil {
		serve = func(l net.Listener) error { return s.ServeTLS(l, "", "") }
	}
	d.serving.Go(func() {
		if err := serve(limited); !errors.Is(err, http.ErrServerClosed) {
			select {
			case d.lost <- fmt.Errorf("no longer listening on %s: %w", l.Addr(), err):
			default: // another server is lost, too
			}
		}
	})
	return l.Addr(), nil
}

// Stop closes the listeners of a door and refuses requests that were not read. Requests that were read still get their answers.
func (q *Queue) Stop(d *Door) {
	d.once.Do(func() {
		q.shut(d)
		over, cancel := context.WithCancel(context.Background())
		cancel()
		for _, s := range d.Servers {
			_ = s.Shutdown(over) // of the listener and idle connections: Close waits for the others
		}
	})
}

// Close stops a door, waits for the answers until ctx ends, then closes the connections.
func (q *Queue) Close(ctx context.Context, d *Door) {
	q.Stop(d)
	for _, s := range d.Servers {
		if s.Shutdown(ctx) != nil {
			_ = s.Close()
		}
	}
	d.serving.Wait()
}
