package nats

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/source"
	"github.com/flowd-io/flowd/internal/systems/queue/nats"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// pull reads a consumer. What it asks for beyond what is read waits here.
type pull struct {
	in       *input
	conn     *nats.Conn
	name     string // of stream and consumer, in errors
	api      string // subject of requests for messages
	inbox    string // of the subjects to which messages come; the number of the request follows
	sub      *client.Subscription
	ackWait  time.Duration
	last     int // delivery, after which there is none; 0: there always is another
	prefetch int
	bytes    int           // of what one request asks for
	reasons  bool          // the server takes a reason with what is terminated
	wake     source.Signal // there is something to look at
	asked    time.Time     // when the consumer was asked how far it is; of Renew

	mu       sync.Mutex // guards the fields below
	waiting  []*arrival // to be read
	requests []request  // that are not over, oldest first
	serial   int        // of requests
	heard    time.Time  // the last sign of life of a request
	pause    time.Time  // no request before
	awaited  int        // messages that a reader before has left, and that come again: see await
	back     int        // of them, that have
	ahead    bool       // new ones have come before them
	grace    time.Time  // when the server has given up waiting for them at the latest
	single   bool       // the next message is larger than a request takes: ask for it alone
	failed   error      // nothing more comes
	stopped  bool       // no read follows
	next     uint64     // Ref
	held     map[uint64]*arrival
	refs     map[uint64]uint64 // of what is held, by sequence
	lost     []uint64          // came again while they were held
}

// request is one for messages.
type request struct{ id, left int }

// arrival is a message that was delivered and is not acknowledged.
type arrival struct {
	*client.Msg
	nats.Place
	until    time.Time // the server waits for a sign of life
	due      time.Time // it is not to be read before
	more     int       // attempts that the server has not counted
	settling bool      // its end is known
	asked    time.Time // when the server was told of its end first
}

// id is the name of the message for [attempts.Book].
func (a *arrival) id() string { return fmt.Sprint(a.Stream, " ", a.Sequence) }

const (
	usualPrefetch = 1000
	expires       = 30 * time.Second
	heartbeat     = 5 * time.Second
	silence       = 12 * time.Second // after which a request is given up
	retryPause    = 250 * time.Millisecond
	graceMargin   = 500 * time.Millisecond
	graceMore     = 5 * time.Second // after which another reader seems to have them
)

// pull finds the consumer, and begins to listen.
func (in *input) pull(ctx context.Context, conn *nats.Conn) (reader, error) {
	c := &in.cfg
	if d := c.Declare; d != nil && d.Stream != nil {
		if err := d.Stream.Do(ctx, conn, c.Stream); err != nil {
			return nil, err
		}
	}
	info, err := in.consumer(ctx, conn)
	if err != nil {
		return nil, err
	}
	p := &pull{in: in, conn: conn, name: "consumer " + c.Consumer + " of stream " + c.Stream,
		api:   "$JS.API.CONSUMER.MSG.NEXT." + c.Stream + "." + c.Consumer,
		inbox: conn.NewInbox() + ".", ackWait: info.Config.AckWait, prefetch: c.Prefetch, bytes: in.most / 2,
		reasons: newer(conn.ConnectedServerVersion(), 2, 10, 4),
		wake:    source.NewSignal(), held: map[uint64]*arrival{}, refs: map[uint64]uint64{}}
	if in.order {
		p.awaited, p.grace = info.NumAckPending, time.Now().Add(p.ackWait+graceMargin)
	}
	for _, w := range info.Config.BackOff {
		p.ackWait = min(p.ackWait, w)
	}
	if p.last = max(info.Config.MaxDeliver, 0); p.last > 0 {
		in.log.Warn("the consumer has a max_deliver: a message that is not settled at its last delivery stays in the "+
			"stream, and no reader gets it (remove that limit, and let on_failure limit attempts)",
			"consumer", c.Consumer, "max_deliver", p.last)
	}
	if p.prefetch == 0 {
		if p.prefetch = usualPrefetch; p.last > 0 {
			p.prefetch = min(in.hands, usualPrefetch)
		}
	}
	if n := info.Config.MaxRequestBatch; n > 0 {
		p.prefetch = min(p.prefetch, n)
	}
	if n := info.Config.MaxRequestMaxBytes; n > 0 {
		p.bytes = min(p.bytes, n)
	}
	if p.sub, err = conn.Subscribe(p.inbox+"*", p.arrive); err == nil {
		err = p.sub.SetPendingLimits(-1, -1) // what is asked for is the limit
	}
	if err != nil {
		return nil, nats.Explain(err, "listen for messages")
	}
	conn.Watch(p.cut, func(string, error) {})
	in.log.Info("reading "+p.name, "from", conn.Address)
	return p, nil
}

