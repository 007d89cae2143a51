package mqtt

import (
	"bufio"
	"context"
	"fmt"
	"sync"

	"github.com/eclipse/paho.golang/packets"
	"github.com/flowd-io/flowd/engine"
)

// Outgoing is a message to publish, and the result.
type Outgoing struct {
	Message
	M *engine.Message

	State   State    // set by Publish until it returns
	Refused *Refusal // why the server has refused the message; nil: it has not
}

// State is the progress of a message.
type State uint8

// The states of a message.
const (
	Unsent   State = iota // the server does not have the message
	Sent                  // the server may have the message
	Answered              // the server has accepted or refused the message
)

// Publisher publishes on a connection. It is safe for concurrent use.
type Publisher struct {
	*Conn
	free chan uint16 // packet ids that are not in use; their number limits the messages in flight

	mu      sync.Mutex // guards the field below, and what it refers to
	waiting []waiting  // by packet id
}

// waiting is a message that waits for the server's answer.
type waiting struct {
	out   *Outgoing // nil: none
	batch *batch
}

// batch has the messages of one Publish.
type batch struct {
	left int           // messages with QoS 1 or 2 that were sent and not answered
	all  bool          // all messages were sent
	done chan struct{} // closed when all messages were sent and answered
}

// mostAnswer is the largest packet that a publisher reads, in bytes. Its answers have only a reason and properties.
const mostAnswer = 1 << 20

// Publisher connects for publishing. Up to window messages may be in flight, or fewer if the server does not accept as many.
// The session ends with the connection, since the engine resends messages that were not confirmed.
func (d *Dialer) Publisher(ctx context.Context, clientID string, window int) (*Publisher, error) {
	p := &Publisher{}
	session := Session{ClientID: clientID, Clean: true, MaxPacket: mostAnswer}
	conn, err := d.Dial(ctx, session, p.handleAnswer)
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

// Publish publishes messages and waits until the server has answered all of them. Messages with QoS 0 get no answer and need
// only be written. An error means that the connection is gone, so that some messages were not answered.
func (p *Publisher) Publish(ctx context.Context, all []*Outgoing) error {
	b := &batch{done: make(chan struct{})}
	err := p.send(ctx, b, all)
	p.mu.Lock()
	if b.all = true; b.left == 0 {
		close(b.done)
	}
	p.mu.Unlock()
	if err == nil {
		err = p.await(ctx, b)
	}
	if err != nil { // late answers must not change messages that were returned
		p.mu.Lock()
		for i := range p.waiting {
			if p.waiting[i].batch == b {
				p.waiting[i] = waiting{}
			}
		}
		p.mu.Unlock()
	}
	return err
}

// await waits until all messages of a batch are answered.
func (p *Publisher) await(ctx context.Context, b *batch) error {
	select {
	case <-b.done:
		return nil
	case <-p.gone:
	case <-ctx.Done():
		p.lose(fmt.Errorf("the server did not confirm in time: %w", ctx.Err()))
	}
	select {
	case <-b.done: // the last answer came at the same time
		return nil
	default:
		return p.Cause()
	}
}

// send sends messages. It waits for answers whenever as many messages are in flight as the server accepts.
func (p *Publisher) send(ctx context.Context, b *batch, all []*Outgoing) error {
	var unflushed []*Outgoing // with QoS 0
	flush := func() error {
		if err := p.write(func(*bufio.Writer) error { return nil }); err != nil {
			return p.Cause()
		}
		for _, o := range unflushed {
			o.State = Answered
		}
		unflushed = unflushed[:0]
		return nil
	}
	for _, o := range all {
		if o.QoS > 0 {
			id, err := p.packetID(ctx, flush)
			if err != nil {
				return err
			}
			p.mu.Lock()
			o.ID, o.State, b.left = id, Sent, b.left+1
			p.waiting[id] = waiting{o, b}
			p.mu.Unlock()
		} else {
			o.State = Sent
			unflushed = append(unflushed, o)
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

// packetID returns an unused packet id. It flushes before it waits for one.
func (p *Publisher) packetID(ctx context.Context, flush func() error) (uint16, error) {
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

// handleAnswer is a [Handler] of the server's answers to messages.
func (p *Publisher) handleAnswer(c *Conn, got *Packet) (expected bool) {
	refusal := got.Refusal()
	if got.Kind == packets.PUBREC && refusal == nil {
		_ = c.Reply(Reply{packets.PUBREL, got.ID})
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.isWaiting(got.ID)
	}
	if got.Kind != packets.PUBACK && got.Kind != packets.PUBCOMP && got.Kind != packets.PUBREC {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isWaiting(got.ID) {
		return false
	}
	w := p.waiting[got.ID]
	p.waiting[got.ID] = waiting{}
	w.out.State, w.out.Refused = Answered, refusal
	p.free <- got.ID // never waits: the channel has room for all ids
	if w.batch.left--; w.batch.left == 0 && w.batch.all {
		close(w.batch.done)
	}
	return true
}

// isWaiting reports whether a message with this packet id waits for an answer. p.mu must be held.
func (p *Publisher) isWaiting(id uint16) bool {
	return int(id) < len(p.waiting) && p.waiting[id].out != nil
}

// Size reports whether the packet of a message is larger than the server accepts. n is the size of the packet in bytes, which
// is exact if tooLarge is true.
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

// size returns an upper bound of the size of a message's packet, in bytes.
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
