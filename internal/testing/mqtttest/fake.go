package mqtttest

import (
	"net"
	"sync"
	"testing"

	"github.com/eclipse/paho.golang/packets"
)

// Fake is a server of version 5 that answers as a test says.
type Fake struct {
	URL      string
	listener net.Listener
	loops    sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	answer  func(n int, got *packets.ControlPacket) []packets.Packet
	conns   map[net.Conn]bool
	dialled int
}

// Hangup, as an answer, ends the connection.
type Hangup struct{ packets.Packet }

// StartFake starts a fake. The function gets each packet that comes on connection n, counted from 1, and gives the
// answers; it must answer the CONNECT.
func StartFake(t testing.TB, answer func(n int, got *packets.ControlPacket) []packets.Packet) *Fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &Fake{URL: "mqtt://" + l.Addr().String(), listener: l, answer: answer, conns: map[net.Conn]bool{}}
	f.loops.Go(f.accept)
	t.Cleanup(func() {
		l.Close()
		f.mu.Lock()
		for c := range f.conns {
			c.Close()
		}
		f.mu.Unlock()
		f.loops.Wait()
	})
	return f
}

// Dialled is how often a client has connected.
func (f *Fake) Dialled() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dialled
}

func (f *Fake) accept() {
	for {
		c, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		f.dialled++
		n := f.dialled
		f.conns[c] = true
		f.mu.Unlock()
		f.loops.Go(func() {
			defer c.Close()
			f.serve(c, n)
		})
	}
}

func (f *Fake) serve(c net.Conn, n int) {
	for {
		got, err := packets.ReadPacket(c)
		if err != nil {
			return
		}
		f.mu.Lock()
		answers := f.answer(n, got)
		f.mu.Unlock()
		for _, a := range answers {
			if _, ends := a.(Hangup); ends {
				return
			}
			if _, err := a.WriteTo(c); err != nil {
				return
			}
		}
	}
}

// Usual is what a server answers that takes everything.
func Usual(got *packets.ControlPacket) []packets.Packet {
	props := &packets.Properties{}
	switch p := got.Content.(type) {
	case *packets.Connect:
		return []packets.Packet{&packets.Connack{Properties: props}}
	case *packets.Subscribe:
		reasons := make([]byte, len(p.Subscriptions))
		for i, s := range p.Subscriptions {
			reasons[i] = s.QoS
		}
		return []packets.Packet{&packets.Suback{PacketID: p.PacketID, Reasons: reasons, Properties: props}}
	case *packets.Publish:
		switch p.QoS {
		case 1:
			return []packets.Packet{&packets.Puback{PacketID: p.PacketID, Properties: props}}
		case 2:
			return []packets.Packet{&packets.Pubrec{PacketID: p.PacketID, Properties: props}}
		}
	case *packets.Pubrel:
		return []packets.Packet{&packets.Pubcomp{PacketID: p.PacketID, Properties: props}}
	case *packets.Pingreq:
		return []packets.Packet{&packets.Pingresp{}}
	case *packets.Disconnect:
		return []packets.Packet{Hangup{}}
	}
	return nil
}
