package test

import (
	"net"
	"sync"
	"testing"
	"time"
)

// proxy forwards TCP connections, and breaks them as networks do.
type proxy struct {
	addr, to string
	wg       sync.WaitGroup
	listener net.Listener

	mu    sync.Mutex // guards the fields below
	conns map[net.Conn]bool
	slow  time.Duration // delay of each piece of data
	mute  chan struct{} // if not nil, no data passes until it is closed
	down  bool          // closes new connections at once
}

func startProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String(), to: to, listener: l, conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.cut()
		p.endSilence()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		up, err := net.Dial("tcp", p.to)
		p.mu.Lock()
		refused := p.down || err != nil
		if !refused {
			p.conns[c], p.conns[up] = true, true
		}
		p.mu.Unlock()
		if refused {
			c.Close()
			if up != nil {
				up.Close()
			}
			continue
		}
		p.wg.Go(func() { p.forward(c, up) })
		p.wg.Go(func() { p.forward(up, c) })
	}
}

func (p *proxy) forward(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	for buf := make([]byte, 16<<10); ; {
		n, err := from.Read(buf)
		p.mu.Lock()
		slow, mute := p.slow, p.mute
		p.mu.Unlock()
		if mute != nil {
			<-mute
		}
		if slow > 0 {
			<-time.After(slow)
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// cut closes all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

// set changes whether new connections are closed, and the delay.
func (p *proxy) set(down bool, slow time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down, p.slow = down, slow
}

// silence stops all data without closing connections, like a cable that is unplugged.
func (p *proxy) silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = make(chan struct{})
}

// endSilence ends a silence.
func (p *proxy) endSilence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mute != nil {
		close(p.mute)
		p.mute = nil
	}
}
