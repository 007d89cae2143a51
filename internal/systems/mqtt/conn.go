// Package mqtt has what the MQTT components share: [Connect] for their configuration, [Dialer] for connections, and
// [Publisher]. The differences between versions 5 and 3.1.1 are behind the interface protocol, in five.go and three.go.
package mqtt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/bounds"
)

// Server has what the server says about itself and the session when it accepts a connection.
type Server struct {
	Present   bool   // it has kept the session of an earlier connection
	ClientID  string // that it has assigned; "": none
	Receive   int    // the most messages that may be in flight to it
	MaxPacket int    // the largest packet that it accepts, in bytes
	MaxQoS    byte
	NoRetain  bool   // it does not support retained messages
	Expiry    uint32 // how long it keeps the session after the connection, in seconds
}

// Handler gets the packets that a server sends, one at a time, except the answers to pings and subscriptions. It reports
// whether the packet was expected, such as an answer. It must return when the connection is gone.
type Handler func(c *Conn, p *Packet) (expected bool)

// Conn is a connection to a server. Its methods may be called from any goroutine.
type Conn struct {
	Server  Server
	Address string // without user and password

	proto   protocol
	raw     net.Conn
	in      *bufio.Reader
	most    int           // the largest packet that is read, in bytes
	alive   time.Duration // the keep-alive interval
	timeout time.Duration
	handle  Handler
	unasked bounds.Rate // counts packets that were not expected
	loops   sync.WaitGroup

	gone    chan struct{} // closed when the connection is lost or closed
	end     sync.Once     // sets cause and closes gone
	cause   error         // why it is gone
	leaving atomic.Bool   // Close was called: packets are discarded
	over    chan struct{} // closed when the reader has ended

	mu   sync.Mutex // guards the fields below, and keeps packets apart that are written
	out  *bufio.Writer
	asks map[uint16]chan *Packet // by packet id: who waits for the SUBACK
}

func newConn(raw net.Conn, address string, c *Connect, handle Handler) *Conn {
	conn := &Conn{Address: address, proto: five{}, raw: raw, timeout: c.Timeout, alive: c.KeepAlive,
		handle: handle, most: frameLimit, gone: make(chan struct{}), over: make(chan struct{}), asks: map[uint16]chan *Packet{}}
	if c.IsV311() {
		conn.proto = three{}
	}
	const buffer = 32 << 10
	conn.in = bufio.NewReaderSize(readFunc(conn.receive), buffer)
	conn.out = bufio.NewWriterSize(writeFunc(conn.send), buffer)
	return conn
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

type writeFunc func(p []byte) (int, error)

func (f writeFunc) Write(p []byte) (int, error) { return f(p) }

// receive reads from the network. Since the server answers pings, it is considered dead after one and a half keep-alive
// intervals of silence.
func (c *Conn) receive(p []byte) (int, error) {
	_ = c.raw.SetReadDeadline(time.Now().Add(c.alive + c.alive/2))
	n, err := c.raw.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) && !c.leaving.Load() {
		err = fmt.Errorf("the server has been silent for %v", c.alive+c.alive/2)
	}
	return n, err
}

// send writes to the network.
func (c *Conn) send(p []byte) (int, error) {
	_ = c.raw.SetWriteDeadline(time.Now().Add(c.timeout))
	n, err := c.raw.Write(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("the server has read nothing for %v", c.timeout)
	}
	return n, err
}

// handshake sends the CONNECT and reads the server's answer.
func (c *Conn) handshake(h *hello) error {
	if h.session.MaxPacket > 0 {
		c.most = int(h.session.MaxPacket)
	}
	if err := c.proto.connect(c.out, h); err != nil {
		return err
	}
	if err := c.out.Flush(); err != nil {
		return err
	}
	p, err := c.readPacket()
	if err != nil {
		return err
	}
	if p.Kind != packets.CONNACK {
		return fmt.Errorf("the server answers the connection request with a packet of type %d", p.Kind)
	}
	if r := p.Refusal(); r != nil {
		r.onConnect = true
		return r
	}
	c.Server = Server{Present: p.Present, Receive: longest, MaxPacket: frameLimit, MaxQoS: 2, Expiry: h.session.Expiry}
	if p.Props != nil {
		c.applyProperties(p.Props)
	}
	return nil
}

// applyProperties stores the properties of the server's CONNACK.
func (c *Conn) applyProperties(p *Properties) {
	s := &c.Server
	s.ClientID = p.AssignedClientID
	if v := p.ReceiveMaximum; v != nil && *v > 0 {
		s.Receive = int(*v)
	}
	if v := p.MaximumPacketSize; v != nil && *v > 0 {
		s.MaxPacket = min(frameLimit, int(*v))
	}
	if v := p.MaximumQOS; v != nil {
		s.MaxQoS = *v
	}
	if v := p.SessionExpiryInterval; v != nil {
		s.Expiry = *v
	}
	if v := p.ServerKeepAlive; v != nil && *v > 0 {
		c.alive = min(c.alive, time.Duration(*v)*time.Second)
	}
	s.NoRetain = p.RetainAvailable != nil && *p.RetainAvailable == 0
}

// run starts the goroutines that read and ping until the connection is gone.
func (c *Conn) run() {
	c.loops.Go(c.readLoop)
	c.loops.Go(c.pingLoop)
}

// readPacket reads a packet.
func (c *Conn) readPacket() (p *Packet, err error) {
	defer engine.Recovered(&err)
	head, body, err := readFrame(c.in, c.most)
	if err != nil {
		return nil, err
	}
	return c.proto.decode(head, body)
}

