package nats

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/cause"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Outgoing is a message for a stream, and the result.
type Outgoing struct {
	*client.Msg
	Err error // nil: the stream has confirmed the message

	token uint64 // identifies the message in confirmations
}

// Publisher publishes messages that a stream confirms. It is safe for concurrent use.
type Publisher struct {
	conn   *Conn
	sub    *client.Subscription
	prefix string // of the subjects for confirmations; the token of a message follows

	mu   sync.Mutex          // guards the fields below
	last uint64              // token
	out  map[uint64]*waiting // by token
}

// waiting is an unconfirmed message and the call that sent it.
type waiting struct {
	o     *Outgoing
	round *round
}

// round is one call of Publish.
type round struct {
	left int           // messages without a result, plus one while the call still sends
	done chan struct{} // closed when left is 0
}

// NewPublisher returns a publisher that listens for confirmations until it is closed.
func NewPublisher(c *Conn) (*Publisher, error) {
	p := &Publisher{conn: c, prefix: c.NewInbox() + ".", out: map[uint64]*waiting{}}
	var err error
	if p.sub, err = c.Subscribe(p.prefix+"*", p.onConfirmation); err != nil {
		return nil, Explain(err, "listen for confirmations")
	}
	if err := p.sub.SetPendingLimits(-1, -1); err != nil {
		return nil, err
	}
	c.Watch(p.onLost, p.onDenied)
	return p, nil
}

// Publish publishes messages, and waits until all are confirmed or have failed, or until ctx ends.
func (p *Publisher) Publish(ctx context.Context, all []*Outgoing) {
	if err := p.conn.Down(); err != nil {
		for _, o := range all {
			o.Err = cause.Held(err)
		}
		return
	}
	entries := make([]waiting, len(all))
	c := &round{left: len(all) + 1, done: make(chan struct{})}
	p.mu.Lock()
	for i, o := range all {
		p.last++
		o.Err, o.token = nil, p.last
		o.Reply = p.prefix + strconv.FormatUint(o.token, 36)
		entries[i] = waiting{o, c}
		p.out[o.token] = &entries[i]
	}
	p.mu.Unlock()
	for _, o := range all {
		if err := p.conn.PublishMsg(o.Msg); err != nil {
			p.setResult(o.token, p.sendError(err, o.Subject))
		}
	}
	p.endSending(c)
	select {
	case <-c.done:
		p.checkStored(all)
		return
	case <-ctx.Done():
	}
	err := engine.Errorf(engine.Timeout, "not confirmed in time: %w", context.Cause(ctx))
	for _, o := range all {
		p.setResult(o.token, err)
	}
}

// checkStored fails messages that the server of this process has confirmed if its folder was renamed or deleted.
func (p *Publisher) checkStored(all []*Outgoing) {
	if p.conn.server == nil {
		return
	}
	err := p.conn.server.CheckFolder()
	if err == nil {
		return
	}
	for _, o := range all {
		if o.Err == nil {
			o.Err = cause.Held(Explain(err, "publish to "+p.conn.Address))
		}
	}
}

// sendError returns the error of a message that could not be sent.
func (p *Publisher) sendError(err error, subject string) error {
	if down := p.conn.Down(); down != nil {
		return cause.Held(down)
	}
	return Explain(err, "publish to "+shortened(subject))
}

func (p *Publisher) endSending(c *round) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.countDown(c)
}

// countDown reduces the messages of a round without a result by one. p.mu must be held.
func (p *Publisher) countDown(c *round) {
	if c.left--; c.left == 0 {
		close(c.done)
	}
}

// setResult sets the result of a message if it is still waiting.
func (p *Publisher) setResult(token uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.out[token]
	if w == nil {
		return
	}
	delete(p.out, token)
	w.o.Err = err
	p.countDown(w.round)
}

// failAll fails all waiting messages that a function chooses.
func (p *Publisher) failAll(err error, chosen func(o *Outgoing) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for token, w := range p.out {
		if chosen(w.o) {
			delete(p.out, token)
			w.o.Err = err
			p.countDown(w.round)
		}
	}
}

// onLost fails all waiting messages: their confirmations can no longer arrive.
func (p *Publisher) onLost(err error) {
	e := engine.Errorf(engine.Transient, "the connection was lost before the stream confirmed the message: %w", err)
	e.Holds = p.conn.server != nil // the server of this process has stopped: its disk failed
	err = e
	p.failAll(err, func(*Outgoing) bool { return true })
}

// onDenied fails the waiting messages of a subject to which the user must not publish.
func (p *Publisher) onDenied(subject string, err error) {
	err = Explain(err, "publish to "+shortened(subject))
	p.failAll(err, func(o *Outgoing) bool { return o.Subject == subject })
}

// confirmation is the answer of a stream.
type confirmation struct {
	Stream string              `json:"stream"`
	Error  *jetstream.APIError `json:"error"`
}

// onConfirmation handles the answer to a message.
func (p *Publisher) onConfirmation(m *client.Msg) {
	token, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, p.prefix), 36, 64)
	if err != nil {
		return
	}
	p.setResult(token, resultOf(m))
}

// resultOf returns the error in an answer, or nil if the message is confirmed.
func resultOf(m *client.Msg) error {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return engine.WithClass(engine.Transient, ErrNoStream)
	}
	if isPlainAck(m.Data) {
		return nil
	}
	var c confirmation
	if err := json.Unmarshal(m.Data, &c); err != nil {
		return engine.Errorf(engine.Rejected, "something other than a stream answers on this subject: %.100q", m.Data)
	}
	switch {
	case c.Error != nil:
		return Explain(c.Error, "the stream refuses the message")
	case c.Stream == "":
		return engine.Errorf(engine.Rejected, "something other than a stream answers on this subject: %.100q", m.Data)
	}
	return nil
}

// isPlainAck reports whether an answer is {"stream":"NAME","seq":NUMBER}. Most are, and need no JSON parser.
func isPlainAck(answer []byte) bool {
	rest, ok := bytes.CutPrefix(answer, []byte(`{"stream":"`))
	if !ok {
		return false
	}
	name, seq, ok := bytes.Cut(rest, []byte(`","seq":`))
	digits, closed := bytes.CutSuffix(seq, []byte("}"))
	return ok && closed && len(name) > 0 && len(digits) > 0 && !bytes.ContainsAny(name, `"\`) &&
		len(bytes.Trim(digits, "0123456789")) == 0
}

// ErrNoStream is wrapped by the error of a message whose subject belongs to no stream.
var ErrNoStream error = noStream{}

type noStream struct{}

func (noStream) Error() string {
	return "no stream has this subject (create one, write `declare`, or correct `subject`), or the server has no JetStream"
}

// Close ends listening for confirmations, and fails all waiting messages. It leaves the connection open.
func (p *Publisher) Close() {
	_ = p.sub.Unsubscribe()
	p.onLost(client.ErrConnectionClosed)
}

// shortened returns a subject for the text of an error.
func shortened(subject string) string {
	if len(subject) > 100 {
		return subject[:100] + "…"
	}
	return subject
}
