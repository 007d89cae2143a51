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

// pull reads a consumer with pull requests. Messages that were requested and not yet read wait here.
type pull struct {
	in         *input
	conn       *nats.Conn
	name       string // of stream and consumer, for errors
	api        string // subject of pull requests
	inbox      string // prefix of the subjects of replies; the number of the request follows
	sub        *client.Subscription
	ackWait    time.Duration
	maxDeliver int // number of the last delivery of a message; 0: no limit
	prefetch   int
	bytes      int           // maximum bytes of a request
	reasons    bool          // the server accepts a reason with +TERM
	wake       source.Signal // wakes read
	floorAsked time.Time     // when noteAckFloor last queried the consumer; only Renew uses it

	mu          sync.Mutex          // guards the fields below
	waiting     []*arrival          // messages to be read
	requests    []request           // open requests, oldest first
	serial      int                 // number of the last request
	heard       time.Time           // when the server last replied to a request
	pause       time.Time           // no request is sent before
	awaited     int                 // unacknowledged messages of an earlier reader, which are redelivered: see awaitOlder
	redelivered int                 // how many of them have arrived since the last check
	newArrived  bool                // new messages have arrived before them
	grace       time.Time           // when their ack_wait is over at the latest
	single      bool                // the next message is larger than the bytes of a request, so it must be requested alone
	failed      error               // why no more messages will arrive
	stopped     bool                // no read follows
	next        uint64              // the last Ref
	held        map[uint64]*arrival // messages that were read and are not settled, by Ref
	refs        map[uint64]uint64   // their Refs, by sequence
	lost        []uint64            // Refs of messages that were redelivered while they were held
}

// request is an open pull request; left is the number of messages that it can still bring.
type request struct{ id, left int }

// arrival is a message that was delivered and is not acknowledged.
type arrival struct {
	*client.Msg
	nats.Place
	until    time.Time // when its ack_wait is over
	due      time.Time // it must not be read before
	retries  int       // attempts that the server has not counted as deliveries
	settling bool      // its result is known
	settled  time.Time // when its result was first known
}

// id identifies the message in an [attempts.Book].
func (a *arrival) id() string { return fmt.Sprint(a.Stream, " ", a.Sequence) }

const (
	defaultPrefetch = 1000
	expires         = 30 * time.Second       // of a request
	heartbeat       = 5 * time.Second        // between two signs of life of an idle request
	silence         = 12 * time.Second       // after which a request without a sign of life is given up
	retryPause      = 250 * time.Millisecond // before the next request after a failed one
	graceMargin     = 500 * time.Millisecond // for the server to notice that an ack_wait is over
	graceExtra      = 5 * time.Second        // after grace, before another reader is assumed to have the awaited messages
)

// pull finds or creates the consumer, and subscribes to the replies to its requests.
func (in *input) pull(ctx context.Context, conn *nats.Conn) (reader, error) {
	c := &in.cfg
	if d := c.Declare; d != nil && d.Stream != nil {
		if err := d.Stream.Create(ctx, conn, c.Stream); err != nil {
			return nil, err
		}
	}
	info, err := in.consumer(ctx, conn)
	if err != nil {
		return nil, err
	}
	p := &pull{in: in, conn: conn, name: "consumer " + c.Consumer + " of stream " + c.Stream,
		api:   "$JS.API.CONSUMER.MSG.NEXT." + c.Stream + "." + c.Consumer,
		inbox: conn.NewInbox() + ".", ackWait: info.Config.AckWait, prefetch: c.Prefetch, bytes: in.maxBytes / 2,
		reasons: atLeast(conn.ConnectedServerVersion(), 2, 10, 4),
		wake:    source.NewSignal(), held: map[uint64]*arrival{}, refs: map[uint64]uint64{}}
	if in.order {
		p.awaited, p.grace = info.NumAckPending, time.Now().Add(p.ackWait+graceMargin)
	}
	for _, w := range info.Config.BackOff {
		p.ackWait = min(p.ackWait, w)
	}
	if p.maxDeliver = max(info.Config.MaxDeliver, 0); p.maxDeliver > 0 {
		in.log.Warn("the consumer has a max_deliver: a message that is not settled at its last delivery stays in the "+
			"stream, and no reader gets it (remove that limit, and let on_failure limit attempts)",
			"consumer", c.Consumer, "max_deliver", p.maxDeliver)
	}
	if p.prefetch == 0 {
		if p.prefetch = defaultPrefetch; p.maxDeliver > 0 {
			p.prefetch = min(in.hands, defaultPrefetch)
		}
	}
	if n := info.Config.MaxRequestBatch; n > 0 {
		p.prefetch = min(p.prefetch, n)
	}
	if n := info.Config.MaxRequestMaxBytes; n > 0 {
		p.bytes = min(p.bytes, n)
	}
	if p.sub, err = conn.Subscribe(p.inbox+"*", p.arrive); err == nil {
		err = p.sub.SetPendingLimits(-1, -1) // requests limit waiting messages instead
	}
	if err != nil {
		return nil, nats.Explain(err, "listen for messages")
	}
	conn.Watch(p.connectionLost, func(string, error) {})
	in.log.Info("reading "+p.name, "from", conn.Address)
	return p, nil
}

