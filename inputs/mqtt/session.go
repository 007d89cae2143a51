package mqtt

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/eclipse/paho.golang/packets"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/source"
	"github.com/flowd-io/flowd/internal/state/watermark"
	"github.com/flowd-io/flowd/internal/systems/mqtt"
)

// session is one connection. It acknowledges its own messages, because packet ids are only valid on their connection.
type session struct {
	in          *input
	conn        *mqtt.Conn
	some        source.Signal // set when a message is queued
	room        source.Signal // set when messages were read or settled
	full        source.Signal // set when a message waits for room
	subscribing sync.WaitGroup

	mu      sync.Mutex             // guards the fields below
	queue   []delivery             // messages that were not read yet
	size    int                    // bytes of their payloads
	read    watermark.Marks[ackOf] // acknowledgements of messages that were read
	next    uint64                 // position of the next message to read
	unacked int                    // number of messages that were read and not acknowledged
	replies []mqtt.Reply           // acknowledgements to send
	settled map[uint16]bool        // packet ids of QoS 2 messages that are settled, without a PUBREL from the server yet
}

// delivery is a message that has arrived.
type delivery struct {
	*mqtt.Message
	skip bool // it is acknowledged, but not read
}

// ackOf is the acknowledgement of a delivery.
type ackOf struct {
	mqtt.Reply
	skip bool
}

// newSession makes a connection and subscribes.
func (in *input) newSession(ctx context.Context) (*session, error) {
	who := mqtt.Session{ClientID: in.clientID, Expiry: in.cfg.expiry(), Receive: uint16(in.cfg.Prefetch),
		MaxPacket: uint32(in.cfg.MaxPacket)}
	if in.cfg.CleanStart && !in.cleaned {
		if who.Clean = true; in.cfg.IsV311() && who.Expiry > 0 {
			// A clean session of version 3.1.1 ends with its connection. A first connection therefore only discards the old session.
			if err := in.discardSession(ctx, who); err != nil {
				return nil, err
			}
			who.Clean = false
		}
	}
	s := &session{in: in, some: source.NewSignal(), room: source.NewSignal(), full: source.NewSignal(),
		settled: map[uint16]bool{}}
	for id := range in.settled {
		s.settled[id] = true
	}
	conn, err := in.dialer.Dial(ctx, who, s.arrived)
	if err != nil {
		return nil, err
	}
	s.conn, in.cleaned = conn, true
	if err := s.resume(ctx); err != nil {
		s.close(ctx)
		return nil, err
	}
	return s, nil
}

// discardSession makes the server discard its session for this client.
func (in *input) discardSession(ctx context.Context, who mqtt.Session) error {
	who.Expiry = 0
	conn, err := in.dialer.Dial(ctx, who, func(*mqtt.Conn, *mqtt.Packet) bool { return true })
	if err == nil {
		conn.Close(ctx)
	}
	return err
}

// resume subscribes, unless the server's session already has the subscriptions of this process.
func (s *session) resume(ctx context.Context) error {
	in, server := s.in, &s.conn.Server
	s.mu.Lock()
	in.inherited = in.inherited || server.Present && !in.subscribed
	if !server.Present {
		clear(s.settled)
	}
	s.mu.Unlock()
	if !server.Present && in.subscribed && in.cfg.acknowledges() {
		in.log.Error("the server has lost the session: messages that it kept for this client, or received meanwhile, are lost",
			"client_id", in.clientID)
	}
	if server.Expiry < in.cfg.expiry() && !in.subscribed {
		in.log.Warn("the server keeps the session for less than session_expiry", "seconds", server.Expiry)
	}
	if server.Present && in.subscribed && in.cfg.Retained != always {
		return nil
	}
	return s.subscribe(ctx)
}

// subscribe requests the subscriptions. Messages of the session may arrive before the answer. If there are more than there is
// room for, subscribe returns so that they can be read. A refusal then ends the connection later.
func (s *session) subscribe(ctx context.Context) error {
	answer := make(chan error, 1)
	s.subscribing.Go(func() {
		err := s.sendSubscribe(context.WithoutCancel(ctx))
		if answer <- err; err != nil {
			s.conn.Fail(err)
		}
	})
	limit := s.in.cfg.Timeout
	short, cancel := context.WithTimeoutCause(ctx, limit,
		engine.Errorf(engine.Transient, "subscribe: the server does not answer within %v", limit))
	defer cancel()
	select {
	case err := <-answer:
		return err
	case <-s.full:
		return nil
	case <-short.Done():
		return context.Cause(short)
	}
}

// sendSubscribe requests the subscriptions, and waits for the answer.
func (s *session) sendSubscribe(ctx context.Context) error {
	in, requested := s.in, s.in.cfg.subscriptions()
	codes, err := s.conn.Subscribe(ctx, requested)
	if err != nil {
		return err
	}
	for i, code := range codes {
		if err := mqtt.RefusalOf(code); err != nil {
			return mqtt.Explain(err, "subscribe to "+requested[i].Filter)
		}
		if code < requested[i].QoS {
			in.log.Warn(fmt.Sprintf("the server grants a lower QoS than asked for: %d", code), "filter", requested[i].Filter)
		}
	}
	in.subscribed = true
	return nil
}

// Close closes the connection. The server keeps unacknowledged messages.
func (s *session) Close(ctx context.Context, _ bool) error {
	s.close(ctx)
	s.in.settled = s.settledIDs()
	return nil
}

func (s *session) close(ctx context.Context) {
	s.conn.Close(ctx)
	s.subscribing.Wait()
}

