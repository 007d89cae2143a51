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
	emptyWait = 300 * time.Millisecond // how long Read waits for messages that are being requeued into an empty queue
	pause     = 50 * time.Millisecond  // a broker that sends nothing for this long has no more messages
)

// Reader reads a queue. Each Read consumes with a prefetch of as many messages as it may return, and then cancels the consumer.
// Messages of earlier reads do not count towards the prefetch, so any number can be held unacknowledged.
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
	closed    chan *amqp091.Error // gets the error that closes the channel
	consumers int                 // number of consumers so far
	prefetch  int                 // of the channel
	began     bool                // a message was read, so the queue is not a stream
	oneByOne  bool                // a consumer got no messages although there were some; use basic.get
	describe  Describer
}

// Read waits for the first message only.
func (r *reader) Read(ctx context.Context, most int) (all []queue.Message, err error) {
	for waited := time.Duration(0); ; waited += pause {
		if all, err = r.readAvailable(ctx, most); len(all) > 0 || err != nil {
			return all, err
		}
		if waited >= emptyWait {
			return nil, engine.ErrEnd
		}
		if err := timing.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// readAvailable returns the messages that are available. If a consumer gets none, basic.get reports reliably whether the queue is
// empty. It also works if the queue has another single active consumer.
func (r *reader) readAvailable(ctx context.Context, most int) (all []queue.Message, err error) {
	if ctx.Err() != nil { // a call would close the connection, and with it all held messages would be requeued
		return nil, ctx.Err()
	}
	if r.began && !r.oneByOne {
		if all, err = r.consume(ctx, most); len(all) > 0 || err != nil {
			return all, err
		}
	}
	for len(all) < most && ctx.Err() == nil {
		d, ok, err := r.get(ctx)
		if err != nil {
			return nil, err // the messages are requeued with the channel
		}
		if !ok {
			break
		}
		all = append(all, r.message(&d))
		r.oneByOne, r.began = r.began, true
		if !r.oneByOne {
			break
		}
	}
	return all, nil
}

func (r *reader) message(d *amqp091.Delivery) queue.Message {
	d.Acknowledger = nil // it would keep the channel in memory
	return queue.Message{Payload: d.Body, Meta: r.describe.Describe(d).Map(), Ref: d.DeliveryTag, Raw: d}
}

// consume returns the messages that a new consumer gets until the broker pauses.
func (r *reader) consume(ctx context.Context, most int) (all []queue.Message, err error) {
	r.consumers++ // a quorum queue requeues the messages of closed consumers in the order of their tags
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
		return nil, err // the messages are requeued with the channel
	}
	for d := range sent { // deliveries that were on their way
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
	if replyCode(err) == amqp091.NotImplemented {
		return d, false, fmt.Errorf("queue %s is a stream, which keeps its messages (read it with the input rabbitmq)",
			r.queue)
	}
	return d, ok, err
}

// call makes a call and waits for its answer even if ctx ends. Otherwise, it would have to close the connection, and messages can
// only be requeued in order while the connection is open.
func (r *reader) call(ctx context.Context, request func() error) error {
	doing := "read queue " + r.queue
	err := r.s.conn.Within(context.WithoutCancel(ctx), doing, request)
	if errors.Is(err, amqp091.ErrClosed) {
		select {
		case e := <-r.closed:
			return Lost(e, doing)
		default:
		}
	}
	return err
}

// Done acknowledges messages.
func (r *reader) Done(ctx context.Context, refs []uint64) error {
	return r.settle(ctx, refs, func(tag uint64) error { return r.ch.Ack(tag, false) })
}

// Return requeues messages.
func (r *reader) Return(ctx context.Context, refs []uint64) error {
	return r.settle(ctx, refs, func(tag uint64) error { return r.ch.Nack(tag, false, true) })
}

// settle sends acknowledgements, followed by a request. When that is answered, the broker has processed the acknowledgements.
func (r *reader) settle(ctx context.Context, refs []uint64, send func(tag uint64) error) error {
	r.s.conn.Hold()
	var err error
	for _, tag := range refs {
		if err == nil {
			err = send(tag)
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

// Close requeues all messages that are neither done nor returned. When a channel just closes, a quorum queue requeues its
// messages in no particular order.
func (r *reader) Close() error {
	if r.ch.IsClosed() {
		return nil // the broker has requeued all messages
	}
	const all = 0
	if err := r.ch.Nack(all, true, true); err != nil {
		return Explain(err, "hand back messages of queue "+r.queue)
	}
	return r.ch.Close()
}
