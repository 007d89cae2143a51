package rabbitmq

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue/amqp"
	amqp091 "github.com/rabbitmq/amqp091-go"
)

// session is one connection with one channel and one consumer. It acknowledges its own deliveries, since a delivery tag is
// only valid on its channel.
type session struct {
	in        *input
	conn      *amqp.Conn
	ch        *amqp091.Channel
	deliver   <-chan amqp091.Delivery
	lost      <-chan *amqp091.Error
	cancelled <-chan string
	describe  amqp.Describer

	mu       sync.Mutex             // guards the fields below, and writes to the channel
	out      ledger                 // deliveries that are not settled
	frames   []frame                // reused by sendVerdicts
	tags     []uint64               // deliveries that have a new verdict
	timers   map[uint64]*time.Timer // of deliveries whose requeue is delayed, by tag
	stopping bool                   // unfinished deliveries stay with the channel until Close, which returns them in order
	closed   bool
}

// connect makes a connection and starts to consume.
func (in *input) connect(ctx context.Context) (*session, error) {
	conn, err := in.dialer.Dial(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{in: in, conn: conn, out: newLedger(), timers: map[uint64]*time.Timer{}}
	if err := s.consume(ctx); err != nil {
		conn.Close(ctx)
		return nil, err
	}
	in.log.Info("consuming "+s.describe.Queue, "from", conn.Address)
	return s, nil
}

// consume opens the channel, declares what is configured, and starts the consumer.
func (s *session) consume(ctx context.Context) error {
	c := &s.in.cfg
	err := s.conn.Within(ctx, "open a channel", func() (err error) {
		s.ch, err = s.conn.Channel()
		return err
	})
	if err != nil {
		return err
	}
	s.lost = s.ch.NotifyClose(make(chan *amqp091.Error, 1))
	s.cancelled = s.ch.NotifyCancel(make(chan string, 1))
	if s.describe.Queue = c.Queue; c.Declare != nil {
		if s.describe.Queue, err = c.Declare.Create(ctx, s.conn, s.ch, c.Queue); err != nil {
			return err
		}
	}
	prefetch := s.prefetch(ctx)
	err = s.conn.Within(ctx, "set prefetch", func() error { return s.ch.Qos(prefetch, 0, false) })
	if err != nil {
		return err
	}
	s.conn.Expect(prefetch)
	return s.conn.Within(ctx, "consume queue "+s.describe.Queue, func() (err error) {
		s.deliver, err = s.ch.Consume(s.describe.Queue, s.in.tag, false, c.Consume.Exclusive, false, false,
			s.arguments())
		return err
	})
}

// prefetch returns the configured prefetch, or chooses one. A stop returns prefetched messages, and a queue with a delivery
// limit may count that as a delivery. Each run finishes at least the messages in hand (in.hands). The last of n*hands
// prefetched messages is therefore returned n times at most; n is half of the limit.
func (s *session) prefetch(ctx context.Context) int {
	in := s.in
	if in.cfg.Prefetch > 0 {
		return in.cfg.Prefetch
	}
	if in.cfg.stream() || in.cfg.EarlyAck {
		return defaultPrefetch
	}
	limit, err := in.dialer.DeliveryLimit(ctx, s.conn, in.cfg.Management, in.cfg.Declare, s.describe.Queue)
	if err != nil {
		in.log.Debug("can't find out whether the queue has a delivery limit", "err", err)
	}
	if limit == 0 {
		return defaultPrefetch
	}
	n := min(max(in.hands, in.hands*limit/2), defaultPrefetch)
	in.log.Info("the queue has a delivery limit and counts messages that a stop returns: prefetching fewer (set `prefetch` for more)",
		"queue", s.describe.Queue, "limit", limit, "prefetch", n)
	return n
}

// arguments returns the arguments of the consumer. A stream continues after its settled messages.
func (s *session) arguments() amqp091.Table {
	args := s.in.cfg.Consume.Arguments.Table()
	if v, ok := args[offsetArgument]; ok {
		args[offsetArgument], _ = offset(v) // CheckConfig has checked it
	}
	if next := s.in.next.Load(); next > 0 && s.in.cfg.stream() {
		if args == nil {
			args = amqp091.Table{}
		}
		args[offsetArgument] = next
	}
	return args
}

// read waits for a delivery and adds all that have arrived.
func (s *session) read(ctx context.Context, b *engine.Batch) error {
	select {
	case d, ok := <-s.deliver:
		if !ok {
			return s.lostError()
		}
		return s.fill(b, d)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fill adds d and whatever else has arrived.
func (s *session) fill(b *engine.Batch, d amqp091.Delivery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := b.Len()
	defer func() { s.conn.Took(b.Len() - before) }()
	for {
		s.add(b, &d)
		if b.Room() == 0 {
			return nil
		}
		var ok bool
		select {
		case d, ok = <-s.deliver:
			if !ok {
				return nil // the next read reports it
			}
		default:
			return nil
		}
	}
}

// add adds a message for a delivery. s.mu is held.
func (s *session) add(b *engine.Batch, d *amqp091.Delivery) {
	m := b.Add(d.Body)
	m.Ref = d.DeliveryTag
	m.Meta = s.describe.Describe(d)
	offset, ok := amqp.StreamOffset(d)
	if !ok {
		offset = -1
		m.Attempt = s.describe.Attempt(d)
	}
	s.out.add(m.Attempt > 1, offset)
}

// lostError returns why there are no more deliveries.
func (s *session) lostError() error {
	queue := "queue " + s.describe.Queue
	select {
	case _, yes := <-s.cancelled: // closing the channel closes it, too
		if yes {
			return engine.Errorf(engine.Transient,
				"%s: the broker has cancelled the consumer: the queue was deleted, or its node is down", queue)
		}
	default:
	}
	select {
	case e := <-s.lost:
		return amqp.Lost(e, queue)
	default:
		return engine.Errorf(engine.Transient, "%s: the channel was closed", queue)
	}
}

// Ack reports to the broker how deliveries ended. Once the connection is lost, the broker redelivers everything that is not
// acknowledged, so results for it are dropped.
func (s *session) Ack(_ context.Context, results []engine.Result) ([]engine.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.ch.IsClosed() {
		s.in.log.Debug("acknowledgements for a lost connection are dropped: the broker redelivers these messages",
			"messages", len(results))
		return nil, nil
	}
	s.tags = s.tags[:0]
	for i := range results {
		s.decide(&results[i])
	}
	s.sendVerdicts()
	return nil, nil
}

// decide sets the verdict on a delivery. s.mu is held.
func (s *session) decide(r *engine.Result) {
	e := s.out.entryOf(r.Ref)
	if e == nil || e.verdict != open {
		return
	}
	unfinished := r.Fate == engine.Returned && (r.Err == nil || r.Err.Unfinished())
	if unfinished && s.stopping {
		return
	}
	s.tags = append(s.tags, r.Ref)
	e.verdict = accept
	if r.Fate != engine.Returned {
		return
	}
	how := s.in.cfg.OnReturn
	if !unfinished && (how != requeue && how != requeueOnce || how == requeueOnce && e.redelivered) {
		e.verdict = refuse
		return
	}
	if e.verdict = sendBack; !unfinished {
		e.verdict = retry
	}
	wait := r.Delay
	if e.redelivered {
		wait = max(wait, s.in.cfg.ReturnDelay)
	}
	if !unfinished && wait > 0 {
		e.verdict = open
		s.delay(r.Ref, min(wait, maxDelay))
	}
}

// maxDelay is the longest time before a returned message is requeued. The broker closes a channel if a delivery is not
// acknowledged within its consumer_timeout.
const maxDelay = 10 * time.Minute

// delay requeues a delivery later. Otherwise a message that always fails would be redelivered as fast as the broker can.
// s.mu is held.
func (s *session) delay(tag uint64, wait time.Duration) {
	wait = wait/2 + rand.N(wait/2+1)
	s.timers[tag] = time.AfterFunc(wait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.timers, tag)
		if e := s.out.entryOf(tag); e != nil && e.verdict == open && !s.closed {
			e.verdict = retry
			s.tags = append(s.tags[:0], tag)
			s.sendVerdicts()
		}
	})
}

// sendVerdicts reports the verdicts on s.tags to the broker. s.mu is held.
func (s *session) sendVerdicts() {
	s.frames = s.out.settle(s.frames[:0], s.tags)
	if s.out.offset >= 0 {
		s.in.next.Store(int64(s.out.offset) + 1)
	}
	if len(s.frames) == 0 {
		return
	}
	s.conn.Hold()
	var err error
	for _, f := range s.frames {
		switch f.verdict {
		case accept:
			err = s.ch.Ack(f.tag, f.multiple)
		case retry: // some brokers count basic.reject as a failed delivery, but not basic.nack
			err = s.ch.Reject(f.tag, true)
		default:
			err = s.ch.Nack(f.tag, f.multiple, f.verdict == sendBack)
		}
		if err != nil {
			break
		}
	}
	err = errors.Join(err, s.conn.Release())
	if err != nil {
		s.in.log.Debug("acknowledgements are lost with their connection: the broker redelivers these messages",
			"err", err)
	}
}

// cancelTimeout is how long the broker may take to cancel a consumer.
const cancelTimeout = 5 * time.Second

// Stop cancels the consumer if Close will return its deliveries. Acks still arrive. Unfinished deliveries wait for Close: a
// quorum queue would put messages that return one by one behind all others.
func (s *session) Stop(ctx context.Context) error {
	if s.handsBack() {
		ctx, cancel := context.WithTimeout(ctx, cancelTimeout)
		defer cancel()
		err := s.conn.Within(ctx, "cancel the consumer", func() error { return s.ch.Cancel(s.in.tag, false) })
		if err != nil {
			return nil // the connection is lost, so the broker has the messages back
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	for _, t := range s.timers { // requeue delayed deliveries now
		t.Reset(0)
	}
	return nil
}

// handsBack reports whether Close returns deliveries with a frame (basic.nack) before it closes the channel. That helps where the
// broker counts a delivery of a closed channel as failed, but not one that is returned. Otherwise closing the channel returns
// them, which always keeps the order. After a cancel, deliveries may still be on their way, and return before older ones.
func (s *session) handsBack() bool { return !s.in.cfg.stream() && !s.conn.CountsReturns() }

// Close closes the connection. The broker redelivers everything that is not acknowledged.
func (s *session) Close(ctx context.Context, _ bool) error {
	s.mu.Lock()
	s.closed = true
	for _, t := range s.timers {
		t.Stop()
	}
	if s.handsBack() {
		_ = s.ch.Nack(0, true, true)
	}
	s.mu.Unlock()
	s.conn.Close(ctx)
	return nil
}
