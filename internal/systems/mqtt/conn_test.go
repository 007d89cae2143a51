package mqtt

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eclipse/paho.golang/packets"
)

// pair returns a running connection, without a handshake, and the server's end of it.
func pair(keepAlive time.Duration, handle Handler) (*Conn, net.Conn) {
	client, server := net.Pipe()
	c := newConn(client, "here", &Connect{Version: v5, KeepAlive: keepAlive, Timeout: 5 * time.Second}, handle)
	c.run()
	return c, server
}

func TestASilentServerLosesTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c, server := pair(20*time.Second, nil)
		go io.Copy(io.Discard, server) //nolint:errcheck // the copy ends with the connection
		<-c.Gone()
		if took := time.Since(began); took != 30*time.Second || !strings.Contains(c.Cause().Error(), "silent for 30s") {
			t.Errorf("after %v: %v", took, c.Cause())
		}
		c.Abort()
	})
}

func TestAServerThatAnswersPingsIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := pair(20*time.Second, nil)
		pings := 0
		go func() {
			for r := bufio.NewReader(server); ; {
				head, _, err := readFrame(r, 10)
				if err != nil {
					return
				}
				if head>>4 == packets.PINGREQ {
					pings++
					_, _ = server.Write([]byte{packets.PINGRESP << 4, 0})
				} else {
					server.Close() // as servers do after a DISCONNECT
				}
			}
		}()
		time.Sleep(10*time.Minute + time.Second)
		if !c.Alive() {
			t.Errorf("lost: %v", c.Cause())
		}
		c.Close(t.Context())
		if pings != 60 {
			t.Errorf("%d pings", pings)
		}
	})
}

func TestAServerThatReadsNothingLosesTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := pair(time.Hour, nil)
		began := time.Now()
		if err := c.Reply(Reply{packets.PUBACK, 1}); err == nil || time.Since(began) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		c.Abort()
	})
}

func TestABlockedHandlerIsNotMistakenForASilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := make(chan struct{})
		c, server := pair(2*time.Second, func(*Conn, *Packet) bool { <-full; return true })
		go io.Copy(io.Discard, server) //nolint:errcheck // the copy ends with the connection
		go func() { _, _ = server.Write([]byte("\x30\x04\x00\x01a\x00")) }()
		time.Sleep(time.Minute)
		if !c.Alive() {
			t.Errorf("lost: %v", c.Cause())
		}
		close(full)
		<-c.Gone()
		c.Abort()
	})
}

func TestRivalsWaitLongerAndLonger(t *testing.T) {
	var r Rivals
	now := time.Now()
	for i, most := range []time.Duration{2, 4, 8, 16, 32, 64, 120, 120} {
		r.Connected(now)
		wait, sure := r.Lost(&Refusal{Code: takenOver}, now)
		if most *= time.Second; wait < most/2 || wait > most || !sure {
			t.Errorf("loss %d: wait %v, want up to %v", i+1, wait, most)
		}
	}
	for i, most := range []time.Duration{5000, 5000} {
		if wait, sure := r.Lost(Explain(io.EOF, "read"), now); wait > most*time.Millisecond || wait == 0 || sure {
			t.Errorf("a connection that was closed %d: wait %v", i, wait)
		}
	}
	r.Connected(now)
	if wait, _ := r.Lost(Explain(io.EOF, "read"), now.Add(time.Hour)); wait != 0 {
		t.Errorf("after an hour: wait %v", wait)
	}
	if wait, _ := r.Lost(io.ErrClosedPipe, now); wait != 0 {
		t.Errorf("an outage: wait %v", wait)
	}
}
