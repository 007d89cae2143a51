package kafkatest

import (
	"net"
	"sync"
	"testing"
)

// wires are how a cluster can be reached.
type wires struct {
	mu        sync.Mutex // guards the fields below
	conns     []net.Conn
	listeners []*listener
}

// listener notes what it accepts, and can be away for a time.
type listener struct {
	wires *wires
	addr  net.Addr

	mu    sync.Mutex // guards the fields below
	inner net.Listener
	back  chan struct{} // closed when it listens again, or is closed; nil: it listens
	ended bool
}

func (w *wires) listen(network, address string) (net.Listener, error) {
	inner, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	l := &listener{wires: w, addr: inner.Addr(), inner: inner}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listeners = append(w.listeners, l)
	return l, nil
}

// Accept waits while the listener is away.
func (l *listener) Accept() (net.Conn, error) {
	for {
		l.mu.Lock()
		inner, back := l.inner, l.back
		l.mu.Unlock()
		if back != nil {
			<-back
			continue
		}
		c, err := inner.Accept()
		if err == nil {
			l.wires.mu.Lock()
			l.wires.conns = append(l.wires.conns, c)
			l.wires.mu.Unlock()
			return c, nil
		}
		l.mu.Lock()
		away := l.back != nil && !l.ended
		l.mu.Unlock()
		if !away {
			return nil, err
		}
	}
}

func (l *listener) Addr() net.Addr { return l.addr }

func (l *listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.back != nil {
		close(l.back)
		l.back = nil
	}
	return l.inner.Close()
}

// Cut closes all connections, those of the test's own client included.
func (c *Cluster) Cut() {
	c.wires.mu.Lock()
	defer c.wires.mu.Unlock()
	for _, w := range c.wires.conns {
		_ = w.Close()
	}
	c.wires.conns = nil
}

// Down has all brokers refuse connections, as when they are not running, until Up. They forget nothing.
func (c *Cluster) Down() {
	for _, l := range c.wires.listeners {
		l.mu.Lock()
		if l.back == nil {
			l.back = make(chan struct{})
			_ = l.inner.Close()
		}
		l.mu.Unlock()
	}
	c.Cut()
}

// Up ends Down.
func (c *Cluster) Up(t testing.TB) {
	t.Helper()
	for _, l := range c.wires.listeners {
		inner, err := net.Listen(l.addr.Network(), l.addr.String())
		if err != nil {
			t.Fatal(err)
		}
		l.mu.Lock()
		l.inner = inner
		close(l.back)
		l.back = nil
		l.mu.Unlock()
	}
}
