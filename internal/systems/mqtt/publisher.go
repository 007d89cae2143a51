package mqtt

import (
	"bufio"
	"context"
	"fmt"
	"sync"

	"github.com/eclipse/paho.golang/packets"
	"github.com/flowd-io/flowd/engine"
)

// Outgoing is a message to publish, and how that ended.
type Outgoing struct {
	Message
	M *engine.Message

	State State    // set by Publish, until it returns
	No    *Refusal // why the server has not taken it; nil: it has
}

// State is how far a message has come.
type State uint8

// The states of a message.
const (
	Unsent State = iota // the server does not have it
	Sent                // the server may have it
	Over                // the server has answered
)

// Publisher publishes on a connection; several goroutines may use it at once.
type Publisher struct {
	*Conn
	free chan uint16 // numbers of packets that may be sent; so many are in flight at most

	mu      sync.Mutex // guards the field below, and what it refers to
	waiting []waiting  // by number
}

// waiting is who waits for the answer to a packet.
type waiting struct {
	out *Outgoing // nil: nobody
	of  *flight
}

// flight is one Publish.
type flight struct {
	left int // messages that are not over
	all  bool
	done chan struct{} // closed when all were sent and none is left
}

// mostAnswer is the largest packet that a publisher reads, in bytes: a reason, and properties.
const mostAnswer = 1 << 20

// Publisher connects, for publishing of up to window messages at a time, if the server takes as many. The session ends
// with the connection, since what is not confirmed is the engine's to send again.
func (d *Dialer) Publisher(ctx context.Context, clientID string, window int) (*Publisher, error) {
	p := &Publisher{}
	session := Session{ClientID: clientID, Clean: true, MaxPacket: mostAnswer}
	conn, err := d.Dial(ctx, session, p.answered)
	if err != nil {
		return nil, err
	}
	window = min(window, conn.Server.Receive)
	p.free = make(chan uint16, window)
	for id := range window {
		p.free <- uint16(id + 1)
	}
	p.mu.Lock()
	p.Conn, p.waiting = conn, make([]waiting, window+1)
	p.mu.Unlock()
	return p, nil
}

// Publish publishes messages and waits until the server has confirmed all of them, those of QoS 0 until they are on
// their way. An error says why some of them are not over: their connection is gone.
func (p *Publisher) Publish(ctx context.Context, all []*Outgoing) error {
	f := &flight{done: make(chan struct{})}
	err := p.send(ctx, f, all)
	p.mu.Lock()
	if f.all = true; f.left == 0 {
		close(f.done)
	}
	p.mu.Unlock()
	if err == nil {
		err = p.await(ctx, f)
	}
	if err != nil { // no answer changes a message from here on
		p.mu.Lock()
		for i := range p.waiting {
			if p.waiting[i].of == f {
				p.waiting[i] = waiting{}
			}
		}
		p.mu.Unlock()
	}
	return err
}

// await waits until nothing of a flight is left.
func (p *Publisher) await(ctx context.Context, f *flight) error {
	select {
	case <-f.done:
		return nil
	case <-p.gone:
	case <-ctx.Done():
		p.lose(fmt.Errorf("the server did not confirm in time: %w", ctx.Err()))
	}
	select {
	case <-f.done: // at the same time
		return nil
	default:
		return p.Cause()
	}
}

// send sends messages, as fast as the server lets it.
func (p *Publisher) send(ctx context.Context, f *flight, all []*Outgoing) error {
	var unconfirmed []*Outgoing // of QoS 0, and not flushed
	flush := func() error {
		if err := p.write(func(*bufio.Writer) error { return nil }); err != nil {
			return p.Cause()
		}
		for _, o := range unconfirmed {
			o.State = Over
		}
		unconfirmed = unconfirmed[:0]
		return nil
	}
	for _, o := range all {
		if o.QoS > 0 {
			id, err := p.number(ctx, flush)
			if err != nil {
				return err
			}
			p.mu.Lock()
			o.ID, o.State, f.left = id, Sent, f.left+1
			p.waiting[id] = waiting{o, f}
			p.mu.Unlock()
		} else {
			o.State = Sent
			unconfirmed = append(unconfirmed, o)
		}
		p.Conn.mu.Lock()
		err := p.proto.publish(p.out, &o.Message)
		p.Conn.mu.Unlock()
		if err != nil {
			p.lose(err)
			return p.Cause()
		}
	}
	return flush()
}

// number is that of a packet that may be sent. Before it waits for one, what was written goes out.
func (p *Publisher) number(ctx context.Context, flush func() error) (uint16, error) {
	select {
	case id := <-p.free:
		return id, nil
	default:
	}
	if err := flush(); err != nil {
		return 0, err
	}
	select {
	case id := <-p.free:
		return id, nil
	case <-p.gone:
	case <-ctx.Done():
		p.lose(fmt.Errorf("the server did not confirm in time: %w", ctx.Err()))
	}
	return 0, p.Cause()
}

// answered takes what the server says of a packet.
func (p *Publisher) answered(c *Conn, got *Packet) (asked bool) {
	no := got.Refusal()
	if got.Kind == packets.PUBREC && no == nil {
		_ = c.Reply(Reply{packets.PUBREL, got.ID})
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.waits(got.ID)
	}
	if got.Kind != packets.PUBACK && got.Kind != packets.PUBCOMP && got.Kind != packets.PUBREC {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.waits(got.ID) {
		return false
	}
	w := p.waiting[got.ID]
	p.waiting[got.ID] = waiting{}
	w.out.State, w.out.No = Over, no
	p.free <- got.ID // it has room for all
	if w.of.left--; w.of.left == 0 && w.of.all {
		close(w.of.done)
	}
	return true
}

// waits reports whether a message of that number waits for answers; p.mu is held.
func (p *Publisher) waits(id uint16) bool {
	return int(id) < len(p.waiting) && p.waiting[id].out != nil
}

// Size is how many bytes the packet of a message has, if that may be more than the server takes.
func (p *Publisher) Size(m *Message) (n int, tooLarge bool) {
	if n = m.size(); n <= p.Server.MaxPacket {
		return n, false
	}
	n = 0
	_ = p.proto.publish(writeFunc(func(b []byte) (int, error) {
		n += len(b)
		return len(b), nil
	}), m)
	return n, n > p.Server.MaxPacket
}

// size is no less than the bytes of a message's packet.
func (m *Message) size() int {
	n := 16 + len(m.Topic) + len(m.Payload)
	if p := m.Properties; p != nil {
		n += 32 + len(p.ContentType) + len(p.ResponseTopic) + len(p.CorrelationData)
		for _, u := range p.User {
			n += 5 + len(u.Key) + len(u.Value)
		}
	}
	return n
}
