package nats

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/cause"
	"github.com/flowd-io/flowd/internal/systems/metadata"
	"github.com/flowd-io/flowd/internal/systems/queue/nats"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

type output struct {
	cfg     Config
	log     *slog.Logger
	name    string
	subject string // the one to which all messages go; "": there are others

	turn chan struct{} // a lock with a deadline, for the fields below
	conn *nats.Conn    // nil: not connected yet
	pub  *nats.Publisher
}

var (
	_ engine.Opener  = (*output)(nil)
	_ engine.Closer  = (*output)(nil)
	_ engine.Prober  = (*output)(nil)
	_ engine.Traited = (*output)(nil)
)

func newOutput(c Config, env engine.Env) (engine.Output, error) {
	o := &output{cfg: c, log: env.Log, turn: make(chan struct{}, 1), name: strings.Trim(env.Pipeline+"."+env.Name, ".")}
	o.subject, _ = c.Subject.Const()
	return o, nil
}

// Traits says that a write takes one answer of the server, for many messages as for one.
func (o *output) Traits() engine.Traits { return engine.Traits{Bulk: true} }

// Open connects.
func (o *output) Open(ctx context.Context) error {
	_, _, err := o.ready(ctx)
	return err
}

// ready returns the connection, and the publisher for streams. It connects if need be.
func (o *output) ready(ctx context.Context) (*nats.Conn, *nats.Publisher, error) {
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return nil, nil, nats.Explain(ctx.Err(), "connect")
	}
	if o.conn != nil && !o.conn.IsClosed() {
		return o.conn, o.pub, o.conn.Down()
	}
	conn, err := o.cfg.Dial(ctx, o.log, o.name)
	if err != nil {
		return nil, nil, err
	}
	if o.cfg.Declare != nil {
		err = o.cfg.Declare.Create(ctx, conn, o.cfg.Stream)
	}
	var pub *nats.Publisher
	if err == nil && o.cfg.stored() {
		pub, err = nats.NewPublisher(conn)
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	o.conn, o.pub = conn, pub
	return conn, pub, nil
}

// Close closes the connection. Messages without a confirmation have failed.
func (o *output) Close(context.Context) error {
	o.turn <- struct{}{}
	defer func() { <-o.turn }()
	if o.conn == nil {
		return nil
	}
	if o.pub != nil {
		o.pub.Close()
	}
	o.conn.Close()
	o.conn, o.pub = nil, nil
	return nil
}

// Probe asks the server for a sign of life, and creates the stream if somebody has deleted it.
func (o *output) Probe(ctx context.Context) error {
	conn, _, err := o.ready(ctx)
	if err != nil {
		return err
	}
	if o.cfg.Declare != nil {
		return o.cfg.Declare.Create(ctx, conn, o.cfg.Stream)
	}
	ctx, cancel := limited(ctx, conn)
	defer cancel()
	return nats.Explain(conn.FlushWithContext(ctx), "reach "+conn.Address)
}

// limited returns ctx with a deadline.
func limited(ctx context.Context, conn *nats.Conn) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, conn.Timeout)
}

// Write publishes the batch, and waits until all of it is confirmed, or has failed.
func (o *output) Write(ctx context.Context, b *engine.Batch) error {
	conn, pub, err := o.ready(ctx)
	if err != nil {
		return cause.Held(err)
	}
	ctx, cancel := limited(ctx, conn)
	defer cancel()
	msgs, out := make([]*engine.Message, 0, b.Len()), make([]nats.Outgoing, b.Len())
	all := make([]*nats.Outgoing, 0, b.Len())
	for m := range b.All() {
		made, err := o.compose(m)
		if err != nil {
			m.Fail(err)
			continue
		}
		one := &out[len(all)]
		one.Msg = made
		msgs, all = append(msgs, m), append(all, one)
	}
	switch {
	case len(all) == 0:
		return nil
	case pub != nil:
		pub.Publish(ctx, all)
	default:
		if err := o.publish(ctx, conn, all); err != nil {
			return err
		}
	}
	return o.conclude(ctx, conn, msgs, all)
}

