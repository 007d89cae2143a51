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

// session is one connection. It gets the acks of its own messages, because packet numbers belong to a connection.
type session struct {
	in   *input
	conn *mqtt.Conn
	some source.Signal // something is queued
	room source.Signal // something was read, or settled
	full source.Signal // a message waits for room
	asks sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	queue   []delivery
	size    int                     // of their payloads
	out     watermark.Marks[answer] // what was read
	next    uint64                  // the position of what is read next
	unacked int                     // how many were read and are not settled up to where all before them are
	replies []mqtt.Reply
	settled map[uint16]bool // messages of QoS 2, by number, of which the server has not yet said that it knows
}

// delivery is what has come.
type delivery struct {
	*mqtt.Message
	skip bool // it is only acknowledged
}

// answer is how a delivery is acknowledged.
type answer struct {
	mqtt.Reply
	skip bool
}

// connect makes a session.
func (in *input) connect(ctx context.Context) (*session, error) {
	who := mqtt.Session{ClientID: in.clientID, Expiry: in.cfg.expiry(), Receive: uint16(in.cfg.Prefetch),
		MaxPacket: uint32(in.cfg.MaxPacket)}
	if in.cfg.CleanStart && !in.cleaned {
		if who.Clean = true; in.cfg.Old() && who.Expiry > 0 {
			// A clean session of version 3.1.1 ends with its connection, so it only clears the way.
			if err := in.clear(ctx, who); err != nil {
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
	if err := s.begin(ctx); err != nil {
		s.close(ctx)
		return nil, err
	}
	return s, nil
}

// clear ends the session that the server has for this client.
func (in *input) clear(ctx context.Context, who mqtt.Session) error {
	who.Expiry = 0
	conn, err := in.dialer.Dial(ctx, who, func(*mqtt.Conn, *mqtt.Packet) bool { return true })
	if err == nil {
		conn.Close(ctx)
	}
	return err
}

// begin subscribes, unless the server's session has the subscriptions of this process.
func (s *session) begin(ctx context.Context) error {
	in, server := s.in, &s.conn.Server
	if !server.Present {
		s.mu.Lock()
		clear(s.settled)
		s.mu.Unlock()
	}
	if !server.Present && in.subscribed && in.cfg.acknowledges() {
		in.log.Error("the server has lost the session: messages that it had for this client, or got meanwhile, are gone",
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

// subscribe asks for the subscriptions. The answer can stand behind more of the session's messages than there is room
// for: then those are read first, and a refusal ends the connection when it comes.
func (s *session) subscribe(ctx context.Context) error {
	answer := make(chan error, 1)
	s.asks.Go(func() {
		err := s.ask(context.WithoutCancel(ctx))
		if answer <- err; err != nil {
			s.conn.Fail(err)
		}
	})
	limit := s.in.cfg.Timeout
	soon, cancel := context.WithTimeoutCause(ctx, limit,
		engine.Errorf(engine.Transient, "subscribe: the server does not answer within %v", limit))
	defer cancel()
	select {
	case err := <-answer:
		return err
	case <-s.full:
		return nil
	case <-soon.Done():
		return context.Cause(soon)
	}
}

// ask waits for the answer of the server.
func (s *session) ask(ctx context.Context) error {
	in, asked := s.in, s.in.cfg.subscriptions()
	codes, err := s.conn.Subscribe(ctx, asked)
	if err != nil {
		return err
	}
	for i, code := range codes {
		if err := mqtt.RefusalOf(code); err != nil {
			return mqtt.Explain(err, "subscribe to "+asked[i].Filter)
		}
		if code < asked[i].QoS {
			in.log.Warn(fmt.Sprintf("the server grants a lower QoS than asked for: %d", code), "filter", asked[i].Filter)
		}
	}
	in.subscribed = true
	return nil
}

// Close ends the connection. The server keeps what is not acknowledged.
func (s *session) Close(ctx context.Context, _ bool) error {
	s.close(ctx)
	s.in.settled = s.remembered()
	return nil
}

func (s *session) close(ctx context.Context) {
	s.conn.Close(ctx)
	s.asks.Wait()
}

// arrived handles what the server sends. It waits while there is no room, so that the server has to wait, too.
func (s *session) arrived(c *mqtt.Conn, p *mqtt.Packet) (asked bool) {
	switch p.Kind {
	case packets.PUBLISH:
		s.enqueue(c, p.Message)
		return true
	case packets.PUBREL:
		s.mu.Lock()
		asked = s.settled[p.ID]
		delete(s.settled, p.ID)
		s.mu.Unlock()
		_ = c.Reply(mqtt.Reply{Kind: packets.PUBCOMP, ID: p.ID})
	}
	return asked
}

func (s *session) enqueue(c *mqtt.Conn, m *mqtt.Message) {
	for {
		s.mu.Lock()
		if len(s.queue)+s.unacked < s.in.cfg.Prefetch && (len(s.queue) == 0 || s.size < s.in.mostSize) {
			s.queue = append(s.queue, delivery{m, s.unwanted(m)})
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

// unwanted says that a message is one that the server sends again although it is settled, or that it has retained; s.mu
// is held. A number of QoS 2 that is not a duplicate's is that of a new message: the server has given up the old one.
func (s *session) unwanted(m *mqtt.Message) bool {
	if m.QoS == 2 && s.settled[m.ID] {
		if m.Dup {
			return true
		}
		delete(s.settled, m.ID)
	}
	return m.Retain && s.in.cfg.Retained == never
}

// ack is how a message is acknowledged; with QoS 0 it is not.
func ack(m *mqtt.Message) mqtt.Reply {
	return mqtt.Reply{Kind: [...]byte{0, packets.PUBACK, packets.PUBREC}[m.QoS], ID: m.ID}
}

// read waits for a message and adds all that have arrived.
func (s *session) read(ctx context.Context, b *engine.Batch) error {
	for {
		if s.take(b) {
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

// take adds what is queued, and says whether that was anything.
func (s *session) take(b *engine.Batch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.conn.Alive() {
		s.queue = slices.DeleteFunc(s.queue, s.comesAgain)
	}
	n := min(len(s.queue), b.Room())
	if n == 0 {
		return false
	}
	records := make(mqtt.Records, 0, n)
	meta := engine.MetaFrom(&records)
	answers := make([]answer, 0, n)
	for len(answers) < len(s.queue) && b.Room() > 0 {
		d := s.queue[len(answers)]
		if !d.skip {
			m := b.Add(d.Payload)
			m.Meta, m.Ref = meta.At(len(records)), s.next+uint64(len(answers))
			records = append(records, mqtt.RecordOf(d.Message))
		}
		answers = append(answers, answer{ack(d.Message), d.skip})
		s.size -= len(d.Payload)
	}
	s.next += uint64(len(answers))
	s.unacked += len(answers)
	s.replies = s.replies[:0]
	s.out.Read(answers, func(a answer) bool { return a.skip }, s.note)
	s.reply()
	left := copy(s.queue, s.queue[len(answers):])
	clear(s.queue[left:])
	s.queue = s.queue[:left]
	s.room.Set()
	return len(records) > 0
}

// comesAgain reports whether the server delivers a message again.
func (s *session) comesAgain(d delivery) bool { return d.skip || d.QoS > 0 && s.in.cfg.acknowledges() }

// Ack acknowledges messages up to the first one that is not settled. Nothing can be acknowledged on a lost connection: its messages
// are delivered again.
func (s *session) Ack(_ context.Context, results []engine.Result) ([]engine.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies = s.replies[:0]
	s.out.Ack(results, s.note)
	s.reply()
	s.room.Set()
	return nil, nil
}

// note notes what is to be acknowledged; s.mu is held.
func (s *session) note(all []answer) {
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

// reply sends what was noted; s.mu is held.
func (s *session) reply() {
	if len(s.replies) == 0 || !s.conn.Alive() {
		return
	}
	if err := s.conn.Reply(s.replies...); err != nil {
		s.in.log.Debug("acknowledgements are lost with their connection: the server delivers these messages again",
			"err", err)
	}
}

// remembered are the messages of QoS 2 that are settled.
func (s *session) remembered() map[uint16]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settled
}