// read waits for a message, and adds all that have arrived.
func (p *pull) read(ctx context.Context, b *engine.Batch) error {
	tick := time.NewTicker(min(time.Second, p.ackWait/4))
	defer tick.Stop()
	for ctx.Err() == nil {
		req, err := p.addWaiting(b)
		if req != nil {
			if e := p.conn.PublishRequest(p.api, p.inbox+strconv.Itoa(req.id), req.body); e != nil {
				p.requestFailed(req.id)
			}
		}
		if err != nil || b.Len() > 0 {
			return err
		}
		p.releaseIfComplete(ctx, true)
		select {
		case <-p.wake:
		case <-ctx.Done():
		case <-tick.C:
			if err := p.checkConsumer(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// pullRequest is a request to send.
type pullRequest struct {
	id   int
	body []byte
}

// addWaiting adds waiting messages to b, as many as there is room for. It returns the next request to send, or nil.
func (p *pull) addWaiting(b *engine.Batch) (*pullRequest, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, all := time.Now(), &nats.Arrivals{}
	if p.awaited > 0 && !now.Before(p.grace.Add(graceExtra)) { // another reader seems to have the rest
		p.releaseAll()
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
		m.Ref, m.Attempt, m.Meta = p.next, p.in.tries.Attempt(a.Deliveries, a.id)+a.retries, meta.At(i)
		p.held[m.Ref], p.refs[a.Sequence] = a, m.Ref
	}
	if p.failed != nil {
		return nil, p.failed
	}
	return p.nextRequest(now), nil
}

// nextRequest returns a request if there is room for its messages, or nil. p.mu is held.
func (p *pull) nextRequest(now time.Time) *pullRequest {
	requested := 0
	for _, r := range p.requests {
		requested += r.left
	}
	n := p.prefetch - len(p.waiting) - requested
	switch {
	case now.Before(p.pause) || p.conn.Down() != nil:
		return nil
	case p.awaited > 0 && now.Before(p.grace.Add(graceExtra)):
		if requested > 0 || p.newArrived && now.Before(p.grace) {
			return nil
		}
		n = p.awaited
	case n < max(1, p.prefetch/2) || p.waitingBytes() >= p.in.maxBytes/2:
		return nil
	}
	return p.newRequest(n, now)
}

// waitingBytes returns the size of the messages that wait to be read. p.mu is held.
func (p *pull) waitingBytes() (n int) {
	for _, a := range p.waiting {
		n += len(a.Data)
	}
	return n
}

// newRequest returns a request for n messages. p.mu is held.
func (p *pull) newRequest(n int, now time.Time) *pullRequest {
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
	if err != nil { // can't happen: the fields are numbers
		panic(err)
	}
	return &pullRequest{p.serial, body}
}

// connectionLost is called when the connection is lost, and the open requests with it.
func (p *pull) connectionLost(error) { p.dropRequests() }

// dropRequests forgets all requests, so that new ones are sent.
func (p *pull) dropRequests() {
	p.mu.Lock()
	p.requests = nil
	p.mu.Unlock()
	p.wake.Set()
}

// requestFailed forgets a request that could not be sent, and delays the next one.
func (p *pull) requestFailed(id int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = slices.DeleteFunc(p.requests, func(r request) bool { return r.id == id })
	p.pause = time.Now().Add(retryPause)
}

// checkConsumer runs at intervals. It checks that the consumer exists if requests have had no reply for too long.
func (p *pull) checkConsumer(ctx context.Context) error {
	if err := p.extend(ctx, nil); err != nil { // Renew is not called while nothing is in flight
		p.in.log.Debug("can't extend the ack_wait of messages that wait to be read", "err", err)
	}
	p.releaseIfComplete(ctx, false)
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
	p.dropRequests()
	return nil
}

// info queries the consumer.
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

// arrive handles a message, or the status of a request.
func (p *pull) arrive(m *client.Msg) {
	defer p.wake.Set()
	place, ok := nats.PlaceOf(m.Reply)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = time.Now()
	if !ok {
		p.handleStatus(m)
		return
	}
	if len(p.requests) > 0 {
		if p.requests[0].left--; p.requests[0].left <= 0 {
			p.requests = p.requests[1:]
		}
	}
	a := &arrival{Msg: m, Place: place, until: p.heard.Add(p.ackWait)}
	if ref, ok := p.refs[a.Sequence]; ok { // the ack_wait of the earlier delivery is over
		p.lost = append(p.lost, ref)
		p.forget(ref)
	}
	if a.Deliveries > 1 { // the earlier delivery may still wait to be read
		p.waiting = slices.DeleteFunc(p.waiting, func(w *arrival) bool { return w.Sequence == a.Sequence })
	}
	if p.stopped {
		_ = p.conn.Publish(m.Reply, []byte("-NAK"))
		return
	}
	p.waiting = append(p.waiting, a)
	p.awaitOlder(a)
}

// awaitOlder holds a message back until all unacknowledged messages of an earlier reader are redelivered, so that none overtakes
// another. A server redelivers returned messages at once, but those of a reader that crashed only after ack_wait, in the order in
// which their ack_wait was last extended. p.mu is held.
func (p *pull) awaitOlder(a *arrival) {
	if p.awaited <= 0 || !p.heard.Before(p.grace.Add(graceExtra)) {
		return
	}
	a.due = p.grace.Add(graceExtra)
	if a.Deliveries == 1 {
		p.newArrived = true
		return
	}
	p.redelivered++
}

// releaseIfComplete releases the messages that awaitOlder holds back if all unacknowledged messages of the consumer are here. It
// asks the server. If onlyIfLikely is set, it does so only after enough messages were redelivered.
func (p *pull) releaseIfComplete(ctx context.Context, onlyIfLikely bool) {
	p.mu.Lock()
	due := p.awaited > 0 && (!onlyIfLikely || p.redelivered >= p.awaited)
	p.mu.Unlock()
	if !due || p.conn.Down() != nil {
		return
	}
	info, err := p.info(ctx)
	if err != nil {
		return // checkConsumer reports the error
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.awaited = info.NumAckPending; p.awaited <= len(p.waiting)+len(p.held) {
		p.releaseAll()
	}
	p.redelivered = 0
}

// releaseAll makes all messages that were held back due, in the order of the stream. p.mu is held.
func (p *pull) releaseAll() {
	p.awaited = 0
	p.wake.Set()
	slices.SortFunc(p.waiting, func(x, y *arrival) int { return cmp.Compare(x.Sequence, y.Sequence) })
	for _, w := range p.waiting {
		w.due = time.Time{}
	}
}

// handleStatus handles the status of a request. p.mu is held.
func (p *pull) handleStatus(m *client.Msg) {
	code, text := m.Header.Get("Status"), m.Header.Get("Description")
	if code == "100" { // a heartbeat
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
		p.failed = engine.Errorf(engine.Transient, "%s: it no longer exists, or JetStream is down (create it, or write `declare`)", p.name)
	case strings.Contains(low, "consumer deleted"):
		p.failed = engine.Errorf(engine.Transient, "%s was deleted (create it, or write `declare`)", p.name)
	case strings.Contains(low, "exceeds maxbytes"):
		p.single = true
	case strings.Contains(low, "push based"), strings.Contains(low, "exceeded maxrequest"):
		p.failed = engine.Errorf(engine.Transient, "%s was changed: %s", p.name, text)
	default: // such as a shutdown, a new leader, or too many requests
		p.pause = time.Now().Add(retryPause)
		p.in.log.Debug("the server has ended a request for messages", "status", code, "description", text)
	}
}

func (*pull) trouble() *engine.Trouble { return nil }
