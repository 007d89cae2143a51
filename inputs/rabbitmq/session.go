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

// session is one connection with one channel and one consumer. It takes the acks of
// what it delivered: tags mean nothing on another channel.
type session struct {
	in        *input
	conn      *amqp.Conn
	ch        *amqp091.Channel
	deliver   <-chan amqp091.Delivery
	closed    <-chan *amqp091.Error
	cancelled <-chan string
	describe  amqp.Describer

	mu     sync.Mutex // guards the fields below, and what is written to the channel
	out    ledger
	orders []order
	tags   []uint64
	timers map[uint64]*time.Timer // of what is kept back, by tag
	stops  bool                   // what is not finished stays out until close, which hands it back in order
	over   bool
}

// connect connects and begins to consume.
func (in *input) connect(ctx context.Context) (*session, error) {
	conn, err := in.dialer.Dial(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{in: in, conn: conn, out: newLedger(), timers: map[uint64]*time.Timer{}}
	if err := s.begin(ctx); err != nil {
		conn.Close(ctx)
		return nil, err
	}
	in.log.Info("consuming "+s.describe.Queue, "from", conn.Address)
	return s, nil
}

// begin opens the channel, declares and consumes.
func (s *session) begin(ctx context.Context) error {
	c := &s.in.cfg
	err := s.conn.Within(ctx, "open a channel", func() (err error) {
		s.ch, err = s.conn.Channel()
		return err
	})
	if err != nil {
		return err
	}
	s.closed = s.ch.NotifyClose(make(chan *amqp091.Error, 1))
	s.cancelled = s.ch.NotifyCancel(make(chan string, 1))
	if s.describe.Queue = c.Queue; c.Declare != nil {
		if s.describe.Queue, err = c.Declare.Do(ctx, s.conn, s.ch, c.Queue); err != nil {
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

// prefetch is what is configured, or as much as there is use for. What a stop finds
// prefetched goes back, which a queue with a delivery limit counts. As each run finishes
// what it has in hand, a message goes back that often at most before it is its turn.
func (s *session) prefetch(ctx context.Context) int {
	in := s.in
	if in.cfg.Prefetch > 0 {
		return in.cfg.Prefetch
	}
	if in.cfg.stream() || in.cfg.EarlyAck {
		return mostPrefetch
	}
	limit, err := in.dialer.DeliveryLimit(ctx, s.conn, in.cfg.Management, in.cfg.Declare, s.describe.Queue)
	if err != nil {
		in.log.Debug("it is not known whether the queue has a delivery limit", "err", err)
	}
	if limit == 0 {
		return mostPrefetch
	}
	n := min(max(in.hands, in.hands*limit/2), mostPrefetch)
	in.log.Info("the queue has a delivery limit, and counts what a stop hands back: less is prefetched (set `prefetch` for more)", "queue",
		s.describe.Queue, "limit", limit, "prefetch", n)
	return n
}

// arguments are those of the consumer. A stream continues where it was.
func (s *session) arguments() amqp091.Table {
	args := s.in.cfg.Consume.Arguments.Table()
	if v, ok := args[offsetArgument]; ok {
		args[offsetArgument], _ = offset(v) // it was checked with the configuration
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
			return s.lost()
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
				return nil // the next read says so
			}
		default:
			return nil
		}
	}
}

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

// lost is why there are no more deliveries.
func (s *session) lost() error {
	queue := "queue " + s.describe.Queue
	select {
	case _, yes := <-s.cancelled: // it is closed when the channel is
		if yes {
			return engine.Errorf(engine.Transient,
				"%s: the broker has cancelled the consumer: the queue was deleted, or its node is down", queue)
		}
	default:
	}
	select {
	case e := <-s.closed:
		return amqp.Lost(e, queue)
	default:
		return engine.Errorf(engine.Transient, "%s: the channel was closed", queue)
	}
}

// Ack reports to the broker how deliveries ended. A lost connection can't be reported to:
// its unacknowledged messages are delivered again.
func (s *session) Ack(_ context.Context, results []engine.Result) ([]engine.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.ch.IsClosed() {
		s.in.log.Debug("acknowledgements of a lost connection are dropped: the broker delivers these messages again",
			"messages", len(results))
		return nil, nil
	}
	s.tags = s.tags[:0]
	for i := range results {
		s.judge(&results[i])
	}
	s.tell()
	return nil, nil
}

// judge sets the verdict on a delivery; s.mu is held.
func (s *session) judge(r *engine.Result) {
	e := s.out.at(r.Ref)
	if e == nil || e.verdict != open {
		return
	}
	unfinished := r.Fate == engine.Returned && (r.Err == nil || r.Err.Unfinished())
	if unfinished && s.stops {
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
		s.keep(r.Ref, min(wait, longest))
	}
}

// longest is for how long a returned message is kept back at most: the broker gives
// up a channel with a delivery that is out for longer than its consumer_timeout.
const longest = 10 * time.Minute

// keep requeues a delivery later: otherwise one that always fails would circulate as fast
// as the broker can. s.mu is held.
func (s *session) keep(tag uint64, wait time.Duration) {
	wait = wait/2 + rand.N(wait/2+1)
	s.timers[tag] = time.AfterFunc(wait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.timers, tag)
		if e := s.out.at(tag); e != nil && e.verdict == open && !s.over {
			e.verdict = retry
			s.tags = append(s.tags[:0], tag)
			s.tell()
		}
	})
}

// tell sends the verdicts on s.tags; s.mu is held.
func (s *session) tell() {
	s.orders = s.out.settle(s.orders[:0], s.tags)
	if s.out.offset >= 0 {
		s.in.next.Store(int64(s.out.offset) + 1)
	}
	if len(s.orders) == 0 {
		return
	}
	s.conn.Hold()
	var err error
	for _, o := range s.orders {
		switch o.what {
		case accept:
			err = s.ch.Ack(o.tag, o.multiple)
		case retry: // a broker may count this one as a failure, and not the others
			err = s.ch.Reject(o.tag, true)
		default:
			err = s.ch.Nack(o.tag, o.multiple, o.what == sendBack)
		}
		if err != nil {
			break
		}
	}
	err = errors.Join(err, s.conn.Release())
	if err != nil {
		s.in.log.Debug("acknowledgements are lost with their connection: the broker delivers these messages again",
			"err", err)
	}
}

// stopping is how long the broker may take to end a consumer.
const stopping = 5 * time.Second

// Stop prepares the end. Acks still arrive. What is not finished by then stays out until Close: a quorum queue that gets
// messages back one by one puts them last.
func (s *session) Stop(ctx context.Context) error {
	if s.handsBack() {
		ctx, cancel := context.WithTimeout(ctx, stopping)
		defer cancel()
		err := s.conn.Within(ctx, "cancel the consumer", func() error { return s.ch.Cancel(s.in.tag, false) })
		if err != nil {
			return nil // the connection is gone, and the broker has them back already
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stops = true
	for _, t := range s.timers { // there is no time to hold anything back
		t.Reset(0)
	}
	return nil
}

// handsBack says that what is out is handed back with a frame before the channel is closed, since what a channel takes
// with it counts as failed. Where that makes no difference, it goes back with the channel, which keeps the order in all
// cases: a consumer that is cancelled first can have deliveries on their way, which then go back before older ones.
func (s *session) handsBack() bool { return !s.in.cfg.stream() && !s.conn.CountsReturns() }

// Close ends the connection. The broker delivers again what is not acknowledged.
func (s *session) Close(ctx context.Context, _ bool) error {
	s.mu.Lock()
	s.over = true
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
