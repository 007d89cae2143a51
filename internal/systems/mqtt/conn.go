// Package mqtt is what the MQTT components share: [Connect] in their configuration, a [Dialer] that makes connections
// with it, and a [Publisher]. What differs between versions 5 and 3.1.1 is in five.go and three.go, behind protocol.
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

// Server is what the server has said about itself when it took the connection.
type Server struct {
	Present   bool   // it knows the session
	ClientID  string // that it has assigned; "": none
	Receive   int    // the most messages that may be in flight to it
	MaxPacket int    // the largest packet that it takes
	MaxQoS    byte
	NoRetain  bool
	Expiry    uint32 // how long it keeps the session, in seconds
}

// Conn is a connection.
type Conn struct {
	Server  Server
	Address string // without user and password

	proto   protocol
	raw     net.Conn
	in      *bufio.Reader
	most    int // the largest packet that is read
	alive   time.Duration
	timeout time.Duration
	got     func(*Conn, *Packet) (asked bool)
	unasked bounds.Rate // packets that answer nothing
	loops   sync.WaitGroup

	gone    chan struct{} // closed when the connection is lost, or closed
	end     sync.Once     // sets cause and closes gone
	cause   error         // why it is gone
	leaving atomic.Bool   // by Close: what still comes is thrown away
	over    chan struct{} // closed when nothing is read any more

	mu   sync.Mutex // guards the fields below, and what is written
	out  *bufio.Writer
	asks map[uint16]chan *Packet // of subscriptions
}

func newConn(raw net.Conn, address string, c *Connect, got func(*Conn, *Packet) (asked bool)) *Conn {
	conn := &Conn{Address: address, proto: five{}, raw: raw, timeout: c.Timeout, alive: c.KeepAlive,
		got: got, most: frameLimit, gone: make(chan struct{}), over: make(chan struct{}), asks: map[uint16]chan *Packet{}}
	if c.Old() {
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

// receive reads from the network. The server is given up if it says nothing for too long: it answers pings.
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

// begin makes the handshake.
func (c *Conn) begin(h *hello) error {
	if h.session.MaxPacket > 0 {
		c.most = int(h.session.MaxPacket)
	}
	if err := c.proto.connect(c.out, h); err != nil {
		return err
	}
	if err := c.out.Flush(); err != nil {
		return err
	}
	p, err := c.next()
	if err != nil {
		return err
	}
	if p.Kind != packets.CONNACK {
		return fmt.Errorf("the server answers with a packet of type %d", p.Kind)
	}
	if r := p.Refusal(); r != nil {
		r.door = true
		return r
	}
	c.Server = Server{Present: p.Present, Receive: longest, MaxPacket: frameLimit, MaxQoS: 2, Expiry: h.session.Expiry}
	if p.Props != nil {
		c.learn(p.Props)
	}
	return nil
}

// learn takes what the server has said about itself.
func (c *Conn) learn(p *Properties) {
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

// run starts what goes on until the connection is gone.
func (c *Conn) run() {
	c.loops.Go(c.reads)
	c.loops.Go(c.pings)
}

// next reads a packet.
func (c *Conn) next() (p *Packet, err error) {
	defer engine.Recovered(&err)
	head, body, err := readFrame(c.in, c.most)
	if err != nil {
		return nil, err
	}
	return c.proto.decode(head, body)
}

// mostUnasked is how many packets that answer nothing a server may send within a second. One that has lost its memory
// answers all that was under way, which are 65535 packets.
const mostUnasked = 100_000

var errUnasked = fmt.Errorf("the server has sent over %d packets within a second that nobody has asked for", mostUnasked)

// reads hands on what comes.
func (c *Conn) reads() {
	defer close(c.over)
	for {
		p, err := c.next()
		if err != nil {
			c.lose(err)
			return
		}
		if c.leaving.Load() {
			continue
		}
		asked := false
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
			if asked = ask != nil; asked {
				ask <- p
			}
		default:
			asked = c.got(c, p)
		}
		if !asked && c.unasked.Over(mostUnasked) {
			c.lose(errUnasked)
			return
		}
	}
}

// pings has the server show that it is there.
func (c *Conn) pings() {
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

// lose ends a connection that does not work any more.
func (c *Conn) lose(err error) {
	c.end.Do(func() {
		c.cause = err
		close(c.gone)
	})
	c.raw.Close()
}

// Fail ends a connection that is of no use, for a reason that [Conn.Cause] then gives.
func (c *Conn) Fail(err error) { c.lose(err) }

// Gone is closed when the connection is.
func (c *Conn) Gone() <-chan struct{} { return c.gone }

// Alive says that the connection is not gone.
func (c *Conn) Alive() bool {
	select {
	case <-c.gone:
		return false
	default:
		return true
	}
}

// Cause is why the connection is gone.
func (c *Conn) Cause() error {
	<-c.gone
	return Explain(c.cause, "connection to "+c.Address)
}

// write writes and flushes; an error is the end of the connection.
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

// Reply sends acknowledgements, such as packets.PUBACK, of packets by their numbers.
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

// Reply is an acknowledgement.
type Reply struct {
	Kind byte
	ID   uint16
}

// Subscribe subscribes, and returns the reason code of each subscription. It waits for the answer until ctx ends or the
// connection is gone. What the server sends before its answer goes to the function of [Dialer.Dial]; the answer is not
// read while that waits.
func (c *Conn) Subscribe(ctx context.Context, all []Subscription) ([]byte, error) {
	const id = 1 // nothing else of this client's has a number while it subscribes
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
		case answer = <-ask: // it came before the connection was lost, which its reader then finds
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

// RefusalOf is what a reason code of a subscription means, or nil if it was granted.
func RefusalOf(code byte) error { return asError((&Packet{Code: code}).Refusal()) }

func asError(r *Refusal) error {
	if r == nil {
		return nil
	}
	return r
}

var errClosed = errors.New("it is closed")

// parting is how long the server may take to close its side after a goodbye.
const parting = 2 * time.Second

// Close says goodbye, so that the server publishes no will, and waits until it has read that: data that nobody reads
// would have the connection reset, and acknowledgements on their way lost.
func (c *Conn) Close(ctx context.Context) {
	c.leaving.Store(true)
	c.end.Do(func() {
		c.cause = errClosed
		close(c.gone)
	})
	ctx, cancel := context.WithTimeout(ctx, parting)
	defer cancel()
	if c.write(func(w *bufio.Writer) error {
		_, err := w.Write(farewell)
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

// End waits until nothing of a connection that is lost is running.
func (c *Conn) End() {
	c.lose(errClosed)
	c.loops.Wait()
}