// publish publishes messages without a stream. The server has them once it has answered the flush that follows.
func (o *output) publish(ctx context.Context, conn *nats.Conn, all []*nats.Outgoing) error {
	began := time.Now()
	for _, out := range all {
		out.Err = nats.Explain(conn.PublishMsg(out.Msg), "publish to "+out.Subject)
	}
	if err := conn.FlushWithContext(ctx); err != nil {
		return nats.Explain(err, "publish")
	}
	denied := conn.Denied(ctx, began)
	for _, out := range all {
		if out.Err == nil && denied(out.Subject) {
			out.Err = nats.Explain(client.ErrPermissionViolation, "publish to "+out.Subject)
		}
	}
	return nil
}

// compose makes the message that is published.
func (o *output) compose(m *engine.Message) (*client.Msg, error) {
	out := &client.Msg{Subject: o.subject, Data: m.Bytes()}
	var err error
	if out.Subject == "" {
		if out.Subject, err = o.cfg.Subject.Text(m); err != nil {
			return nil, err
		}
		if problem := nats.CheckSubject(out.Subject, false); problem != "" {
			return nil, engine.Errorf(engine.Rejected, "subject %.100q %s", out.Subject, problem)
		}
	}
	out.Header = nats.Headers(m.Meta)
	if !m.DeadLetter() { // a dead letter must not fail here
		if err := nats.CheckValues(out.Header); err != nil {
			return nil, err
		}
	}
	if m.Err() != nil {
		out.Header = nats.AddOrigin(out.Header, m.Meta)
	}
	set := func(name, value string) {
		if out.Header == nil {
			out.Header = client.Header{}
		}
		out.Header[name] = []string{value}
	}
	for name, t := range o.cfg.Headers.All() {
		text, err := t.Text(m)
		if err != nil {
			return nil, err
		}
		if strings.ContainsAny(text, "\r\n") {
			return nil, engine.Errorf(engine.Rejected, "header %s would have a line break in it", name)
		}
		set(name, text)
	}
	if o.cfg.Stream != "" {
		set("Nats-Expected-Stream", o.cfg.Stream)
	}
	if o.cfg.DedupeID.IsZero() {
		return out, nil
	}
	v, err := o.cfg.DedupeID.Eval(m)
	if err != nil {
		return nil, err
	}
	if id := metadata.Text(v); id != "" {
		if strings.ContainsAny(id, "\r\n") {
			return nil, engine.Errorf(engine.Rejected, "dedupe_id would have a line break in it")
		}
		set("Nats-Msg-Id", id)
	}
	return out, nil
}

// conclude gives each failed message its error, and returns an error of the output.
func (o *output) conclude(ctx context.Context, conn *nats.Conn, msgs []*engine.Message, all []*nats.Outgoing) error {
	var held error
	missing := sync.OnceValue(func() error { return o.missing(ctx, conn) })
	for i, out := range all {
		if out.Err == nil {
			msgs[i].Done()
			continue
		}
		err := o.fault(missing, out.Err)
		if engine.ErrorOf(err, engine.Transient).HoldsOutput() {
			held = err
			continue
		}
		msgs[i].Fail(err)
	}
	return held
}

// fault returns the error of a message: of the message itself, or of the output if all messages would fail.
func (o *output) fault(missing func() error, err error) error {
	switch noStream, other := errors.Is(err, nats.ErrNoStream), nats.WrongStream(err); {
	case nats.IsFull(err), (noStream || other) && o.subject != "":
		return cause.Held(err)
	case noStream || other:
		if e := missing(); e != nil {
			return cause.Held(e)
		}
		return nats.Rejected(err)
	case errors.Is(err, client.ErrPermissionViolation) && o.subject == "":
		return nats.Rejected(err)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return cause.Held(err)
	}
	return err
}

// missing returns an error if the configured stream, or JetStream, does not exist. It returns nil if the user may not ask.
func (o *output) missing(ctx context.Context, conn *nats.Conn) error {
	var err error
	if o.cfg.Stream != "" {
		err = conn.API(ctx, "look for stream "+o.cfg.Stream, func(ctx context.Context) error {
			_, err := conn.JS.Stream(ctx, o.cfg.Stream)
			return err
		})
	} else {
		err = conn.API(ctx, "ask whether there is JetStream", func(ctx context.Context) error {
			_, err := conn.JS.AccountInfo(ctx)
			return err
		})
	}
	if errors.Is(err, client.ErrPermissionViolation) {
		return nil
	}
	return err
}
