package service

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// crowd is a listener with a limited number of open connections. A new connection replaces the least important one:
// the one that has been idle longest, else the one that has gone longest without a whole request, else the one with
// the longest running request. So nobody can block others by staying connected.
type crowd struct {
	net.Listener
	most int

	mu   sync.Mutex // guards the fields below, and all seats
	open map[*seat]bool
	now  int // counts changes of state
}

func newCrowd(ln net.Listener, most int) *crowd {
	return &crowd{Listener: ln, most: most, open: map[*seat]bool{}}
}

// seat is an open connection.
type seat struct {
	net.Conn
	in    *crowd
	state http.ConnState
	since int
}

func (l *crowd) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	var gone *seat
	if len(l.open) >= l.most {
		gone = l.least()
		delete(l.open, gone)
	}
	l.now++
	s := &seat{Conn: c, in: l, since: l.now}
	l.open[s] = true
	l.mu.Unlock()
	if gone != nil {
		_ = gone.Conn.Close() // ends its reads and writes
	}
	return s, nil
}

// least returns the least important connection. l.mu is held.
func (l *crowd) least() (least *seat) {
	rank := map[http.ConnState]int{http.StateIdle: 0, http.StateNew: 1, http.StateActive: 2}
	for s := range l.open {
		if least == nil || rank[s.state] < rank[least.state] || s.state == least.state && s.since < least.since {
			least = s
		}
	}
	return least
}

// changed records the state of a connection.
func (l *crowd) changed(c net.Conn, state http.ConnState) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	s, ok := c.(*seat)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now++
	s.state, s.since = state, l.now
}

// Close frees the seat.
func (s *seat) Close() error {
	s.in.mu.Lock()
	delete(s.in.open, s)
	s.in.mu.Unlock()
	return s.Conn.Close()
}

// loopback reports whether an address can only be reached from this machine.
func loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