// mostUnasked is how many unexpected packets a server may send within a second. A server that has lost its state may
// answer up to 65535 packets that were in flight.
const mostUnasked = 100_000

var errUnasked = fmt.Errorf("the server has sent over %d unexpected packets within a second", mostUnasked)

// readLoop reads packets and hands them to whoever waits for them, until the connection is gone.
func (c *Conn) readLoop() {
	defer close(c.over)
	for {
		p, err := c.readPacket()
		if err != nil {
			c.lose(err)
			return
		}
		if c.leaving.Load() {
			continue
		}
		expected := false
		switch p.Kind {
		case packets.PINGRESP:
		case packets.DISCONNECT:
			if p.Code < refused {
				c.lose(io.EOF)
			} else {
				c.lose(p.Refusal())
			}
			return
		case packets.SUBACK:
			c.mu.Lock()
			ask := c.asks[p.ID]
			delete(c.asks, p.ID)
			c.mu.Unlock()
			if expected = ask != nil; expected {
				ask <- p
			}
		default:
			expected = c.handle(c, p)
		}
		if !expected && c.unasked.Over(mostUnasked) {
			c.lose(errUnasked)
			return
		}
	}
}

// pingLoop sends pings, so that each side hears from the other within the keep-alive interval.
func (c *Conn) pingLoop() {
	t := time.NewTicker(c.alive / 2)
	defer t.Stop()
	for {
		select {
		case <-c.gone:
			return
		case <-t.C:
			_ = c.write(func(w *bufio.Writer) error {
				_, err := w.Write(pingRequest)
				return err
			})
		}
	}
}

// lose ends the connection because of err.
func (c *Conn) lose(err error) {
	c.end.Do(func() {
		c.cause = err
		close(c.gone)
	})
	c.raw.Close()
}

// Fail ends the connection. [Conn.Cause] then returns err.
func (c *Conn) Fail(err error) { c.lose(err) }

// Gone returns a channel that is closed when the connection is lost or closed.
func (c *Conn) Gone() <-chan struct{} { return c.gone }

// Alive reports whether the connection is neither lost nor closed.
func (c *Conn) Alive() bool {
	select {
	case <-c.gone:
		return false
	default:
		return true
	}
}

// Cause waits until the connection is gone, and returns the reason.
func (c *Conn) Cause() error {
	<-c.gone
	return Explain(c.cause, "connection to "+c.Address)
}

// write calls f and flushes. An error ends the connection.
func (c *Conn) write(f func(w *bufio.Writer) error) error {
	c.mu.Lock()
	err := f(c.out)
	if err == nil {
		err = c.out.Flush()
	}
	c.mu.Unlock()
	if err != nil {
		c.lose(err)
	}
	return err
}

// Reply sends acknowledgements.
func (c *Conn) Reply(all ...Reply) error {
	return c.write(func(w *bufio.Writer) error {
		for _, r := range all {
			if err := reply(w, r.Kind, r.ID); err != nil {
				return err
			}
		}
		return nil
	})
}

// Reply is an acknowledgement of a packet.
type Reply struct {
	Kind byte // such as packets.PUBACK
	ID   uint16
}

// Subscribe subscribes, and returns the reason code of each subscription. It waits for the answer until ctx ends or the
// connection is gone. The server may send messages before the answer, which is not read while the [Handler] waits. Only one
// Subscribe may run at a time.
func (c *Conn) Subscribe(ctx context.Context, all []Subscription) ([]byte, error) {
	const id = 1 // no other packet of this client has an id while it subscribes
	ask := make(chan *Packet, 1)
	err := c.write(func(w *bufio.Writer) error {
		c.asks[id] = ask
		return c.proto.subscribe(w, id, all)
	})
	if err != nil {
		return nil, Explain(err, "subscribe")
	}
	var answer *Packet
	select {
	case answer = <-ask:
	case <-c.gone:
		select {
		case answer = <-ask: // the answer came before the connection was lost
		default:
			return nil, c.Cause()
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if len(answer.Codes) != len(all) {
		return nil, engine.Errorf(engine.Transient, "subscribe: the server answers for %d of %d filters",
			len(answer.Codes), len(all))
	}
	return answer.Codes, nil
}

// RefusalOf returns the error that a reason code of a subscription means, or nil if the subscription was granted.
func RefusalOf(code byte) error { return asError((&Packet{Code: code}).Refusal()) }

func asError(r *Refusal) error {
	if r == nil {
		return nil
	}
	return r
}

var errClosed = errors.New("the connection is closed")

// closeTimeout is how long the server may take to close the connection after a DISCONNECT.
const closeTimeout = 2 * time.Second

// Close sends a DISCONNECT, so that the server does not publish the will, and waits until the server closes the connection.
// Without waiting, unread data from the server could reset the connection, and acknowledgements in transit would be lost.
func (c *Conn) Close(ctx context.Context) {
	c.leaving.Store(true)
	c.end.Do(func() {
		c.cause = errClosed
		close(c.gone)
	})
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if c.write(func(w *bufio.Writer) error {
		_, err := w.Write(disconnect)
		return err
	}) == nil {
		select {
		case <-c.over:
		case <-ctx.Done():
		}
	}
	c.raw.Close()
	c.loops.Wait()
}

// Abort ends the connection without a DISCONNECT, and waits until its goroutines have ended.
func (c *Conn) Abort() {
	c.lose(errClosed)
	c.loops.Wait()
}