// read waits for a message, and adds all that have arrived.
func (p *pull) read(ctx context.Context, b *engine.Batch) error {
	tick := time.NewTicker(min(time.Second, p.ackWait/4))
	defer tick.Stop()
	for ctx.Err() == nil {
		ask, err := p.add(b)
		if ask != nil {
			if e := p.conn.PublishRequest(p.api, p.inbox+strconv.Itoa(ask.id), ask.body); e != nil {
				p.over(ask.id)
				p.hold()
			}
		}
		if err != nil || b.Len() > 0 {
			return err
		}
		p.complete(ctx, true)
		select {
		case <-p.wake:
		case <-ctx.Done():
		case <-tick.C:
			if err := p.look(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// asking is a request to send.
type asking struct {
	id   int
	body []byte
}

// add adds what waits, as far as there is room, and says what to ask for.
func (p *pull) add(b *engine.Batch) (*asking, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, all := time.Now(), &nats.Arrivals{}
	if p.awaited > 0 && !now.Before(p.grace.Add(graceMore)) { // another reader seems to have the rest
		p.release()
	}
	var taken []*arrival
	left := p.waiting[:0]
	for _, a := range p.waiting {
		if len(taken) == b.Room() || now.Before(a.due) {
			left = append(left, a)
			continue
		}
		taken, all.All = append(taken, a), append(all.All, a.Msg)
	}
	clear(p.waiting[len(left):])
	p.waiting = left
	meta := engine.MetaFrom(all)
	for i, a := range taken {
		m := b.Add(a.Data)
		p.next++
		m.Ref, m.Attempt, m.Meta = p.next, p.in.tries.Attempt(a.Deliveries, a.id)+a.more, meta.At(i)
		p.held[m.Ref], p.refs[a.Sequence] = a, m.Ref
	}
	if p.failed != nil {
		return nil, p.failed
	}
	return p.ask(now), nil
}

// ask makes a request, if there is room for what it brings. p.mu is held.
func (p *pull) ask(now time.Time) *asking {
	asked := 0
	for _, r := range p.requests {
		asked += r.left
	}
	n := p.prefetch - len(p.waiting) - asked
	switch {
	case now.Before(p.pause) || p.conn.Down() != nil:
		return nil
	case p.awaited > 0 && now.Before(p.grace.Add(graceMore)):
		if asked > 0 || p.ahead && now.Before(p.grace) {
			return nil
		}
		n = p.awaited
	case n < max(1, p.prefetch/2) || p.size() >= p.in.most/2:
		return nil
	}
	return p.request(n, now)
}

// size is how many bytes wait to be read. p.mu is held.
func (p *pull) size() (n int) {
	for _, a := range p.waiting {
		n += len(a.Data)
	}
	return n
}

// request is one for n messages. p.mu is held.
func (p *pull) request(n int, now time.Time) *asking {
	r := struct {
		Batch     int           `json:"batch"`
		Bytes     int           `json:"max_bytes,omitempty"`
		Expires   time.Duration `json:"expires"`
		Heartbeat time.Duration `json:"idle_heartbeat"`
	}{n, p.bytes, expires, heartbeat}
	if p.single {
		r.Batch, r.Bytes, p.single = 1, 0, false
	}
	p.serial++
	p.requests = append(p.requests, request{p.serial, r.Batch})
	p.heard = now
	body, err := json.Marshal(r)
	if err != nil { // of numbers
		panic(err)
	}
	return &asking{p.serial, body}
}

// cut is told that the connection is lost, and with it what was asked for.
func (p *pull) cut(error) {
	p.mu.Lock()
	p.requests = nil
	p.mu.Unlock()
	p.wake.Set()
}

// hold has the next request wait for a while.
func (p *pull) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pause = time.Now().Add(retryPause)
}

// over forgets a request.
func (p *pull) over(id int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = slices.DeleteFunc(p.requests, func(r request) bool { return r.id == id })
}

// look asks whether the consumer is still there, when a request gets no sign of life.
func (p *pull) look(ctx context.Context) error {
	if err := p.prolong(ctx, nil); err != nil { // while nothing is in flight nobody calls Renew
		p.in.log.Debug("no sign of life of messages that wait to be read", "err", err)
	}
	p.complete(ctx, false)
	p.mu.Lock()
	silent := len(p.requests) > 0 && time.Since(p.heard) > silence
	p.mu.Unlock()
	if !silent || p.conn.Down() != nil {
		return nil
	}
	if _, err := p.info(ctx); err != nil {
		if ctx.Err() != nil || p.conn.Down() != nil || errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		return err
	}
	p.cut(nil)
	return nil
}

// info is what the consumer says of itself.
func (p *pull) info(ctx context.Context) (info *jetstream.ConsumerInfo, err error) {
	err = p.conn.API(ctx, p.name, func(ctx context.Context) error {
		c, err := p.conn.JS.Consumer(ctx, p.in.cfg.Stream, p.in.cfg.Consumer)
		if err == nil {
			info = c.CachedInfo()
		}
		return err
	})
	return info, err
}

// arrive takes a message, or what the server says of a request.
func (p *pull) arrive(m *client.Msg) {
	defer p.wake.Set()
	place, ok := nats.PlaceOf(m.Reply)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = time.Now()
	if !ok {
		p.status(m)
		return
	}
	if len(p.requests) > 0 {
		if p.requests[0].left--; p.requests[0].left <= 0 {
			p.requests = p.requests[1:]
		}
	}
	a := &arrival{Msg: m, Place: place, until: p.heard.Add(p.ackWait)}
	if ref, ok := p.refs[a.Sequence]; ok { // the server has given up waiting for the one before
		p.lost = append(p.lost, ref)
		p.forget(ref)
	}
	if a.Deliveries > 1 { // it may wait still
		p.waiting = slices.DeleteFunc(p.waiting, func(w *arrival) bool { return w.Sequence == a.Sequence })
	}
	if p.stopped {
		_ = p.conn.Publish(m.Reply, []byte("-NAK"))
		return
	}
	p.waiting = append(p.waiting, a)
	p.await(a)
}

// await holds messages back until all have come again that a reader before had out, so that none overtakes another: a
// server sends those that were handed back at once, but those of a crash only after ack_wait, in the order of their
// last signs of life. p.mu is held.
func (p *pull) await(a *arrival) {
	if p.awaited <= 0 || !p.heard.Before(p.grace.Add(graceMore)) {
		return
	}
	a.due = p.grace.Add(graceMore)
	if a.Deliveries == 1 {
		p.ahead = true
		return
	}
	p.back++
}

// complete releases what is held back when nothing is out that is not here. Of what was out, as many have come again as
// there were, or some time has passed.
func (p *pull) complete(ctx context.Context, hint bool) {
	p.mu.Lock()
	due := p.awaited > 0 && (!hint || p.back >= p.awaited)
	p.mu.Unlock()
	if !due || p.conn.Down() != nil {
		return
	}
	info, err := p.info(ctx)
	if err != nil {
		return // look says why
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.awaited = info.NumAckPending; p.awaited <= len(p.waiting)+len(p.held) {
		p.release()
	}
	p.back = 0
}

// release has all that was held back read, in the order of the stream. p.mu is held.
func (p *pull) release() {
	p.awaited = 0
	p.wake.Set()
	slices.SortFunc(p.waiting, func(x, y *arrival) int { return cmp.Compare(x.Sequence, y.Sequence) })
	for _, w := range p.waiting {
		w.due = time.Time{}
	}
}

// status takes what the server says of a request. p.mu is held.
func (p *pull) status(m *client.Msg) {
	code, text := m.Header.Get("Status"), m.Header.Get("Description")
	if code == "100" { // it lives
		return
	}
	id, err := strconv.Atoi(strings.TrimPrefix(m.Subject, p.inbox))
	if err != nil {
		return
	}
	p.requests = slices.DeleteFunc(p.requests, func(r request) bool { return r.id == id })
	low := strings.ToLower(text)
	switch {
	case code == "404" || code == "408" || strings.Contains(low, "batch completed"):
	case code == "503":
		p.failed = engine.Errorf(engine.Transient, "%s: it is gone, or JetStream is (create it, or write `declare`)", p.name)
	case strings.Contains(low, "consumer deleted"):
		p.failed = engine.Errorf(engine.Transient, "%s was deleted (create it, or write `declare`)", p.name)
	case strings.Contains(low, "exceeds maxbytes"):
		p.single = true
	case strings.Contains(low, "push based"), strings.Contains(low, "exceeded maxrequest"):
		p.failed = engine.Errorf(engine.Transient, "%s was changed: %s", p.name, text)
	default: // shutdown, another leader, too many requests
		p.pause = time.Now().Add(retryPause)
		p.in.log.Debug("the server ends a request for messages", "status", code, "says", text)
	}
}

func (*pull) trouble() *engine.Trouble { return nil }