// arrived handles a packet of the server, and reports whether the packet was expected. While there is no room for a message, it
// blocks, so that the server must wait as well.
func (s *session) arrived(c *mqtt.Conn, p *mqtt.Packet) (expected bool) {
	switch p.Kind {
	case packets.PUBLISH:
		s.enqueue(c, p.Message)
		return true
	case packets.PUBREL:
		s.mu.Lock()
		expected = s.settled[p.ID]
		delete(s.settled, p.ID)
		s.mu.Unlock()
		_ = c.Reply(mqtt.Reply{Kind: packets.PUBCOMP, ID: p.ID})
	}
	return expected
}

// enqueue adds a message to the queue. It waits until there is room.
func (s *session) enqueue(c *mqtt.Conn, m *mqtt.Message) {
	for {
		s.mu.Lock()
		if len(s.queue)+s.unacked < s.in.cfg.Prefetch && (len(s.queue) == 0 || s.size < s.in.maxBytes) {
			s.warnOfRemoved(m.Topic)
			s.queue = append(s.queue, delivery{m, s.skipped(m)})
			s.size += len(m.Payload)
			s.mu.Unlock()
			s.some.Set()
			return
		}
		s.mu.Unlock()
		s.full.Set()
		select {
		case <-s.room:
		case <-c.Gone():
			return
		}
	}
}

// warnOfRemoved logs once that the session of an earlier process has a subscription that the configuration lacks. s.mu is held.
func (s *session) warnOfRemoved(topic string) {
	in := s.in
	matches := func(t Topic) bool { return mqtt.Matches(t.Filter, topic) }
	if !in.inherited || slices.ContainsFunc(in.cfg.Topics, matches) {
		return
	}
	in.inherited = false
	in.log.Warn("the session still has a filter that is not in topics any more, and its messages arrive (set clean_start: true for one"+
		" start, or choose another client_id)", "client_id", in.clientID, "topic", topic)
}

// skipped reports whether a message is acknowledged without being read: it is settled and the server sends it again, or it is
// retained and retained is never. A QoS 2 message that is not a duplicate is new, even if its packet id was in use: the server has
// given up the old message. s.mu is held.
func (s *session) skipped(m *mqtt.Message) bool {
	if m.QoS == 2 && s.settled[m.ID] {
		if m.Dup {
			return true
		}
		delete(s.settled, m.ID)
	}
	return m.Retain && s.in.cfg.Retained == never
}

// replyTo returns the acknowledgement of a message. With QoS 0, its Kind is 0, and it is not sent.
func replyTo(m *mqtt.Message) mqtt.Reply {
	return mqtt.Reply{Kind: [...]byte{0, packets.PUBACK, packets.PUBREC}[m.QoS], ID: m.ID}
}

// readQueue waits for a message, and adds all that have arrived.
func (s *session) readQueue(ctx context.Context, b *engine.Batch) error {
	for {
		if s.addQueued(b) {
			return nil
		}
		select {
		case <-s.some:
		case <-s.conn.Gone():
			return s.conn.Cause()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// addQueued adds queued messages to b, as many as there is room for. It reports whether it has added any.
func (s *session) addQueued(b *engine.Batch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.conn.Alive() {
		s.queue = slices.DeleteFunc(s.queue, s.redelivered)
	}
	n := min(len(s.queue), b.Room())
	if n == 0 {
		return false
	}
	records := make(mqtt.Records, 0, n)
	meta := engine.MetaFrom(&records)
	acks := make([]ackOf, 0, n)
	for len(acks) < len(s.queue) && b.Room() > 0 {
		d := s.queue[len(acks)]
		if !d.skip {
			m := b.Add(d.Payload)
			m.Meta, m.Ref = meta.At(len(records)), s.next+uint64(len(acks))
			records = append(records, mqtt.RecordOf(d.Message))
		}
		acks = append(acks, ackOf{replyTo(d.Message), d.skip})
		s.size -= len(d.Payload)
	}
	s.next += uint64(len(acks))
	s.unacked += len(acks)
	s.replies = s.replies[:0]
	s.read.Read(acks, func(a ackOf) bool { return a.skip }, s.noteSettled)
	s.sendReplies()
	left := copy(s.queue, s.queue[len(acks):])
	clear(s.queue[left:])
	s.queue = s.queue[:left]
	s.room.Set()
	return len(records) > 0
}

// redelivered reports whether the server will redeliver a message on the next connection.
func (s *session) redelivered(d delivery) bool { return d.skip || d.QoS > 0 && s.in.cfg.acknowledges() }

// Ack acknowledges messages up to the first one that is not settled. On a lost connection, nothing is sent: the server redelivers its
// messages.
func (s *session) Ack(_ context.Context, results []engine.Result) ([]engine.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies = s.replies[:0]
	s.read.Ack(results, s.noteSettled)
	s.sendReplies()
	s.room.Set()
	return nil, nil
}

// noteSettled adds acknowledgements to replies. s.mu is held.
func (s *session) noteSettled(all []ackOf) {
	s.unacked -= len(all)
	for _, a := range all {
		if a.Kind == 0 {
			continue
		}
		if a.Kind == packets.PUBREC {
			s.settled[a.ID] = true
		}
		s.replies = append(s.replies, a.Reply)
	}
}

// sendReplies sends replies. s.mu is held.
func (s *session) sendReplies() {
	if len(s.replies) == 0 || !s.conn.Alive() {
		return
	}
	if err := s.conn.Reply(s.replies...); err != nil {
		s.in.log.Debug("acknowledgements are lost with their connection: the server redelivers these messages",
			"err", err)
	}
}

// settledIDs returns the packet ids of settled QoS 2 messages.
func (s *session) settledIDs() map[uint16]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settled
}
