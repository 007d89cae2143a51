package amqp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/timing"
	"github.com/flowd-io/flowd/internal/systems/queue"
	amqp091 "github.com/rabbitmq/amqp091-go"
)

const (
	moment = 300 * time.Millisecond // an empty queue may get something back for so long
	pause  = 50 * time.Millisecond  // after which a broker has sent what it wanted to send
)

// Reader takes no more messages than are asked for: each read consumes with a prefetch of
// that many, and cancels. What is held does not count, so there is no end to it.
func (s *server) Reader(ctx context.Context, name string) (queue.Reader, error) {
	if _, err := s.inspect(ctx, name); err != nil {
		return nil, err
	}
	ch, err := s.channel(ctx)
	if err != nil {
		return nil, err
	}
	r := &reader{s: s, ch: ch, queue: name, closed: make(chan *amqp091.Error, 1), describe: Describer{Queue: name}}
	ch.NotifyClose(r.closed)
	return r, nil
}

type reader struct {
	s         *server
	ch        *amqp091.Channel
	queue     string
	closed    chan *amqp091.Error // why the channel was
	consumers int
	prefetch  int  // that the channel is set to
	began     bool // something was read, so it is not a stream
	singly    bool // a consumer got nothing, though there was something
	describe  Describer
}

// Read waits for the first message only.
func (r *reader) Read(ctx context.Context, most int) (all []queue.Message, err error) {
	for waited := time.Duration(0); ; waited += pause {
		if all, err = r.take(ctx, most); len(all) > 0 || err != nil {
			return all, err
		}
		if waited >= moment {
			return nil, engine.ErrEnd
		}
		if err := timing.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// take gets what is there. basic.get says if there is nothing: it is certain, and it also
// works when another consumer is the only active one.
func (r *reader) take(ctx context.Context, most int) (all []queue.Message, err error) {
	if ctx.Err() != nil { // what is taken stays takeable: the connection must live on
		return nil, ctx.Err()
	}
	if r.began && !r.singly {
		if all, err = r.consume(ctx, most); len(all) > 0 || err != nil {
			return all, err
		}
	}
	for len(all) < most && ctx.Err() == nil {
		d, ok, err := r.get(ctx)
		if err != nil {
			return nil, err // what was taken goes back with the channel
		}
		if !ok {
			break
		}
		all = append(all, r.message(&d))
		r.singly, r.began = r.began, true
		if !r.singly {
			break
		}
	}
	return all, nil
}

func (r *reader) message(d *amqp091.Delivery) queue.Message {
	d.Acknowledger = nil // it would hold on to the channel
	return queue.Message{Payload: d.Body, Meta: r.describe.Describe(d).Map(), Ref: d.DeliveryTag, Raw: d}
}

// consume takes what the broker sends without a pause.
func (r *reader) consume(ctx context.Context, most int) (all []queue.Message, err error) {
	r.consumers++ // a quorum queue remembers those whose messages are held, and hands them back in the order of this name
	tag := fmt.Sprintf("flowd queue %09d", r.consumers)
	var sent <-chan amqp091.Delivery
	err = r.call(ctx, func() (err error) {
		if r.prefetch != most {
			if err = r.ch.Qos(most, 0, false); err != nil {
				return err
			}
			r.prefetch = most
		}
		r.s.conn.Expect(most)
		sent, err = r.ch.Consume(r.queue, tag, false, false, false, false, nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	idle := time.NewTimer(pause)
	defer idle.Stop()
	for open := true; open && len(all) < most; {
		var d amqp091.Delivery
		select {
		case d, open = <-sent:
			if open {
				r.s.conn.Took(1)
				all = append(all, r.message(&d))
				idle.Reset(pause)
			}
		case <-idle.C:
			open = false
		case <-ctx.Done():
			open = false
		}
	}
	if err := r.call(ctx, func() error { return r.ch.Cancel(tag, false) }); err != nil {
		return nil, err // what was taken goes back with the channel
	}
	for d := range sent { // what was on its way
		r.s.conn.Took(1)
		all = append(all, r.message(&d))
	}
	return all, nil
}

func (r *reader) get(ctx context.Context) (d amqp091.Delivery, ok bool, err error) {
	err = r.call(ctx, func() error {
		d, ok, err = r.ch.Get(r.queue, false)
		return err
	})
	if Code(err) == amqp091.NotImplemented {
		return d, false, fmt.Errorf("queue %s is a stream, which keeps its messages (read it with the input rabbitmq)",
			r.queue)
	}
	return d, ok, err
}

// call waits for an answer even when the command should stop: messages that were taken can
// only be handed back in order while the connection lives.
func (r *reader) call(ctx context.Context, do func() error) error {
	doing := "read queue " + r.queue
	err := r.s.conn.Within(context.WithoutCancel(ctx), doing, do)
	if errors.Is(err, amqp091.ErrClosed) {
		select {
		case e := <-r.closed:
			return Lost(e, doing)
		default:
		}
	}
	return err
}

// Done removes messages.
func (r *reader) Done(ctx context.Context, refs []uint64) error {
	return r.tell(ctx, refs, func(tag uint64) error { return r.ch.Ack(tag, false) })
}

// Return gives messages back.
func (r *reader) Return(ctx context.Context, refs []uint64) error {
	return r.tell(ctx, refs, func(tag uint64) error { return r.ch.Nack(tag, false, true) })
}

// tell sends the verdicts on messages, followed by a question: when that is answered, the
// broker has processed them.
func (r *reader) tell(ctx context.Context, refs []uint64, say func(tag uint64) error) error {
	r.s.conn.Hold()
	var err error
	for _, tag := range refs {
		if err == nil {
			err = say(tag)
		}
	}
	if err = errors.Join(err, r.s.conn.Release()); err != nil {
		return Explain(err, "acknowledge messages of queue "+r.queue)
	}
	return r.s.conn.Within(ctx, "acknowledge messages of queue "+r.queue, func() error {
		_, err := r.ch.QueueDeclarePassive(r.queue, false, false, false, false, nil)
		return err
	})
}

// Close hands back what is neither done nor returned, explicitly: when a channel just ends,
// a quorum queue requeues in no order.
func (r *reader) Close() error {
	if r.ch.IsClosed() {
		return nil // and all went back
	}
	const all = 0
	if err := r.ch.Nack(all, true, true); err != nil {
		return Explain(err, "hand back messages of queue "+r.queue)
	}
	return r.ch.Close()
}
