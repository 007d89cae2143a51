// Package servertest has tests listen in place of servers. Start at [Serve], or at [Losing] for a way to a
// real one.
package servertest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Serve is an address of this machine, as HOST:PORT, where talk is called for each connection, in a goroutine of its own;
// the connection is closed when it returns. At the end of the test nobody listens there any more, and all calls must end.
func Serve(t testing.TB, talk func(c net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				talk(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
	return l.Addr().String()
}

// Loss is what gets lost of a request.
type Loss int

// What may get lost.
const (
	Nothing Loss = iota
	Request      // before the server has got it
	Answer       // after the server has carried the request out
)

// Losing is an address, as HOST:PORT, that leads to a server. lose is asked about what clients send: where something gets
// lost, the connection ends.
func Losing(t testing.TB, server string, lose func(request []byte) Loss) (address string) {
	t.Helper()
	return Serve(t, func(c net.Conn) {
		s, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		defer s.Close()
		var lost atomic.Bool
		var answers sync.WaitGroup
		answers.Go(func() {
			defer c.Close()
			pass(c, s, func([]byte) bool { return !lost.Load() })
		})
		pass(s, c, func(request []byte) bool {
			now := lose(request)
			if now == Answer {
				lost.Store(true)
			}
			return now != Request
		})
		s.Close()
		answers.Wait()
	})
}

// pass passes on what may be passed on, until a connection ends.
func pass(to, from net.Conn, may func([]byte) bool) {
	block := make([]byte, 64<<10)
	for {
		n, err := from.Read(block)
		if err != nil || !may(block[:n]) {
			return
		}
		if _, err := to.Write(block[:n]); err != nil {
			return
		}
	}
}
