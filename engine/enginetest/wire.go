package enginetest

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// Wire is a TCP proxy to a server whose connections a test can disturb. Its methods are safe for concurrent use.
type Wire struct {
	Address string // where it listens, HOST:PORT
	loops   sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	to       string
	listener net.Listener // nil: it refuses connections
	conns    map[net.Conn]bool
	hushed   bool // it accepts connections, and passes nothing on
	cuts     bool // it cuts the next answer off, and then refuses connections
	each     int  // which answer of each connection it cuts off, from 1; 0: none
	broken   int  // how many it has cut off
}

func newWire(t *testing.T) *Wire {
	t.Helper()
	w := &Wire{Address: "127.0.0.1:0", conns: map[net.Conn]bool{}}
	if err := w.listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.Refuse()
		w.loops.Wait()
	})
	return w
}

// Over connects the wire to the server of a URL, and returns the URL of the wire.
func (w *Wire) Over(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	user, host, found := strings.Cut(rest, "@")
	if user += "@"; !found {
		user, host = "", rest
	}
	host, path, found := strings.Cut(host, "/")
	if path = "/" + path; !found {
		path = ""
	}
	w.To(host)
	return scheme + "://" + user + w.Address + path
}

// Listen is like net.Listen, for a server that tells its clients its own address. The listener has the address of the wire,
// and the wire leads to it.
func (w *Wire) Listen(network, _ string) (net.Listener, error) {
	l, err := net.Listen(network, "127.0.0.1:0") //nolint:noctx // the server closes it
	if err != nil {
		return nil, err
	}
	w.To(l.Addr().String())
	addr, err := net.ResolveTCPAddr(network, w.Address)
	return addressed{l, addr}, err
}

type addressed struct {
	net.Listener
	addr net.Addr
}

func (a addressed) Addr() net.Addr { return a.addr }

// To sets where the wire leads, HOST:PORT.
func (w *Wire) To(address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = address
}

// Target returns where the wire leads, HOST:PORT.
func (w *Wire) Target() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to
}

// Refuse closes all connections, and refuses new ones.
func (w *Wire) Refuse() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse()
}

// Hush closes all connections, and passes nothing on of new ones.
func (w *Wire) Hush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hushed = true
	w.closeAll()
}

// Cut is like Refuse, in the middle of the next answer of the server.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cuts = true
}

func (w *Wire) closeConnections() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closeAll()
}

// CutEach ends each new connection in the middle of its n-th answer; n = 0 ends none.
func (w *Wire) CutEach(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.each, w.broken = n, 0
}

// Broken returns how many connections have ended since CutEach.
func (w *Wire) Broken() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken
}

func (w *Wire) refuse() {
	if w.listener != nil {
		w.listener.Close()
		w.listener = nil
	}
	w.closeAll()
}

func (w *Wire) closeAll() {
	for c := range w.conns {
		c.Close()
	}
}

func (w *Wire) restore(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hushed {
		w.hushed = false
		w.closeAll()
	}
	w.cuts, w.each = false, 0
	if w.listener == nil {
		if err := w.listen(); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *Wire) listen() error {
	l, err := net.Listen("tcp", w.Address) //nolint:noctx // it ends with the test
	if err != nil {
		return fmt.Errorf("listening again at %s: %w", w.Address, err)
	}
	w.listener, w.Address = l, l.Addr().String()
	w.loops.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.loops.Go(func() { w.carry(l, c) })
		}
	})
	return nil
}

// note adds a connection, unless its listener was closed.
func (w *Wire) note(l net.Listener, c net.Conn) (to string, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listener != l {
		c.Close()
		return "", false
	}
	w.conns[c] = true
	if w.hushed {
		return "", true
	}
	return w.to, true
}

func (w *Wire) carry(l net.Listener, here net.Conn) {
	defer w.drop(here)
	to, ok := w.note(l, here)
	if !ok {
		return
	}
	if to == "" {
		_, _ = io.Copy(io.Discard, here)
		return
	}
	there, err := net.Dial("tcp", to) //nolint:noctx // it is near
	if err != nil {
		return
	}
	defer w.drop(there)
	if _, ok := w.note(l, there); !ok {
		return
	}
	w.loops.Go(func() {
		_, _ = io.Copy(there, here)
		there.Close()
	})
	w.mu.Lock()
	each := w.each
	w.mu.Unlock()
	buf := make([]byte, 64<<10)
	for answer := 1; ; answer++ {
		n, err := there.Read(buf)
		w.mu.Lock()
		cut := w.cuts && n > 0
		w.mu.Unlock()
		if cut {
			_, _ = here.Write(buf[:n/2])
			w.Refuse()
			return
		}
		if answer == each && n > 0 {
			_, _ = here.Write(buf[:n/2])
			w.mu.Lock()
			w.broken++
			w.mu.Unlock()
			return
		}
		if _, failed := here.Write(buf[:n]); err != nil || failed != nil {
			return
		}
	}
}

func (w *Wire) drop(c net.Conn) {
	c.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
}
