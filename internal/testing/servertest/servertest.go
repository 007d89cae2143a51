// Package servertest has tests listen in place of servers. Start at [Serve].
package servertest

import (
	"net"
	"sync"
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
