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

// Outgoing is a message for a stream, and what became of it.
type Outgoing struct {
	*client.Msg
	Err error // nil: the stream has it

	token uint64 // 0: nothing more is heard of it
}

// Publisher publishes messages that a stream confirms, many at once. Its methods may be called from several goroutines.
type Publisher struct {
	conn   *Conn
	sub    *client.Subscription
	prefix string // of the subjects to which streams confirm; a number follows

	mu   sync.Mutex // guards the fields below
	last uint64
	out  map[uint64]*waiting
}

// waiting is an unconfirmed message and the call that sent it.
type waiting struct {
	o     *Outgoing
	round *round
}

// round is one Publish.
type round struct {
	left int
	done chan struct{} // closed when nothing is left
}

// NewPublisher begins to listen for confirmations.
func NewPublisher(c *Conn) (*Publisher, error) {
	p := &Publisher{conn: c, prefix: c.NewInbox() + ".", out: map[uint64]*waiting{}}
	var err error
	if p.sub, err = c.Subscribe(p.prefix+"*", p.confirmed); err != nil {
		return nil, Explain(err, "listen for confirmations")
	}
	if err := p.sub.SetPendingLimits(-1, -1); err != nil {
		return nil, err
	}
	c.Watch(p.lost, p.denied)
	return p, nil
}

// Publish publishes messages, and waits until all are confirmed, have failed, or ctx ends.
func (p *Publisher) Publish(ctx context.Context, all []*Outgoing) {
	if err := p.conn.Down(); err != nil {
		for _, o := range all {
			o.Err = cause.Held(err)
		}
		return
	}
	entries := make([]waiting, len(all))
	c := &round{left: len(all) + 1, done: make(chan struct{})} // and this function
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
			p.end(o.token, p.unsent(err, o.Subject))
		}
	}
	p.finish(c)
	select {
	case <-c.done:
		p.keeps(all)
		return
	case <-ctx.Done():
	}
	err := engine.Errorf(engine.Timeout, "not confirmed in time: %w", context.Cause(ctx))
	for _, o := range all {
		p.end(o.token, err)
	}
}

// keeps fails what the server of this process has confirmed if nobody will find it.
func (p *Publisher) keeps(all []*Outgoing) {
	if p.conn.server == nil {
		return
	}
	err := p.conn.server.Keeps()
	if err == nil {
		return
	}
	for _, o := range all {
		if o.Err == nil {
			o.Err = cause.Held(Explain(err, "publish to "+p.conn.Address))
		}
	}
}

// unsent is why a message was not even sent.
func (p *Publisher) unsent(err error, subject string) error {
	if down := p.conn.Down(); down != nil {
		return cause.Held(down)
	}
	return Explain(err, "publish to "+shortened(subject))
}

func (p *Publisher) finish(c *round) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(c)
}

// settle counts one message of a call as heard of; p.mu is held.
func (p *Publisher) settle(c *round) {
	if c.left--; c.left == 0 {
		close(c.done)
	}
}

// end gives a message that is still waiting its result.
func (p *Publisher) end(token uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.out[token]
	if w == nil {
		return
	}
	delete(p.out, token)
	w.o.Err = err
	p.settle(w.round)
}

// endAll ends all messages that a function chooses.
func (p *Publisher) endAll(err error, chosen func(o *Outgoing) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for token, w := range p.out {
		if chosen(w.o) {
			delete(p.out, token)
			w.o.Err = err
			p.settle(w.round)
		}
	}
}

// lost ends what is not confirmed: what a stream has answered meanwhile does not arrive any more.
func (p *Publisher) lost(err error) {
	e := engine.Errorf(engine.Transient, "the connection was lost before the stream confirmed it: %w", err)
	e.Holds = p.conn.server != nil // the server of this process has stopped: its disk failed
	err = e
	p.endAll(err, func(*Outgoing) bool { return true })
}

// denied ends the messages of a subject that this user may not use.
func (p *Publisher) denied(subject string, err error) {
	err = Explain(err, "publish to "+shortened(subject))
	p.endAll(err, func(o *Outgoing) bool { return o.Subject == subject })
}

// confirmation is what a stream answers.
type confirmation struct {
	Stream string              `json:"stream"`
	Error  *jetstream.APIError `json:"error"`
}

// confirmed takes an answer.
func (p *Publisher) confirmed(m *client.Msg) {
	token, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, p.prefix), 36, 64)
	if err != nil {
		return
	}
	p.end(token, p.read(m))
}

// read is what an answer says.
func (p *Publisher) read(m *client.Msg) error {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return engine.WithClass(engine.Transient, ErrNoStream)
	}
	if usual(m.Data) {
		return nil
	}
	var c confirmation
	if err := json.Unmarshal(m.Data, &c); err != nil {
		return engine.Errorf(engine.Rejected, "something other than a stream answers on this subject: %.100q", m.Data)
	}
	switch {
	case c.Error != nil:
		return Explain(c.Error, "the stream refuses it")
	case c.Stream == "":
		return engine.Errorf(engine.Rejected, "something other than a stream answers on this subject: %.100q", m.Data)
	}
	return nil
}

// usual says that an answer is {"stream":"NAME","seq":NUMBER}, as most are: that takes no parser.
func usual(answer []byte) bool {
	rest, ok := bytes.CutPrefix(answer, []byte(`{"stream":"`))
	if !ok {
		return false
	}
	name, seq, ok := bytes.Cut(rest, []byte(`","seq":`))
	digits, closed := bytes.CutSuffix(seq, []byte("}"))
	return ok && closed && len(name) > 0 && len(digits) > 0 && !bytes.ContainsAny(name, `"\`) &&
		len(bytes.Trim(digits, "0123456789")) == 0
}

// ErrNoStream is wrapped by the error of a message that nobody has taken.
var ErrNoStream error = noStream{}

type noStream struct{}

func (noStream) Error() string {
	return "no stream has this subject (create one, write `declare`, or correct `subject`), or the server has no JetStream"
}

// Close ends listening; the connection is the caller's.
func (p *Publisher) Close() {
	_ = p.sub.Unsubscribe()
	p.lost(client.ErrConnectionClosed)
}

// shortened is a subject for an error's text.
func shortened(subject string) string {
	if len(subject) > 100 {
		return subject[:100] + "…"
	}
	return subject
}
